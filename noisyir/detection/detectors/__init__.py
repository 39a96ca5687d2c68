"""Detectors, a file each: how suspect a pair of query and document is.  What is done about it is decided elsewhere.

A detector scores each pair, and beside it the wrong documents that were made up for its query: the nulls that the
observed scores are held against.  Higher is more suspect.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from pydantic import Field, PositiveInt

from noisyir.base.variants import Variant
from noisyir.detection.combine import Scores

if TYPE_CHECKING:
    from noisyir.detection.collection import EncodedCollection
    from noisyir.detection.competitors import Competitors
    from noisyir.detection.synthetic import References
    from noisyir.engine.runtime import Runtime
    from noisyir.models.bi_encoder import BiEncoder
    from noisyir.models.settings import InitModelParams
    from noisyir.training.batches import NumberedPairs, TrainingPairs
    from noisyir.training.examples import TrainingDocuments
    from noisyir.training.run import TrainingContext


@dataclass(frozen=True)
class PairsToScore:
    """The training pairs, and all that a detector may look at; functions make what takes long once it is asked for.

    encoder: the model that the pipeline starts from; tokenised: the pairs as it reads them; collection: as it sees all
    documents, for detectors that search (`Detector.searches`).
    wrong: the documents made up for each pair, as rows of documents.
    query_texts: of each query that `pairs` number; read_documents: the texts of `documents`.
    rng: a generator for a purpose; training: the context of a training run, for detectors that train models.
    lexical_index: the folder of BM25's index, where the detector asks for one (`Detector.lexical`).
    read_sources: for each of `documents` the number of where it came from, -1 where nothing says.
    """

    encoder: "Callable[[], BiEncoder]"
    tokenised: "Callable[[], TrainingPairs]"
    collection: "Callable[[], EncodedCollection]"
    pairs: "NumberedPairs"
    wrong: "References"
    documents: "TrainingDocuments"
    query_texts: list[str]
    read_documents: Callable[[], list[str]]
    rng: Callable[..., np.random.Generator]
    training: "TrainingContext"
    runtime: "Runtime"
    progress: Callable[[int, int | None, str], None]
    lexical_index: Path | None
    read_sources: Callable[[], np.ndarray]

    def by_text(self, suspicion: Callable[[str, str], float]) -> Scores:
        """Scores of each pair and of its wrong documents by a function of the query's text and the document's."""
        read = self.read_documents()
        asked = [self.query_texts[row] for row in self.pairs.query]

        def scores(rows: np.ndarray) -> np.ndarray:
            pairs = zip(asked, rows, strict=True)
            return np.array([suspicion(query, read[row]) for query, row in pairs], np.float32)

        own = self.pairs.passage
        made_up = np.column_stack([scores(rows) for rows in self.wrong.tried(own).T])
        return Scores(scores(own), self.wrong.by_null(made_up))


@dataclass(frozen=True)
class DetectorOutput:
    """The scores of the pairs and of their wrong documents; of detectors that search, what they would pair instead.

    features: (pair, feature) as `noise.features` makes them, for what learns from judgements.
    reading: of detectors that may leave pairs unread, what they read, in one sentence.
    """

    scores: Scores
    competitors: "Competitors | None" = None
    features: np.ndarray | None = None
    reading: str | None = None


class Detector(Variant):
    """How suspect each pair is, by one detector.

    searches: whether it searches the whole collection, and so finds what would be paired instead.
    lexical: whether it wants an index of BM25.  describes: whether it gives features beside scores.
    draws_nulls: whether it draws the documents of all nulls itself, but for the random ones.
    draws: documents drawn at random for each pair; with fewer than three the null of the rate cannot be checked.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.detectors"
    default: ClassVar[str | None] = "ensemble"
    renamed: ClassVar[Mapping[str, str]] = {"detector": "kind"}
    searches: ClassVar[bool] = False
    lexical: ClassVar[bool] = False
    describes: ClassVar[bool] = False
    draws_nulls: ClassVar[bool] = False
    draws: ClassVar[int] = 9

    neighbours: PositiveInt = Field(
        10, description="documents nearest to the best other one that are scored next to a pair's own"
    )

    def score(self, given: PairsToScore) -> DetectorOutput | Scores:
        """Score all pairs."""
        raise NotImplementedError

    def check_ready(self) -> None:
        """MissingPackageError where what it needs is not on this machine."""

    @property
    def trainings(self) -> int:
        """How many models it trains; 0 where it takes the one given."""
        return 0

    @property
    def epochs_trained(self) -> int:
        """Passes over the pairs that its models have made."""
        return 0

    @property
    def negatives_needed(self) -> int:
        """Mined negatives that it wants for each query."""
        return 0

    def resolved(self, model: "InitModelParams") -> Self:
        """With all that it leaves to the experiment's model, or to what this machine has, written out for the key."""
        return self

    def untrained(self) -> Self:
        """The same detector by the given model, where it would train its own."""
        return self

    def weights_digest(self) -> str | None:
        """A digest of weights of its own, for the key; None where it has none."""
        return None
