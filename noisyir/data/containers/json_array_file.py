"""A JSON file that is one array of objects.  Nothing else is in it."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers import FIRST_ROWS, Check, Row, accept
from noisyir.data.json_arrays import json_array
from noisyir.data.leniency import bad_row
from noisyir.data.text_files import open_to_write


@dataclass(frozen=True)
class JsonArray:
    """The objects of an array, read one by one; the columns are the fields of the first 100."""

    unit: str = "item"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The fields of the first items, in their order."""
        return tuple(dict.fromkeys(chain.from_iterable(row for _, row in islice(json_array(path), FIRST_ROWS))))

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The items, numbered from 1."""
        for number, row in json_array(path):
            try:
                check(number, row.keys())
            except DataError as error:
                bad_row(f"{path} item", number, error)
            else:
                yield number, {name: row.get(name) for name in columns}

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """An item a line, between brackets."""
        with open_to_write(path) as out:
            before = b"[\n"
            for row in rows:
                out.write(before + json.dumps(row, ensure_ascii=False).encode())
                before = b",\n"
            out.write(b"[]\n" if before == b"[\n" else b"\n]\n")


def container(suffix: str) -> JsonArray:
    """An array."""
    return JsonArray()
