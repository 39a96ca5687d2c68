"""Data sets by the ids of the package ir_datasets, which downloads missing files."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.errors import DataError, MissingPackageError, install_hint
from noisyir.base.settings import Split
from noisyir.data.containers.split_folder import SPLIT_WORDS
from noisyir.data.formats import Format
from noisyir.data.leniency import row
from noisyir.data.records import Document, Judgement, Query, Record


class IrDatasets(Format, kind="ir_datasets"):
    """A data set of the package ir_datasets, which may download it from its publishers."""

    holds_pairs: ClassVar[bool] = False
    id: str = Field("", description="the data set's id there, such as beir/nfcorpus/test")
    split: Split | None = Field(None, description="split of the queries; null: the id's last word, else test")

    def open(self, workers: int | None = None) -> "IrDataset":
        """The data set; nothing is downloaded yet."""
        with MissingPackageError.wrapping("data.ir_datasets_missing", ImportError, install_hint=install_hint("irds")):
            import ir_datasets
        with DataError.wrapping("data.ir_datasets_unknown_id", KeyError, AttributeError, id=self.id):
            found = ir_datasets.load(self.id)
        if not found.has_docs() or not found.has_queries():
            raise DataError("data.ir_datasets_incomplete", id=self.id)
        split = self.split or SPLIT_WORDS.get(self.id.split("/")[-1], "test")
        return IrDataset(f"ir_datasets:{self.id}", found, split)


@dataclass(frozen=True)
class IrDataset:
    """The records of the package."""

    name: str
    given: Any
    split: Split

    def digest(self) -> str:
        """The id: its data does not change."""
        return self.name

    def documents(self) -> Iterator[Document]:
        """Title and text, or the package's default text."""
        for place, number, document in self._given("docs", "document"):
            with row(place, number):
                title = getattr(document, "title", "") or ""
                text = getattr(document, "text", None) or document.default_text()
                yield Document(document.doc_id, title, text, place, number)

    def queries(self) -> Iterator[Query]:
        """Every query's text."""
        for place, number, query in self._given("queries", "query"):
            with row(place, number):
                yield Query(query.query_id, query.default_text(), (), place, number)

    def judgements(self) -> Iterator[Judgement]:
        """The qrels, all grades."""
        for place, number, qrel in self._given("qrels", "judgement") if self.given.has_qrels() else ():
            with row(place, number):
                yield Judgement(qrel.query_id, qrel.doc_id, int(qrel.relevance), self.split, None, place, number)

    def _given(self, what: str, called: str) -> Iterator[tuple[str, int, Any]]:
        """The package's records of a kind, with place and number; DataError if a download fails."""
        try:
            for number, one in enumerate(getattr(self.given, f"{what}_iter")(), 1):
                yield f"{self.name} {called}", number, one
        except OSError as error:  # of requests, too
            raise DataError(
                "data.ir_datasets_no_download", name=self.name, records=what, error=str(error)[:80]
            ) from error

    def records(self) -> Iterator[Record]:
        """Documents, then queries, then judgements."""
        return chain(self.documents(), self.queries(), self.judgements())

    def facts(self) -> dict[str, Any]:
        """The version of the package."""
        from importlib.metadata import version

        return {"ir_datasets": version("ir_datasets")}
