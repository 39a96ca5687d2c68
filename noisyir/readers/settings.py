"""Reader settings: distant labels, confusing passages, training, answers and their measures."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.base.settings import Fraction, LearningRate, Params, Split
from noisyir.models.settings import HeadedParams
from noisyir.training.settings import DescentParams

Confidence = Literal["soft", "hard_max", "positive_average", "none"]
Objective = Literal["cds", "supervised", "ds_top", "ds_all", "ds_average", "hard_em"]
Passages = Literal["bm25", "dense", "given"]  # source; given: judgements, for close-domain reading


class GoldRunParams(Params):
    """Relevant passages as a run."""

    min_relevance: PositiveInt = Field(1, description="least judgement that counts as relevant")


class SpansParams(Params):
    """Distant labels: positions of answers in a question's retrieved passages."""

    splits: tuple[Split, ...] = Field(("train",), description="the questions labelled")
    top_k: PositiveInt = Field(20, description="passages of a question")
    max_questions: PositiveInt | None = Field(None, description="questions kept, drawn at random; null: all")
    max_spans: PositiveInt | None = Field(None, description="spans of a question, the best passages' first; null: all")


class ConfusingParams(Params):
    """Confusing passages: similar to one with the answer, but without it (Eq. 3)."""

    per_passage: PositiveInt = Field(5, description="confusing passages of each passage (K)")
    terms: PositiveInt = Field(64, description="words of the passage that make the BM25 query, the first")
    depth: PositiveInt = Field(50, description="hits looked at to find them")
    k1: PositiveFloat = Field(0.9, description="BM25's term frequency saturation; the pipeline's is bm25.k1")
    b: Fraction = Field(0.4, description="BM25's document length normalisation; the pipeline's is bm25.b")


class ReadParams(Params):
    """A reader's answers: the best spans over all passages of a question."""

    n_best: PositiveInt = Field(20, description="spans kept of a question")
    max_answer_len: PositiveInt = Field(30, description="tokens of an answer, at most")
    stride: NonNegativeInt = Field(128, description="tokens that two windows of a long passage share")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the encoder's forward pass")


class EnsembleParams(Params):
    """Merged answers of several readers."""

    n_best: PositiveInt = Field(20, description="spans kept of a question")


class InitReaderParams(HeadedParams):
    """The reader before training: an encoder and a new span head."""

    max_len: Annotated[int, Field(ge=16)] = Field(384, description="tokens of a window: question and passage")
    question_max_len: PositiveInt = Field(64, description="tokens of a question that are read")


class TrainReaderParams(DescentParams):
    """Training a reader on distant labels; defaults follow CDS (Bian et al., Findings of EMNLP 2023)."""

    objective: Objective = Field("cds", description="the loss; supervised: cross-entropy on given passages")
    confidence: Confidence = Field(
        "positive_average", description="cds: the evidence of Eq. 10 to 14; none: equal shares"
    )
    contrast: Literal["spans", "passages"] = Field(
        "spans",
        description="cds: the debias and denoise losses; or in place of both passages with an answer and "
        "without, by alpha",
    )
    alpha: NonNegativeFloat = Field(1.0, description="cds: weight of the debias loss; 0: none")
    beta: NonNegativeFloat = Field(1.0, description="cds: weight of the denoise loss; 0: none")
    confidence_decay: Fraction = Field(0.8, description="cds: of the moving average of confidences (lambda)")
    updates_per_epoch: PositiveInt = Field(6, description="cds: how often confidences are estimated again")
    temperature: PositiveFloat = Field(0.1, description="cds: divides cosines in the contrastive losses")
    epochs: PositiveInt = Field(3, description="passes over the questions")
    batch_size: PositiveInt = Field(32, description="questions a step")
    confusing_share: NonNegativeFloat = Field(
        0.4, description="cds: confusing passages read in a step, per passage with an instance, drawn at random"
    )
    instances: PositiveInt | None = Field(
        None, description="instances of a question in a step, drawn at random; null: all of them"
    )
    learning_rate: LearningRate = Field(2e-5, description="the peak, after warm-up")
    clip_norm: PositiveFloat | None = Field(1.0, description="largest gradient norm of a step; null: any")
    n_best: PositiveInt = Field(20, description="spans that the probability of a counterfactual is a softmax over")
    max_answer_len: PositiveInt = Field(30, description="tokens of an answer, at most")
    top_passages: PositiveInt = Field(5, description="ds_top: passages of a question that are trained on")
    hard_em_steps: PositiveInt = Field(4000, description="hard_em: steps over which the hard loss takes over (tau)")
    questions_at_once: PositiveInt | None = Field(
        None, description="questions through the reader together; fewer need less memory, and the loss is the same"
    )


class ScoreReadingParams(Params):
    """Exact match and F1 of the answers."""

    normalisation: Literal["squad", "triviaqa"] = Field(
        "squad", description="punctuation is deleted (SQuAD's script), or becomes a space (TriviaQA's)"
    )
    splits: tuple[Split, ...] = Field(("dev",), description="the splits scored")


class ScoreConfidenceParams(Params):
    """How well confidences separate correct from wrong labels; no settings."""


class LabelSectionParams(Params):
    """The report's section on distant labels."""

    examples: NonNegativeInt = Field(5, description="questions that gain most, and that lose most, at most")


class BenchSectionParams(Params):
    """The bench's section on confidences; no settings."""
