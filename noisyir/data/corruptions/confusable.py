"""Wrong pairs that a lexical search would give: the document shares the query's words, and is not the right one."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pyarrow as pa
from jaxtyping import Int
from pydantic import Field, PositiveInt

from noisyir.data.corruptions import Mismatches, Noise, Spoilt, TrainingPairs, in_turn

if TYPE_CHECKING:
    from noisyir.retrieval.numpy_bm25 import NumpyBm25

_DIGITS = 10  # ids of the pool's documents in the index: their numbers, of equal length, so that both sort alike


class Confusable(Noise):
    """Any training pairs, each with a document that BM25 ranks high for its query."""

    kind: Literal["confusable"] = "confusable"
    needs_queries: ClassVar[bool] = True
    depth: PositiveInt = Field(10, description="drawn among this many best wrong documents by BM25")

    def spoil(self, given: TrainingPairs) -> Spoilt:
        """Each pair's document is uniform over the `depth` that BM25 ranks highest of those that are wrong for it.

        BM25 has Anserini's defaults, over the texts of the training pairs' documents.  A pair whose query shares no
        word with a wrong document is passed over; DataError when too few are left.
        Source: the negatives of Karpukhin et al. (DPR), EMNLP 2020, section 3.2, taken for positives.
        """
        bm25 = _index(given.texts, given.work)
        questions, mismatches, rng = given.questions(), Mismatches(given), given.rng("documents")

        def high_in_rank(row: int) -> int | None:
            wrong = mismatches.first(row, best_first(bm25, questions[row], self.depth), self.depth)
            return mismatches.draw(row, wrong, self.depth, rng) if wrong else None

        need = "a query that shares a word with a document that is wrong for it"
        found = in_turn(self, len(given.query), given.rng("pairs"), high_in_rank, need)
        return Spoilt(np.array(list(found), np.int64), np.array(list(found.values()), np.int64))


def _index(texts: list[str], work: Path) -> "NumpyBm25":
    from noisyir.retrieval.numpy_bm25 import NumpyBm25, build
    from noisyir.retrieval.settings import Bm25Params

    names = [f"{number:0{_DIGITS}d}" for number in range(len(texts))]
    columns = {"doc_id": names, "title": [""] * len(texts), "text": texts}
    pool = pa.table(columns, pa.schema([(name, pa.string()) for name in columns]))
    params = Bm25Params()
    with TemporaryDirectory(dir=work) as folder:
        build(pool.to_batches(), Path(folder) / "pool")
        return NumpyBm25(Path(folder) / "pool", k1=params.k1, b=params.b)


def best_first(bm25: "NumpyBm25", question: str, size: int) -> Iterator[Int[np.ndarray, " block"]]:
    """The documents that share a word with the question, the best first, in blocks; equal ones by their numbers."""
    if (scores := bm25.scores(question)) is None:
        return
    left = np.flatnonzero(scores)
    while len(left):  # sorting them all would take longer than scoring them
        least = np.partition(scores[left], -size)[-size] if len(left) > size else 0.0
        best = left[scores[left] >= least]
        yield best[np.argsort(-scores[best], kind="stable")]
        left, size = left[scores[left] < least], 4 * size
