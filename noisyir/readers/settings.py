"""Settings of reading: distant labels, confusing passages, and answers."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.settings import Fraction, Params, Split

Confidence = Literal["soft", "hard_max", "positive_average", "none"]
Objective = Literal["cds", "supervised", "ds_top", "ds_all", "ds_average", "hard_em"]
Passages = Literal["bm25", "dense", "given"]  # who found them; given: judgements, for close-domain reading


class GoldRunParams(Params):
    """Relevant passages as a run."""

    min_relevance: PositiveInt = Field(1, description="least judgement that counts as relevant")


class SpansParams(Params):
    """Distant labels: where the retrieved passages of a question hold its answers."""

    splits: tuple[Split, ...] = Field(("train",), description="the questions labelled")
    top_k: PositiveInt = Field(20, description="passages of a question")
    max_questions: PositiveInt | None = Field(None, description="questions kept, drawn at random; null: all")
    max_spans: PositiveInt | None = Field(None, description="spans of a question, the best passages' first; null: all")


class ConfusingParams(Params):
    """Passages like one that holds the answer, without it (Eq. 3)."""

    per_passage: PositiveInt = Field(5, description="confusing passages of each passage (K)")
    terms: PositiveInt = Field(64, description="words of the passage that make the BM25 query, the first")
    depth: PositiveInt = Field(50, description="hits looked at to find them")
    k1: PositiveFloat = Field(0.9, description="BM25's term frequency saturation; the pipeline's is bm25.k1")
    b: Fraction = Field(0.4, description="BM25's document length normalisation; the pipeline's is bm25.b")


class ReadParams(Params):
    """Answers of a reader: the best spans over all passages of a question."""

    n_best: PositiveInt = Field(20, description="spans kept of a question")
    max_answer_len: PositiveInt = Field(30, description="tokens of an answer, at most")
    stride: NonNegativeInt = Field(128, description="tokens that two windows of a long passage share")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the encoder's forward pass")


class EnsembleParams(Params):
    """Readings of several readers as one."""

    n_best: PositiveInt = Field(20, description="spans kept of a question")
