"""The reader learns from labelled spans: by contrastive distant supervision, or by what that is compared with.

A step has whole questions.  Each distinct window of a question is read once, however many spans it has; the losses
share its states, and each instance's probability feeds the next estimate of confidences at no further cost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.models.at_once import keep_fewer_activations
from noisyir.models.question_passage import OffsetTokens, PairTokenizer
from noisyir.models.text_tokenizer import Tokens
from noisyir.readers.answer_spans import window_around
from noisyir.readers.cds import (
    counterfactual,
    cross_entropy,
    debias,
    denoise,
    evidence,
    initial,
    n_best_chance,
    shares,
    span_set_loss,
    updated,
)
from noisyir.readers.model import Reader, Reads, Spans
from noisyir.readers.settings import Confidence, TrainReaderParams
from noisyir.training.batches import Batches, Ragged, Rng, Rows
from noisyir.training.examples import Numbering
from noisyir.training.full_size import full_texts
from noisyir.training.gradients import seeded
from noisyir.training.learner import Learner, Tensors
from noisyir.training.run import Point, TrainingContext, TrainingRun
from noisyir.training.throughput import judging

PASSAGES_READ = 20  # of a question in a dry run: as many as the papers retrieve
_MOST_HARD = 0.8  # of Hard-EM's steps, at most, take the least loss
Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Instances:
    """Labelled spans in the order of their questions, then passages.

    question, window, first, last: by instance; the last two are tokens of its window, inclusive.
    window_question, window_passage, window_first, window_stop: by distinct window; tokens of its passage.
    confusing: for each window, the passages that are confused with its own.
    score: of the passage for the question, by instance.
    """

    questions: Tokens
    passages: OffsetTokens
    question: Rows
    window: Rows
    first: Rows
    last: Rows
    score: npt.NDArray[np.float64]
    window_question: Rows
    window_passage: Rows
    window_first: Rows
    window_stop: Rows
    confusing: Ragged

    def __len__(self) -> int:
        return len(self.question)

    def draw(self, question: int, most: int | None, share: float, rng: np.random.Generator) -> "DrawnInstances":
        """At most `most` of a question's instances, and `share` times as many confusing passages as they have windows.

        A fraction of a passage is a chance of one.  A passage is the likelier drawn, the more instances it confuses;
        a question with one instance gets none, as its denoise loss is 0 whatever the passages.
        """
        rows = np.arange(*np.searchsorted(self.question, [question, question + 1]))
        if most is not None and len(rows) > most:
            rows = np.sort(rng.choice(rows, most, replace=False))
        windows, place, count = np.unique(self.window[rows], return_inverse=True, return_counts=True)
        if share == 0.0 or len(rows) < 2:
            return DrawnInstances(rows, windows, place, np.empty(0, np.int64), np.zeros((len(rows), 0), bool))
        of_window, passage = self.confusing.take(windows)
        candidates, inverse = np.unique(passage, return_inverse=True)
        likely = np.log(np.bincount(inverse, weights=count[of_window], minlength=len(candidates)))
        wanted = int(share * len(windows) + rng.random())
        chosen = np.sort(np.argsort(-(likely + rng.gumbel(size=len(candidates))))[:wanted])
        attracts = np.zeros((len(windows), len(candidates)), bool)
        attracts[of_window, inverse] = True
        return DrawnInstances(rows, windows, place, candidates[chosen], attracts[place][:, chosen])


@dataclass(frozen=True)
class DrawnInstances:
    """Of one question: instances, their windows and each one's among these, confusing passages and whose they are."""

    instances: Rows
    windows: Rows
    place: Rows
    confusing: Rows
    attracts: npt.NDArray[np.bool_]


def windows_and_spans(instances: Instances, drawn: list[DrawnInstances], room: Rows) -> tuple[Tokens, Tokens, Spans]:
    """Questions and passage windows to read, those of instances, then the confusing ones, and the instances' spans.

    room: how many tokens of a passage fit beside each question.
    """
    windows = np.concatenate([one.windows for one in drawn])
    begin = np.cumsum([0, *(len(one.windows) for one in drawn)])
    place = np.concatenate([one.place + start for one, start in zip(drawn, begin[:-1], strict=True)])
    rows = np.concatenate([one.instances for one in drawn])
    asked = np.array([instances.question[one.instances[0]] for one in drawn])
    confusing = np.concatenate([one.confusing for one in drawn])
    confused = np.repeat(asked, [len(one.confusing) for one in drawn])
    stop = np.minimum(instances.passages.tokens.lengths[confusing], room[confused])
    questions = instances.questions.take(np.concatenate([instances.window_question[windows], confused]))
    passages = instances.passages.windows(
        np.concatenate([instances.window_passage[windows], confusing]),
        np.concatenate([instances.window_first[windows], np.zeros_like(confusing)]),
        np.concatenate([instances.window_stop[windows], stop]),
    )
    return questions, passages, Spans(place, instances.first[rows], instances.last[rows])


def training_instances(
    tokenizer: PairTokenizer, spans: pa.Table, questions: pa.Table, passages: Mapping[str, str], confusing: pa.Table
) -> tuple[Instances, pa.Table]:
    """Number and tokenise labelled spans; also the spans that are kept, in the same order.

    spans: query_id, doc_id, start, end, score; questions: query_id, text; passages: texts by id, those of spans and of
    `confusing` (query_id, doc_id, confusing).  Left out is a span without a token, or longer than half of a window.
    DataError when none is left.
    """
    spans = spans.sort_by([(name, "ascending") for name in ("query_id", "doc_id", "start", "end")]).combine_chunks()
    documents = Numbering(pa.array(sorted(passages), pa.string()), "documents")
    tokens = tokenizer.passages([passages[doc_id] for doc_id in sorted(passages)])
    asked = questions.filter(pc.is_in(questions["query_id"], value_set=spans["query_id"].unique())).sort_by("query_id")
    numbering = Numbering(asked["query_id"].combine_chunks(), "queries")
    read = tokenizer.questions(asked["text"].to_pylist())
    question, passage = numbering.rows(spans["query_id"]), documents.rows(spans["doc_id"])
    first, stop = _token_spans(tokens, passage, spans)
    begin, held = window_around(first, stop, tokens.tokens.lengths[passage], room := tokenizer.room(read)[question])
    kept = held & (first < stop)
    if not kept.any():
        raise DataError("readers.none_labelled_spans_can", num_rows=spans.num_rows)
    spans, question, passage = spans.filter(pa.array(kept)), question[kept], passage[kept]
    first, stop, begin, room = first[kept], stop[kept], begin[kept], room[kept]
    windows, at, window = np.unique(
        np.stack([question, passage, begin], axis=1), axis=0, return_index=True, return_inverse=True
    )
    present, renumbered = np.unique(question, return_inverse=True)
    mistaken = _confusing(confusing, numbering, documents, tokens, windows[:, :2])
    stops = np.minimum(windows[:, 2] + room[at], tokens.tokens.lengths[windows[:, 1]])
    instances = Instances(
        read.take(present), tokens, renumbered, window, first - begin, stop - 1 - begin,
        spans["score"].to_numpy().astype(np.float64),
        renumbered[at], windows[:, 1], windows[:, 2], stops, mistaken,
    )  # fmt: skip
    return instances, spans


def _token_spans(tokens: OffsetTokens, passage: Rows, spans: pa.Table) -> tuple[Rows, Rows]:
    rows = zip(passage.tolist(), spans["start"].to_pylist(), spans["end"].to_pylist(), strict=True)
    found = np.array([tokens.token_span(*row) for row in rows], np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _confusing(
    table: pa.Table, questions: Numbering, documents: Numbering, tokens: OffsetTokens, windows: Rows
) -> Ragged:
    """The confusing passages of each window, a (question, passage); those without a token are left out."""
    table = table.filter(pc.is_in(table["query_id"], value_set=questions.ids))
    table = table.filter(pc.is_in(table["doc_id"], value_set=documents.ids))
    passage = documents.rows(table["confusing"])
    pair = questions.rows(table["query_id"]) * len(documents) + documents.rows(table["doc_id"])
    pairs, of_window = np.unique(windows[:, 0] * len(documents) + windows[:, 1], return_inverse=True)
    used = np.isin(pair, pairs) & (tokens.tokens.lengths[passage] > 0)
    by_pair = Ragged.grouped(np.searchsorted(pairs, pair[used]), passage[used], len(pairs))
    window, value = by_pair.take(of_window)
    return Ragged.grouped(window, value, len(windows))


class Confidences:
    """Shares of each question's trust, moved at every update towards what the model last said of each instance.

    What it said is taken from the training steps themselves, so that an update costs no pass over the instances.
    history: the values at the start and after each update, in float32; chances: beside them, P(x) of Eq. 2 as it last
    was, NaN where the instance was not read yet.
    """

    def __init__(self, kind: Confidence, decay: float, scores: Values, question: Rows) -> None:
        self.kind, self.decay, self.question = kind, decay, question
        self.values = shares(np.ones(len(scores)), question) if kind == "none" else initial(scores, question)
        self.chance = np.full(len(scores), np.nan)
        self.matched = np.zeros(len(scores), bool)
        self.compared = np.full(len(scores), np.nan)
        self.history = [self.values.astype(np.float32)]
        self.chances = [self.compared.astype(np.float32)]

    def see(self, instances: Rows, chance: Values, matched: npt.NDArray[np.bool_]) -> None:
        """Keep what the model says of some instances: P_start * P_end, and whether its own span is theirs."""
        self.chance[instances], self.matched[instances] = chance, matched

    def compare(self, instances: Rows, chance: Values) -> None:
        """Keep P(x) of some instances, by which counterfactual ones are told."""
        self.compared[instances] = chance

    def update(self) -> None:
        """Eq. 9, once for every instance."""
        z = evidence(self.kind, self.chance, self.matched, self.values, self.question)
        self.values = updated(self.values, z, self.decay)
        self.history.append(self.values.astype(np.float32))
        self.chances.append(self.compared.astype(np.float32))

    def state(self) -> dict[str, Tensor]:
        """Everything that later updates depend on, and what was recorded."""
        held = {"values": self.values, "chance": self.chance, "matched": self.matched, "compared": self.compared}
        recorded = {name: torch.from_numpy(np.stack(getattr(self, name))) for name in ("history", "chances")}
        return recorded | {name: torch.from_numpy(value) for name, value in held.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Continue from what `state` returned."""
        held = {name: value.numpy().copy() for name, value in state.items()}
        self.values, self.chance, self.matched = held["values"], held["chance"], held["matched"]
        self.compared = held["compared"]
        self.history, self.chances = list(held["history"]), list(held["chances"])


def full_instances(tokenizer: PairTokenizer, params: TrainReaderParams) -> Instances:
    """The instances of one step at full length: `PASSAGES_READ` passages a question, one in each; for a dry run."""
    each = min(params.instances or PASSAGES_READ, PASSAGES_READ)
    count, confusing = params.batch_size * each, math.ceil(params.confusing_share)
    asked, number = np.repeat(np.arange(params.batch_size), each), np.arange(count)
    questions = full_texts(params.batch_size, tokenizer.question_max_len)
    room = int(tokenizer.room(questions)[0])
    passages, none = full_texts(each * (1 + confusing), room), np.zeros(count, np.int64)
    places = np.zeros(len(passages.ids), np.int32)
    of_window = Ragged(np.arange(count + 1) * confusing, np.tile(np.arange(each, len(passages)), params.batch_size))
    return Instances(
        questions, OffsetTokens(passages, places, places), asked, number, none, none, np.ones(count),
        asked, number % each, none, none + room, of_window,
    )  # fmt: skip


class QuestionBatches(Batches[Rows]):
    """Rows of questions."""

    def batch(self, rows: Rows, drawn: Rows) -> Rows:
        """The rows themselves: what is drawn of a question is drawn at its step."""
        return rows


@dataclass(frozen=True)
class WindowPart:
    """Some of a batch's questions as the reader sees them; the rows of `reads` after the instances' are confusing."""

    drawn: list[DrawnInstances]
    spans: Spans
    reads: Reads
    log_start: Float[Tensor, " instance"]
    log_end: Float[Tensor, " instance"]

    @property
    def instances(self) -> Rows:
        """Their numbers, question by question."""
        return np.concatenate([one.instances for one in self.drawn])

    def blocks(self, matrices: list[Bool[np.ndarray, "instance column"]]) -> Bool[Tensor, "all_instances all_columns"]:
        """One matrix a question as one matrix of all, false outside of them."""
        joined: Tensor = torch.block_diag(*map(torch.from_numpy, matrices))  # type: ignore[no-untyped-call]
        return joined.bool().to(self.log_start.device)


class ReaderLearner(Learner[Rows]):
    """The reader, its instances, and how far each of them is believed."""

    name, unit, fewer = "reader", "questions", "questions_at_once"

    def __init__(self, reader: Reader, instances: Instances, params: TrainReaderParams, rng: Rng) -> None:
        batches = QuestionBatches(len(instances.questions), params.batch_size, partial(rng, "reader_epoch"))
        super().__init__(reader, batches, params.descent(params.learning_rate), params.epochs * batches.an_epoch, rng)
        self.reader, self.instances, self.params = reader, instances, params
        self.room = reader.tokenizer.room(instances.questions)
        self.is_cds = params.objective == "cds"
        self._judging = judging(reader)
        self.contrasts = self.is_cds and (params.alpha > 0 or params.beta > 0)
        self.confidences = Confidences(params.confidence, params.confidence_decay, instances.score, instances.question)
        each = np.ones(len(instances))
        match params.objective:
            case "ds_all" | "ds_top":
                self.weights = each
            case "ds_average" | "supervised" | "hard_em" | "cds":  # every question counts alike
                self.weights = shares(each, instances.question)
            case unknown:
                assert_never(unknown)
        if params.gradient_checkpointing:
            keep_fewer_activations(reader.transformers)

    def after_step(self) -> None:
        """Estimate the confidences anew if it is time to."""
        rate, an_epoch = self.params.updates_per_epoch, self.batches.an_epoch
        if self.is_cds and self.params.confidence != "none":
            if self.done * rate // an_epoch > (self.done - 1) * rate // an_epoch:
                self.confidences.update()

    def descend(self, batch: Rows, seed: int) -> dict[str, float]:
        """The loss a question and its parts, and the share of instances whose span is the model's own choice.

        `questions_at_once` of them pass through the model, and add their gradient, before the next.
        """
        params, rng = self.params, self.rng("reader_draw", self.done)
        share = params.confusing_share if self.is_cds and params.beta > 0 else 0.0
        drawn = [self.instances.draw(int(question), params.instances, share, rng) for question in batch]
        hard = self.rng("hard_em", self.done).random() < min(self.done / params.hard_em_steps, _MOST_HARD)
        at_once, total, matched = params.questions_at_once or len(drawn), dict[str, float](), 0
        with seeded(self.reader.device, seed):
            for start in range(0, len(drawn), at_once):
                part = self._read(drawn[start : start + at_once])
                self.work += self._judging(True)
                losses = self._losses(part, hard=hard)
                (losses["reader_loss"] / len(drawn)).backward()  # type: ignore[no-untyped-call]
                for name, value in losses.items():
                    total[name] = total.get(name, 0.0) + float(value.detach()) / len(drawn)
                matched += self._see(part)
        return {**total, "reader_accuracy": matched / sum(len(one.instances) for one in drawn)}

    def _read(self, drawn: list[DrawnInstances]) -> WindowPart:
        questions, passages, spans = windows_and_spans(self.instances, drawn, self.room)
        reads = self.reader(
            questions, passages, spans if self.contrasts else None, bf16=self.params.precision == "bf16"
        )
        log_start, log_end = (
            logits.log_softmax(dim=1)[spans.window, tokens]
            for logits, tokens in ((reads.start, spans.first), (reads.end, spans.last))
        )
        return WindowPart(drawn, spans, reads, log_start, log_end)

    def _losses(self, part: WindowPart, *, hard: bool) -> dict[str, Tensor]:
        """The sum over questions of what is minimised, first, and its parts."""
        if self.params.objective == "hard_em":
            groups = torch.from_numpy(part.spans.window).to(part.log_start.device)
            loss = span_set_loss(-part.log_start - part.log_end, groups, int(groups.max()) + 1, hard=hard)
            return {"reader_loss": loss.sum()}
        weights = self.confidences.values if self.is_cds else self.weights
        weight = torch.from_numpy(weights[part.instances]).to(part.log_start.device, torch.float32)
        loss = cross_entropy(part.log_start, part.log_end, weight).sum()
        if not self.contrasts:
            return {"reader_loss": loss}
        apart, clean = self._debias(part, weight).sum(), self._denoise(part, weight).sum()
        total = self.params.alpha * apart + self.params.beta * clean + loss
        return {"reader_loss": total, "cross_entropy": loss, "debias": apart, "denoise": clean}

    def _debias(self, part: WindowPart, weight: Float[Tensor, " instance"]) -> Float[Tensor, " instance"]:
        spans, reads = part.spans, part.reads
        window, first, last = (
            torch.from_numpy(places).to(weight.device) for places in (spans.window, spans.first, spans.last)
        )
        with torch.no_grad():
            chance = n_best_chance(
                reads.start, reads.end, window, first, last,
                n_best=self.params.n_best, max_answer_len=self.params.max_answer_len,
            ).double().cpu().numpy()  # fmt: skip
        self.confidences.compare(part.instances, chance)
        ends = np.cumsum([len(one.instances) for one in part.drawn])[:-1]
        competitors = part.blocks([counterfactual(chances) for chances in np.split(chance, ends)])
        return debias(reads.question[window], reads.answer, competitors, weight, self.params.temperature)

    def _denoise(self, part: WindowPart, weight: Float[Tensor, " instance"]) -> Float[Tensor, " instance"]:
        has_context = (part.reads.context != 0).any(dim=1)  # a passage that is all answer has none
        attracts = part.blocks([one.attracts for one in part.drawn]) & has_context[:, None]
        others = part.blocks([~np.eye(len(one.instances), dtype=bool) for one in part.drawn])
        confusing = part.reads.passage[sum(len(one.windows) for one in part.drawn) :]
        return denoise(part.reads.context, confusing, attracts, others & has_context, weight, self.params.temperature)

    def _see(self, part: WindowPart) -> int:
        """Keep what the model says of the instances; returns how many it would have answered as labelled."""
        with torch.no_grad():
            chance = (part.log_start.double() + part.log_end.double()).exp().cpu().numpy()
            start, end = (logits.argmax(dim=1).cpu().numpy()[part.spans.window] for logits in part.reads[:2])
        matched = (start == part.spans.first) & (end == part.spans.last)
        self.confidences.see(part.instances, chance, matched)
        return int(matched.sum())

    def state(self) -> Tensors:
        """Also the confidences."""
        return {**super().state(), "confidences": self.confidences.state()}

    def load(self, tensors: Tensors, done: int) -> None:
        """Also the confidences."""
        super().load(tensors, done)
        self.confidences.load(tensors["confidences"])


def train_reader(
    reader: Reader, instances: Instances, params: TrainReaderParams, context: TrainingContext
) -> tuple[list[Point], Confidences]:
    """Train the reader in place; returns its learning curves and the confidences, which only CDS moves.

    DataError when the loss is no longer finite.
    """
    learner = ReaderLearner(reader, instances, params, context.rng)
    return TrainingRun([learner], context).run(), learner.confidences
