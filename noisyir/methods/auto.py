"""Plain, weighted and repaired training side by side: held-out pairs decide."""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, PositiveInt, model_validator

from noisyir.engine.stage import Output, Outputs
from noisyir.pipelines.method import Method
from noisyir.stages.training.choose_model import CHOOSE_MODEL, HOLD_OUT, PLAIN
from noisyir.training.settings import ChooseModelParams, HoldOutFoldParams, HoldOutParams

if TYPE_CHECKING:
    from noisyir.pipelines.context import Context

Candidate = Literal["reweight", "drop", "relabel", "reweight_relabel", "npc", "npc_flags", "npc_relabel", "co_teaching"]


class Auto(Method):
    """The method that held-out pairs prefer, by a test, else plain training: a correction that cannot hurt much.

    Each is trained under several seeds and judged on the data's own dev queries or, where it has none, or where they
    were drawn from the same pairs, on training queries that these trainings do without, other ones under each seed;
    what is chosen is then trained on all pairs.
    """

    version: ClassVar[int] = 4
    kind: Literal["auto"] = "auto"
    candidates: tuple[Candidate, ...] = Field(
        ("reweight", "reweight_relabel"), min_length=1, description="methods tried beside plain training"
    )
    seeds: PositiveInt = Field(5, description="trainings of each method that are compared")
    hold_out: HoldOutParams = HoldOutParams()
    choose: ChooseModelParams = ChooseModelParams()

    @model_validator(mode="after")
    def _candidates_differ(self) -> Self:
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"candidates={list(self.candidates)} names one of them twice")
        self._fold(self.seeds - 1)
        return self

    def _fold(self, number: int, **more: bool) -> HoldOutFoldParams:
        return HoldOutFoldParams(**self.hold_out.model_dump(exclude_unset=True), fold=number, **more)

    def train(self, context: "Context") -> Outputs:
        """Train every candidate on all pairs, and under each seed without the held-out queries; choose."""
        plan, names = context.plan, (PLAIN, *self.candidates)
        final = {name: Method.parse(name).train(context) for name in names}
        texts, pairs = {name: context.data[name] for name in ("queries", "qrels")}, context.noisy["noisy_pairs"]
        drawn = context.exp.data.hold_out
        by_dev = {"by_dev": False} if drawn and drawn.dev else {}  # all training queries tell more than a tenth of them
        trials: dict[str, Output] = {}
        held: dict[str, Output] = {}
        for number in range(self.seeds):
            label, fold = context.name(f"trial{number}"), self._fold(number, **by_dev)
            trial = held[str(number)] = plan.add(HOLD_OUT, fold, label, pairs=pairs, **texts)["trial"]
            on_trial = replace(context, label=label, judged={}, trial=trial, training_seed=plan.seed + number)
            trials |= {f"{name}:{number}": Method.parse(name).train(on_trial)["model"] for name in names}
        chosen = plan.add(
            CHOOSE_MODEL,
            self.choose,
            context.label,
            models={name: trained["model"] for name, trained in final.items()},
            curves={name: trained["curves"] for name, trained in final.items()},
            trials=trials,
            held=held,
            corpus=context.data["corpus"],
            **texts,
        )
        context.tried = chosen["trials"]
        return {"model": chosen["model"], "curves": chosen["curves"]}
