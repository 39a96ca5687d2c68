"""JSON objects: one on each line, or all in one array or object."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.containers import FIRST_ROWS, Check, Row, accept
from noisyir.data.json_arrays import json_array
from noisyir.data.json_objects import rows_of
from noisyir.data.leniency import bad_row
from noisyir.data.text_files import json_lines, open_to_write


@dataclass(frozen=True)
class JsonFile:
    """Objects, read one by one; the columns are the fields of the first 100."""

    unit: str

    def columns(self, path: Path) -> tuple[str, ...]:
        """The fields of the first objects, in their order."""
        return tuple(dict.fromkeys(chain.from_iterable(row for _, row in islice(self._objects(path), FIRST_ROWS))))

    def rows(self, path: Path, columns: Sequence[str], check: Check = accept) -> Iterator[Row]:
        """The items, numbered from 1, or the lines that are not blank."""
        for number, row in self._objects(path):
            try:
                check(number, row.keys())
            except DataError as error:
                bad_row(f"{path} {self.unit}", number, error)
            else:
                yield number, {name: row.get(name) for name in columns}

    def write(self, path: Path, rows: Iterator[Mapping[str, Any]]) -> None:
        """An object a line, or an array."""
        start, between, end, nothing = (
            (b"", b"\n", b"\n", b"") if self.unit == "line" else (b"[\n", b",\n", b"\n]\n", b"[]\n")
        )
        with open_to_write(path) as out:
            before = start
            for row in rows:
                out.write(before + json.dumps(row, ensure_ascii=False).encode())
                before = between
            out.write(end if before == between else nothing)

    def _objects(self, path: Path) -> Iterator[Row]:
        if self.unit == "row":
            return enumerate(rows_of(path), 1)
        return json_lines(path) if self.unit == "line" else json_array(path)
