"""JSON lines: an object a line.  Nothing but that; an array of objects is another container."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers import FIRST_ROWS, Check, Row, accept
from noisyir.data.leniency import bad_row
from noisyir.data.text_files import json_lines, open_to_write


@dataclass(frozen=True)
class JsonLines:
    """An object a line; the columns are the fields of the first 100."""

    unit: str = "line"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The fields of the first lines, in their order."""
        return tuple(dict.fromkeys(chain.from_iterable(row for _, row in islice(json_lines(path), FIRST_ROWS))))

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The lines that are not blank."""
        for number, row in json_lines(path):
            try:
                check(number, row.keys())
            except DataError as error:
                bad_row(f"{path} line", number, error)
            else:
                yield number, {name: row.get(name) for name in columns}

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """A line a row."""
        with open_to_write(path) as out:
            out.writelines(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def container(suffix: str) -> JsonLines:
    """JSON lines."""
    return JsonLines()
