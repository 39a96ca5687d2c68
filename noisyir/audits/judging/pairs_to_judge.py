"""The pairs to judge: their texts and other documents for their queries, without the machine's verdicts."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from noisyir.audits.texts import common_words, texts_of
from noisyir.base.artifact import BY_PAIR
from noisyir.detection.judgements import Pair
from noisyir.engine.meta import Ref
from noisyir.engine.store import Store
from noisyir.engine.tables import pair_ids

Array = np.ndarray
ReadTexts = Callable[[Iterable[str]], Mapping[str, str]]

OTHERS = 3  # other documents shown with a pair
TEXT_CHARS = 4000  # shown of a text
_TEXTS_FOR_COMMON = 2000


@dataclass(frozen=True)
class ShownDocument:
    """A shown document; `cut` if its text goes on."""

    doc_id: str
    text: str
    cut: bool


@dataclass(frozen=True)
class Shown:
    """A pair as a judge sees it, with other documents found for its query."""

    query_id: str
    query: str
    document: ShownDocument
    others: tuple[ShownDocument, ...]

    def as_json(self) -> dict[str, Any]:
        """For the page."""
        return asdict(self)


@dataclass
class PairsToJudge:
    """The audited pairs, ordered by their ids, which no verdict changes.

    Attributes:
        audit: query_id, doc_id, query, document and score of each pair.
        others: Ids of other documents found for a pair's query, best first.
        read_texts: Reader of full texts by id.
    """

    audit: pa.Table
    others: Mapping[Pair, Sequence[str]]
    read_texts: ReadTexts
    _texts: dict[str, str] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @cached_property
    def ids(self) -> list[Pair]:
        """Query and document of each row."""
        return pair_ids(self.audit)

    @cached_property
    def row_of(self) -> dict[Pair, int]:
        """The row of each pair."""
        return {pair: row for row, pair in enumerate(self.ids)}

    @cached_property
    def scores(self) -> Float[Array, " pair"]:
        """The detectors' score of each pair: the higher, the likelier wrong."""
        return np.asarray(self.audit["score"].to_numpy(), np.float64)

    @cached_property
    def common(self) -> list[str]:
        """Words too frequent among queries and documents to mark as shared."""
        some = self.audit.slice(0, _TEXTS_FOR_COMMON)
        return sorted(common_words([*some["query"].to_pylist(), *some["document"].to_pylist()]))

    def prepare(self, rows: Iterable[int]) -> None:
        """Read the texts that these pairs show in one pass over the collection."""
        wanted = {doc_id for row in rows for doc_id in self._others(row)}
        with self._lock:
            if missing := wanted - self._texts.keys():
                self._texts |= self.read_texts(missing)

    def shown(self, row: int) -> Shown:
        """The pair as a judge sees it."""
        self.prepare([row])
        query_id, doc_id = self.ids[row]
        others = [_document(other, self._texts[other]) for other in self._others(row) if other in self._texts]
        own = _document(doc_id, self.audit["document"][row].as_py())
        return Shown(query_id, self.audit["query"][row].as_py()[:TEXT_CHARS], own, tuple(others))

    def offers(self, pair: Pair, doc_id: str) -> bool:
        """Whether a document is among the others that a pair is shown with."""
        return pair in self.row_of and doc_id in self._others(self.row_of[pair])

    def _others(self, row: int) -> list[str]:
        pair = self.ids[row]
        return [other for other in self.others.get(pair, ()) if other != pair[1]][:OTHERS]


def pairs_to_judge(audit: pa.Table, given: Iterable[tuple[str, Ref]], store: Store) -> PairsToJudge:
    """The pairs of an audit; `given` are its stage's inputs, with competitors and corpus."""
    inputs = dict(given)
    audit = audit.select(["query_id", "doc_id", "query", "document", "score", "better"])
    audit = audit.sort_by(BY_PAIR).combine_chunks()
    others = audit.rename_columns([*audit.column_names[:-1], "competitors"])
    if found := inputs.get("competitors"):
        others = store.builds.table(found, ["query_id", "doc_id", "competitors"])
    by_pair = dict(zip(pair_ids(others), (ids[: OTHERS + 1] for ids in others["competitors"].to_pylist()), strict=True))

    def read_texts(wanted: Iterable[str]) -> Mapping[str, str]:
        return texts_of(store.builds.batches(inputs["corpus"], ("doc_id", "title", "text")), wanted)

    return PairsToJudge(audit, by_pair, read_texts)


def _document(doc_id: str, text: str) -> ShownDocument:
    return ShownDocument(doc_id, text[:TEXT_CHARS], len(text) > TEXT_CHARS)
