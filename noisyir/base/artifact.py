"""Artifacts, and the columns of one that a stage reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from noisyir.base.errors import SchemaError

STRING, I32, F32, F64, BOOL = pa.string(), pa.int32(), pa.float32(), pa.float64(), pa.bool_()
STRINGS, FLOATS = pa.list_(STRING), pa.list_(F32)
PAIR = {"query_id": STRING, "doc_id": STRING}
PAIR_KEY = ("query_id", "doc_id")
BY_PAIR = [(name, "ascending") for name in PAIR_KEY]
RUN = {**PAIR, "rank": I32, "score": F32}


@dataclass(frozen=True)
class Artifact:
    """A table's contract, or without columns a folder of files (an index, a model, a report)."""

    name: str
    version: int
    columns: Mapping[str, pa.DataType] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    nullable: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of every part of the table."""
        return pa.schema([pa.field(name, kind, name in self.nullable) for name, kind in self.columns.items()])

    def __getitem__(self, columns: str | tuple[str, ...]) -> "Read":
        """Read only these columns: `CORPUS["doc_id", "text"]`."""
        names = (columns,) if isinstance(columns, str) else columns
        if unknown := [name for name in names if name not in self.columns]:
            raise SchemaError(
                "base.no_column", name=self.name, version=self.version, unknown=unknown, columns=list(self.columns)
            )
        return Read(self, names)

    def all(self) -> "Read":
        """Read every column, or the whole folder."""
        return Read(self, tuple(self.columns))


@dataclass(frozen=True)
class Read:
    """A stage's claim on columns of an artifact, perhaps optional, perhaps from several producers."""

    artifact: Artifact
    columns: tuple[str, ...]
    optional: bool = False
    many: bool = False

    def or_none(self) -> "Read":
        """Make the input optional, for a method that can be switched off."""
        return replace(self, optional=True)

    def each(self) -> "Read":
        """Take any number of inputs, each under a label that the pipeline chooses."""
        return replace(self, many=True)
