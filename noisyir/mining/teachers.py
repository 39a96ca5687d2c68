"""Teachers, one class each: scorers of the documents that a retriever learns to order.

Only their settings and equations are here; each names the stage that runs it.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from noisyir.base.settings import Fraction, Location, Params
from noisyir.base.variants import Variant
from noisyir.mining.candidates import Mask, Rows, Scores
from noisyir.models.settings import ClassifierWeights, PairTokens
from noisyir.retrieval.fusion import min_max
from noisyir.training.settings import CrossFittedRankerParams


class Teacher(Variant):
    """A model that scores lists of documents.

    Attributes:
        reads: Inputs of its scores, out of `lexical` and `vectors`.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.teachers"
    default: ClassVar[str | None] = "hybrid"
    stage: ClassVar[str] = "score_by_retrieval"
    reads: ClassVar[tuple[str, ...]] = ()

    def teachers(self) -> "tuple[Teacher, ...]":
        """The teacher itself, or the teachers it averages."""
        return (self,)

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """Score each document from the inputs that it reads.

        Args:
            query: Query number of each document.
        """
        raise NotImplementedError


class LexicalTeacher(Teacher):
    """Base of teachers that use BM25, alone or with other scores."""

    reads: ClassVar[tuple[str, ...]] = ("lexical",)

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")


class Bm25Teacher(LexicalTeacher, kind="bm25"):
    """BM25 scores."""

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """Return the BM25 scores unchanged."""
        assert lexical is not None
        return lexical


class BiEncoderTeacher(Teacher, kind="bi_encoder"):
    """Inner products of the untrained model's vectors."""

    reads: ClassVar[tuple[str, ...]] = ("vectors",)

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """Return the inner products unchanged."""
        assert dense is not None
        return dense


class HybridTeacher(LexicalTeacher, kind="hybrid"):
    """Convex combination of BM25 and the untrained model, each min-max scaled within a query's documents."""

    reads: ClassVar[tuple[str, ...]] = ("lexical", "vectors")

    weight: Fraction = Field(0.5, description="of the vectors; BM25 has the rest")

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """Return the convex combination."""
        from noisyir.retrieval.fusion import convex_sum

        assert lexical is not None and dense is not None
        return convex_sum(min_max(lexical, query), min_max(dense, query), self.weight)


class CrossEncoderTeacher(Teacher, kind="cross_encoder"):
    """Logits of a sequence classifier that reads query and document together; never a sigmoid, which saturates."""

    stage: ClassVar[str] = "score_by_cross_encoder"

    weights: ClassifierWeights = None
    max_len: PairTokens = 256


class RankerTeacher(Teacher, CrossFittedRankerParams, kind="ranker"):
    """Logits of a ranker trained here on the noisy pairs, without the queries that it then scores."""

    stage: ClassVar[str] = "score_by_ranker"


class FileTeacher(Teacher, kind="file"):
    """Existing scored lists, from a file in any of five formats (docs/how-to/teachers.md)."""

    stage: ClassVar[str] = "import_scores"

    path: Location = Field(None, description="the file: jsonl, json, parquet or a TREC run")


class AverageTeacher(Teacher, kind="average"):
    """Mean of several teachers' scores, each min-max scaled within a query's documents."""

    of: tuple[Teacher, ...] = Field(
        (Bm25Teacher(), BiEncoderTeacher()), min_length=2, description="teachers that count alike"
    )

    @model_validator(mode="after")
    def _all_read_one_pool(self) -> Self:
        if any(isinstance(teacher, FileTeacher) for teacher in self.teachers()):
            raise ValueError("of: a file brings its own documents, which the others do not score: leave it out")
        return self

    def teachers(self) -> tuple[Teacher, ...]:
        """All averaged teachers."""
        return tuple(one for teacher in self.of for one in teacher.teachers())


class PoolParams(Params):
    """Settings of the documents of a query from which a list is chosen."""

    depth: PositiveInt = Field(50, description="hits of each retriever, of BM25 and of the untrained model")


class ListParams(Params):
    """Settings of the lists from which a retriever learns."""

    size: Annotated[int, Field(ge=2)] = Field(16, description="documents of a list, the given ones included")
    candidates: Literal["stratified", "top", "random"] = Field(
        "stratified", description="spread evenly over the teacher's order; its best; or drawn at random"
    )


def stratified(score: Scores, size: int) -> Rows:
    """Places of up to `size` scores that cover their whole range evenly, in the order of choice.

    For each of `size` evenly spaced values from the greatest score to the least, takes the nearest remaining score;
    ties go to the first.

    Source: arXiv:2604.04734, with lists that cover the teacher's scores uniformly; taking the nearest score to each
    value instead of drawing is ours.
    """
    if size >= len(score) or size == 0:
        return np.arange(min(size, len(score)))
    places = np.empty(size, np.int64)
    left = score.astype(np.float64)
    for number, value in enumerate(np.linspace(left.max(), left.min(), size)):
        places[number] = np.argmin(np.abs(left - value))
        left[places[number]] = np.inf
    return places


def average(scores: Sequence[Scores], query: Rows) -> Scores:
    """Mean of several teachers' scores, each min-max scaled within a query's documents."""
    return np.asarray(np.mean([min_max(one.astype(np.float64), query) for one in scores], axis=0))


def chosen(score: Scores, given: Mask, how: ListParams, rng: np.random.Generator) -> Rows:
    """Rows of one query's list: the given ones, and others up to `size` chosen by the teacher's scores.

    Rows are in the order of the ids, which breaks ties. If more than `size` are given, all of them stay.
    """
    others = np.flatnonzero(~given)
    others = others[np.argsort(-score[others], kind="stable")]
    left = max(how.size - int(given.sum()), 0)
    if how.candidates == "top":
        places = np.arange(len(others))[:left]
    elif how.candidates == "random":
        places = rng.permutation(len(others))[:left]
    else:
        places = stratified(score[others], left)
    return np.sort(np.concatenate([np.flatnonzero(given), others[places]]))


def weakness(teacher: float, student: float) -> str | None:
    """Explain why a teacher should not teach this student, by the same measure on the same dev queries; None if it may.

    Source: arXiv:2507.08336, where distillation gains only from a teacher that beats its student.
    """
    if teacher > student:
        return None
    return (
        f"the teacher is no better than its student on dev queries: MRR@10 {teacher:.3f} against {student:.3f}; "
        "distillation is bounded by its teacher: name a better one, or train without"
    )
