"""Training of a reader on labelled spans, by contrastive distant supervision or a baseline objective.

A step covers whole questions. Each distinct window of a question is read once, regardless of its number of spans; the
losses share its states, and each instance's probability feeds the next confidence update at no extra cost.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import assert_never

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from noisyir.models.at_once import keep_fewer_activations
from noisyir.readers import cds
from noisyir.readers.instances import DrawnInstances, Instances, windows_and_spans
from noisyir.readers.model import Reader, Reads, Spans
from noisyir.readers.settings import Confidence, TrainReaderParams
from noisyir.training.batches import Batches, Rng, Rows
from noisyir.training.gradients import seeded
from noisyir.training.learner import Learner, Tensors
from noisyir.training.run import Point, TrainingContext, TrainingRun

_MOST_HARD = 0.8  # largest share of Hard-EM steps that use the smallest loss
Values = npt.NDArray[np.float64]


class Confidences:
    """Confidences of all instances, moved at every update towards the model's last prediction.

    Predictions come from the training steps, so an update needs no pass over the instances.

    Attributes:
        history: Values at the start and after each update, in float32.
        chances: The latest P(x) of Eq. 2 at the same times; NaN if the instance was not read yet.
    """

    def __init__(self, kind: Confidence, decay: float, scores: Values, question: Rows) -> None:
        self.kind, self.decay, self.question = kind, decay, question
        self.values = cds.shares(np.ones(len(scores)), question) if kind == "none" else cds.initial(scores, question)
        self.chance = np.full(len(scores), np.nan)
        self.matched = np.zeros(len(scores), bool)
        self.compared = np.full(len(scores), np.nan)
        self.history = [self.values.astype(np.float32)]
        self.chances = [self.compared.astype(np.float32)]

    def see(self, instances: Rows, chance: Values, matched: npt.NDArray[np.bool_]) -> None:
        """Record P_start * P_end of some instances, and whether the model's own span matches."""
        self.chance[instances], self.matched[instances] = chance, matched

    def compare(self, instances: Rows, chance: Values) -> None:
        """Record P(x) of some instances, which determines the counterfactual ones."""
        self.compared[instances] = chance

    def update(self) -> None:
        """Apply Eq. 9 once to every instance."""
        z = cds.evidence(self.kind, self.chance, self.matched, self.values, self.question)
        self.values = cds.updated(self.values, z, self.decay)
        self.history.append(self.values.astype(np.float32))
        self.chances.append(self.compared.astype(np.float32))

    def state(self) -> dict[str, Tensor]:
        """Return the full state, including the recorded history."""
        held = {"values": self.values, "chance": self.chance, "matched": self.matched, "compared": self.compared}
        recorded = {name: torch.from_numpy(np.stack(getattr(self, name))) for name in ("history", "chances")}
        return recorded | {name: torch.from_numpy(value) for name, value in held.items()}

    def load(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        held = {name: value.numpy().copy() for name, value in state.items()}
        self.values, self.chance, self.matched = held["values"], held["chance"], held["matched"]
        self.compared = held["compared"]
        self.history, self.chances = list(held["history"]), list(held["chances"])


class QuestionBatches(Batches[Rows]):
    """Batches of question rows."""

    def batch(self, rows: Rows, drawn: Rows) -> Rows:
        """Return the rows; instances are sampled when the step runs."""
        return rows


@dataclass(frozen=True)
class WindowPart:
    """Part of a batch after the forward pass; in `reads`, confusing passages follow the instances' windows."""

    drawn: list[DrawnInstances]
    spans: Spans
    reads: Reads
    log_start: Float[Tensor, " instance"]
    log_end: Float[Tensor, " instance"]

    @property
    def instances(self) -> Rows:
        """Instance numbers, question by question."""
        return np.concatenate([one.instances for one in self.drawn])

    def blocks(self, matrices: list[Bool[np.ndarray, "instance column"]]) -> Bool[Tensor, "all_instances all_columns"]:
        """Join one matrix per question into a block-diagonal one, false elsewhere."""
        joined: Tensor = torch.block_diag(*map(torch.from_numpy, matrices))  # type: ignore[no-untyped-call]
        return joined.bool().to(self.log_start.device)


class ReaderLearner(Learner[Rows]):
    """Learner of a reader, with its instances and their confidences."""

    name, unit, fewer = "reader", "questions", "questions_at_once"

    def __init__(self, reader: Reader, instances: Instances, params: TrainReaderParams, rng: Rng) -> None:
        batches = QuestionBatches(len(instances.questions), params.batch_size, partial(rng, "reader_epoch"))
        super().__init__(reader, batches, params.descent(params.learning_rate), params.epochs * batches.an_epoch, rng)
        self.reader, self.instances, self.params = reader, instances, params
        self.room = reader.tokenizer.room(instances.questions)
        self.is_cds = params.objective == "cds"
        self.contrasts = self.is_cds and (params.alpha > 0 or params.beta > 0)
        self.by_passages = self.is_cds and params.contrast == "passages"
        self.confidences = Confidences(params.confidence, params.confidence_decay, instances.score, instances.question)
        each = np.ones(len(instances))
        match params.objective:
            case "ds_all" | "ds_top":
                self.weights = each
            case "ds_average" | "supervised" | "hard_em" | "cds":  # equal weight per question
                self.weights = cds.shares(each, instances.question)
            case unknown:
                assert_never(unknown)
        if params.gradient_checkpointing:
            keep_fewer_activations(reader.transformers)

    def after_step(self) -> None:
        """Update the confidences if an update is due."""
        rate, an_epoch = self.params.updates_per_epoch, self.batches.an_epoch
        if self.is_cds and self.params.confidence != "none":
            if self.done * rate // an_epoch > (self.done - 1) * rate // an_epoch:
                self.confidences.update()

    def descend(self, batch: Rows, seed: int) -> dict[str, float]:
        """Return the loss per question with its parts, and the share of instances with the model's own choice of span.

        At most `questions_at_once` questions pass through the model, and accumulate gradients, at a time.
        """
        params, rng = self.params, self.rng("reader_draw", self.done)
        reads_confusing = self.is_cds and (params.beta > 0 or self.by_passages)
        share = params.confusing_share if reads_confusing else 0.0
        drawn = [self.instances.draw(int(question), params.instances, share, rng) for question in batch]
        hard = self.rng("hard_em", self.done).random() < min(self.done / params.hard_em_steps, _MOST_HARD)
        at_once, total, matched = params.questions_at_once or len(drawn), dict[str, float](), 0
        with seeded(self.reader.device, seed):
            for start in range(0, len(drawn), at_once):
                part = self._read(drawn[start : start + at_once])
                self.tokens += int(self.reader.lengths.sum())
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
        """Return the summed objective over questions, first, and its parts."""
        if self.params.objective == "hard_em":
            groups = torch.from_numpy(part.spans.window).to(part.log_start.device)
            loss = cds.span_set_loss(-part.log_start - part.log_end, groups, int(groups.max()) + 1, hard=hard)
            return {"reader_loss": loss.sum()}
        weights = self.confidences.values if self.is_cds else self.weights
        weight = torch.from_numpy(weights[part.instances]).to(part.log_start.device, torch.float32)
        loss = cds.cross_entropy(part.log_start, part.log_end, weight).sum()
        if not self.contrasts:
            return {"reader_loss": loss}
        if self.by_passages:
            plain = self._passages(part, weight).sum()
            return {"reader_loss": self.params.alpha * plain + loss, "cross_entropy": loss, "contrast": plain}
        apart, clean = self._debias(part, weight).sum(), self._denoise(part, weight).sum()
        total = self.params.alpha * apart + self.params.beta * clean + loss
        return {"reader_loss": total, "cross_entropy": loss, "debias": apart, "denoise": clean}

    def _debias(self, part: WindowPart, weight: Float[Tensor, " instance"]) -> Float[Tensor, " instance"]:
        spans, reads = part.spans, part.reads
        window, first, last = (
            torch.from_numpy(places).to(weight.device) for places in (spans.window, spans.first, spans.last)
        )
        with torch.no_grad():
            chance = cds.n_best_chance(
                reads.start, reads.end, window, first, last,
                n_best=self.params.n_best, max_answer_len=self.params.max_answer_len,
            ).double().cpu().numpy()  # fmt: skip
        self.confidences.compare(part.instances, chance)
        ends = np.cumsum([len(one.instances) for one in part.drawn])[:-1]
        competitors = part.blocks([cds.counterfactual(chances) for chances in np.split(chance, ends)])
        return cds.debias(reads.question[window], reads.answer, competitors, weight, self.params.temperature)

    def _passages(self, part: WindowPart, weight: Float[Tensor, " instance"]) -> Float[Tensor, " instance"]:
        """Each passage with the answer against all confusing ones of its question, which hold none."""
        window = torch.from_numpy(part.spans.window).to(weight.device)
        confusing = part.reads.passage[sum(len(one.windows) for one in part.drawn) :]
        competes = part.blocks([np.ones_like(one.attracts) for one in part.drawn])
        questions, own = part.reads.question[window], part.reads.passage[window]
        return cds.contrast(questions, own, confusing, competes, weight, self.params.temperature)

    def _denoise(self, part: WindowPart, weight: Float[Tensor, " instance"]) -> Float[Tensor, " instance"]:
        has_context = (part.reads.context != 0).any(dim=1)  # no context if the answer fills the passage
        attracts = part.blocks([one.attracts for one in part.drawn]) & has_context[:, None]
        others = part.blocks([~np.eye(len(one.instances), dtype=bool) for one in part.drawn])
        confusing = part.reads.passage[sum(len(one.windows) for one in part.drawn) :]
        return cds.denoise(
            part.reads.context, confusing, attracts, others & has_context, weight, self.params.temperature
        )

    def _see(self, part: WindowPart) -> int:
        """Record the predictions for the instances; return how many agree with their labels."""
        with torch.no_grad():
            chance = (part.log_start.double() + part.log_end.double()).exp().cpu().numpy()
            start, end = (logits.argmax(dim=1).cpu().numpy()[part.spans.window] for logits in part.reads[:2])
        matched = (start == part.spans.first) & (end == part.spans.last)
        self.confidences.see(part.instances, chance, matched)
        return int(matched.sum())

    def state(self) -> Tensors:
        """Return the state, including the confidences."""
        return {**super().state(), "confidences": self.confidences.state()}

    def load(self, tensors: Tensors, done: int) -> None:
        """Restore the state, including the confidences."""
        super().load(tensors, done)
        self.confidences.load(tensors["confidences"])


def train_reader(
    reader: Reader, instances: Instances, params: TrainReaderParams, context: TrainingContext
) -> tuple[list[Point], Confidences]:
    """Train the reader in place; return its learning curves and the confidences, which change only under CDS."""
    learner = ReaderLearner(reader, instances, params, context.rng)
    return TrainingRun([learner], context).run(), learner.confidences
