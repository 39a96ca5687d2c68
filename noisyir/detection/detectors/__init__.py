"""Detectors, one per file: how suspect a pair of query and document is. Decisions about it are made elsewhere.

A detector scores each pair and, for comparison, the wrong documents made up for its query, which are the nulls that
observed scores are compared with. Higher means more suspect.
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
    """The training pairs and everything a detector may use; functions compute expensive parts on demand.

    Attributes:
        encoder: The model that the pipeline starts from.
        tokenised: The pairs as tokenised for it.
        collection: All documents as the model sees them, for detectors that search (`Detector.searches`).
        wrong: Documents made up for each pair, as rows of documents.
        query_texts: Text of each query numbered in `pairs`.
        read_documents: Reads the texts of `documents`.
        rng: Generator for a given purpose.
        training: Context of a training run, for detectors that train models.
        lexical_index: Folder of the BM25 index, for detectors that need one (`Detector.lexical`).
        read_sources: Reads the source number of each of `documents`; -1 if unknown.
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
        """Score each pair and its wrong documents by a function of the query's and the document's text."""
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
    """Scores of the pairs and their wrong documents and, for detectors that search, the competitors.

    Attributes:
        features: (pair, feature) as built by `noise.features`, for learning from judgements.
        reading: One sentence on the pairs that were read, if the detector may skip some.
    """

    scores: Scores
    competitors: "Competitors | None" = None
    features: np.ndarray | None = None
    reading: str | None = None


class Detector(Variant):
    """Settings and scoring of one detector.

    Attributes:
        searches: Whether it searches the whole collection and so finds competitors.
        lexical: Whether it needs a BM25 index.
        describes: Whether it returns features in addition to scores.
        draws_nulls: Whether it draws the documents of all nulls but the random one itself.
        draws: Documents drawn at random for each pair; with fewer than three the null of the rate cannot be checked.
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
        """Check that required packages are installed.

        Raises:
            MissingPackageError: If one is missing on this machine.
        """

    @property
    def trainings(self) -> int:
        """Number of models it trains; 0 if it uses the given one."""
        return 0

    @property
    def epochs_trained(self) -> int:
        """Number of passes over the pairs made in training its models."""
        return 0

    @property
    def negatives_needed(self) -> int:
        """Number of mined negatives needed for each query."""
        return 0

    def resolved(self, model: "InitModelParams") -> Self:
        """Fill in every default that depends on the experiment's model or this machine, for the key."""
        return self

    def untrained(self) -> Self:
        """Return the same detector using the given model instead of training its own."""
        return self

    def weights_digest(self) -> str | None:
        """Digest of the detector's own weights, for the key; None if it has none."""
        return None
