"""LlamaIndex's EmbeddingQAFinetuneDataset: one JSON object of queries, corpus and relevant_docs."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Field

from noisyir.base.settings import Location
from noisyir.data import shapes
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats import FormatOfRows
from noisyir.data.json_objects import LLAMA_INDEX
from noisyir.data.leniency import row
from noisyir.data.records import Document
from noisyir.data.spelt import text_in
from noisyir.data.text_files import read_object

_COLUMNS = ("query_id", "query", LLAMA_INDEX[2])


class LlamaIndex(FormatOfRows, kind="llama_index"):
    """LlamaIndex's data set for fine-tuning embeddings."""

    path: Location = Field(None, description="the file (json)")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its relevant_docs."""
        return set(_COLUMNS) <= set(row)

    def open(self, workers: int | None = None) -> "LlamaIndexFile":
        """The file's queries."""
        rows = shapes.open_rows("llama_index", self.path, _COLUMNS)
        return LlamaIndexFile(rows.path.stem, rows, _COLUMNS, _example)


class LlamaIndexFile(ShapedRows):
    """A query with the ids of its documents; the file's corpus is read whole, with documents of no query."""

    def given_documents(self) -> Iterator[Document]:
        """The nodes, by their ids."""
        place = f"{self.file.path} node"
        for number, (name, text) in enumerate(read_object(self.file.path)["corpus"].items(), 1):
            with row(place, number):
                yield Document(name, "", text_in(text, name, f"{place} {number}"), place, number)


def _example(row: Mapping[str, Any], where: str) -> Example:
    named = shapes.identities(row, LLAMA_INDEX[2], where)
    query_id, query = shapes.identity(row, "query_id", where), shapes.text(row, "query", where)
    return Example(query, [Passage("", "", name) for name in named], (), query_id)
