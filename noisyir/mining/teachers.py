"""Teachers, a class each: who scores the documents that a retriever is to learn the order of.

Only their settings and equations are here; the stage that runs a teacher is the one that it names.
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from noisyir.base.settings import Fraction, Location, Params
from noisyir.base.variants import Variant
from noisyir.mining.candidates import Mask, Rows, Scores
from noisyir.retrieval.fusion import min_max
from noisyir.training.settings import CrossFittedRankerParams


class Teacher(Variant):
    """Who scores lists of documents.

    stage: the stage that runs it.  reads: of `lexical` and `vectors`, those that it scores by.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.teachers"
    default: ClassVar[str | None] = "hybrid"
    stage: ClassVar[str] = "score_by_retrieval"
    reads: ClassVar[tuple[str, ...]] = ()

    def teachers(self) -> "tuple[Teacher, ...]":
        """Itself, or those of which it is the average."""
        return (self,)

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """A score of each document from what it reads of the two; `query`: the number of each document's query."""
        raise NotImplementedError


class LexicalTeacher(Teacher):
    """By BM25, alone or with others."""

    reads: ClassVar[tuple[str, ...]] = ("lexical",)

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")


class Bm25Teacher(LexicalTeacher):
    """BM25's scores."""

    kind: Literal["bm25"] = "bm25"

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """As they are."""
        assert lexical is not None
        return lexical


class BiEncoderTeacher(Teacher):
    """Inner products of the untrained model's vectors."""

    kind: Literal["bi_encoder"] = "bi_encoder"
    reads: ClassVar[tuple[str, ...]] = ("vectors",)

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """As they are."""
        assert dense is not None
        return dense


class HybridTeacher(LexicalTeacher):
    """BM25 and the untrained model: the convex sum of both, each scaled from 0 to 1 within a query's documents."""

    kind: Literal["hybrid"] = "hybrid"
    reads: ClassVar[tuple[str, ...]] = ("lexical", "vectors")

    weight: Fraction = Field(0.5, description="of the vectors; BM25 has the rest")

    def combined(self, lexical: Scores | None, dense: Scores | None, query: Rows) -> Scores:
        """The sum."""
        from noisyir.retrieval.fusion import convex_sum

        assert lexical is not None and dense is not None
        return convex_sum(min_max(lexical, query), min_max(dense, query), self.weight)


class CrossEncoderTeacher(Teacher):
    """Logits of a sequence classifier that reads query and document together; never a sigmoid, which saturates."""

    kind: Literal["cross_encoder"] = "cross_encoder"
    stage: ClassVar[str] = "score_by_cross_encoder"

    weights: Location = Field(
        None, description="folder or Hugging Face name of a sequence classifier of one label or two"
    )
    max_len: Annotated[int, Field(ge=8)] = Field(256, description="tokens of query and document together that are read")


class RankerTeacher(Teacher, CrossFittedRankerParams):
    """Logits of a ranker of our own, trained on the noisy pairs without the queries that it then scores."""

    kind: Literal["ranker"] = "ranker"
    stage: ClassVar[str] = "score_by_ranker"


class FileTeacher(Teacher):
    """Scored lists that are there already, in a file of any of five shapes (docs/how-to/teachers.md)."""

    kind: Literal["file"] = "file"
    stage: ClassVar[str] = "import_scores"

    path: Location = Field(None, description="the file: jsonl, json, parquet or a TREC run")


class AverageTeacher(Teacher):
    """The mean of several teachers' scores, each scaled from 0 to 1 within a query's documents."""

    kind: Literal["average"] = "average"

    of: tuple[Teacher, ...] = Field(
        (Bm25Teacher(), BiEncoderTeacher()), min_length=2, description="teachers that count alike"
    )

    @model_validator(mode="after")
    def _all_read_one_pool(self) -> Self:
        if any(isinstance(teacher, FileTeacher) for teacher in self.teachers()):
            raise ValueError("of: a file brings its own documents, which the others do not score: leave it out")
        return self

    def teachers(self) -> tuple[Teacher, ...]:
        """All of them."""
        return tuple(one for teacher in self.of for one in teacher.teachers())


class PoolParams(Params):
    """The documents of a query among which a list is chosen."""

    depth: PositiveInt = Field(50, description="hits of each retriever, of BM25 and of the untrained model")


class ListParams(Params):
    """The lists that a retriever learns from."""

    size: Annotated[int, Field(ge=2)] = Field(16, description="documents of a list, the given ones included")
    candidates: Literal["stratified", "top", "random"] = Field(
        "stratified", description="spread evenly over the teacher's order; its best; or drawn at random"
    )


def stratified(score: Scores, size: int) -> Rows:
    """The places of up to `size` scores that cover their whole range evenly, in the order of choice.

    For each of `size` values from the greatest score to the least, evenly spaced, the nearest score that is left; of
    equally near ones the first.
    Source: arXiv:2604.04734, whose lists cover the teacher's scores uniformly; that each value takes the nearest one,
    and none is drawn, is ours.
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
    """The mean of several teachers' scores, each scaled from 0 to 1 within a query's documents."""
    return np.asarray(np.mean([min_max(one.astype(np.float64), query) for one in scores], axis=0))


def chosen(score: Scores, given: Mask, how: ListParams, rng: np.random.Generator) -> Rows:
    """The rows of one query that make its list: the given ones, and others up to `size`, by the teacher's order.

    Rows are in the order of ids, which settles ties.  Where more than `size` are given, all of them stay.
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
    """Why a teacher should not teach this student, by the measure of both on the same dev queries; None: it may.

    Source: arXiv:2507.08336, where distillation gains only from a teacher that beats its student.
    """
    if teacher > student:
        return None
    return (
        f"the teacher is no better than its student on dev queries: MRR@10 {teacher:.3f} against {student:.3f}; "
        "distillation is bounded by its teacher: name a better one, or train without"
    )
