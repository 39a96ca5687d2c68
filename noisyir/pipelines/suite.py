"""A suite: one experiment under several kinds and rates of noise, methods and seeds."""

from typing import Any, Self

from pydantic import Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator, model_validator

from noisyir.data.corruptions import Corruption
from noisyir.data.hiding import Hiding
from noisyir.eval.settings import NoiseTableParams, ScoreLossGroupsParams
from noisyir.faults import faults
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.method import Method
from noisyir.settings import Params, merged
from noisyir.variants import Variant


class Suite(Params):
    """A bench: one experiment under several kinds and rates of noise, methods and seeds."""

    name: str = Field(description="names the bench's files")
    description: str = Field("", description="one line on what the bench shows")
    experiment: Experiment
    noise: tuple[Corruption, ...] = Field((), description="wrong pairs put in")
    hide: tuple[Hiding, ...] = Field((), description="relevant documents hidden: false negatives")
    methods: tuple[SerializeAsAny[Variant], ...] = Field(
        tuple(map(Method.parse, ("dpr", "oracle", "npc"))), description="trained on each; none: mining alone"
    )
    variants: dict[str, dict[str, Any]] = Field(
        {"": {}}, min_length=1, description="what of the experiment differs, by name: each method is run with each"
    )
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1, description="of the noise and of training")
    detect: bool = Field(True, description="run the experiment's detectors, for their quality and the noise rate")
    loss_groups: ScoreLossGroupsParams | None = Field(
        None, description="the losses of false, hard and in-batch negatives under each model; null: not computed"
    )
    table: NoiseTableParams = NoiseTableParams()

    @field_validator("methods", mode="before")
    @classmethod
    def _of_the_task(cls, methods: Any, info: ValidationInfo) -> Any:
        """A name means a method of the experiment's task."""
        if not isinstance(methods, list | tuple):
            return methods
        if "experiment" not in info.data:  # which has a fault of its own
            return ()
        family = info.data["experiment"].task.methods_of
        try:
            return tuple(family.parse(method) for method in methods)
        except ValidationError as error:
            raise ValueError(faults(error, family, "methods")[0]) from error

    @model_validator(mode="after")
    def _wrong_labels_need_no_noise(self) -> Self:
        if self.experiment.task.own_labels and (self.noise or self.hide):
            kind = self.experiment.task.kind
            raise ValueError(f"noise, hide: a suite of {kind}s has none: distant labels are wrong by themselves")
        return self

    @model_validator(mode="after")
    def _noises_differ(self) -> Self:
        kinds = [(kind, rate) for kind, rate, _ in self.conditions]
        if not kinds:
            raise ValueError("noise, hide: a suite needs one of either at least; rate 0 leaves the pairs as they are")
        if not self.methods and not self.hide:
            raise ValueError("methods: only a suite that hides documents can do without any")
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            kind, rate = twice[0]
            raise ValueError(
                f"noise: {kind} at rate {rate:g} is there more than once, and kind and rate are all that the "
                "table tells kinds of noise apart by: make a suite of each"
            )
        return self

    @model_validator(mode="after")
    def _variants_are_experiments(self) -> Self:
        for name in self.variants:
            self.variant(name)
        return self

    @property
    def conditions(self) -> tuple[tuple[str, float, dict[str, Params]], ...]:
        """(kind, rate, what of the experiment it sets) of each kind of noise, then of each kind of hiding.

        Of labels that are wrong by themselves: those, as they are.
        """
        if labels := self.experiment.task.own_labels:
            return ((labels, 0.0, {}),)
        given: list[tuple[str, Corruption | Hiding]] = [("noise", noise) for noise in self.noise]
        given += [("hide", hide) for hide in self.hide]
        return tuple((params.kind, params.rate, {name: params}) for name, params in given)

    def variant(self, name: str) -> Experiment:
        """The experiment with what this variant changes."""
        try:
            return Experiment(**merged(self.experiment.model_dump(exclude_unset=True), self.variants[name]))
        except ValidationError as error:
            raise ValueError(faults(error, Experiment, f"variants.{name}")[0]) from error

    def arm(self, method: str, variant: str) -> str:
        """A method's name with a variant, in the table: by whichever there is more than one of."""
        return method if not variant else variant if len(self.methods) <= 1 else f"{method}+{variant}"

    @property
    def arms(self) -> tuple[str, ...]:
        """All that the table compares."""
        names = [method.kind for method in self.methods] or [""]
        return tuple(self.arm(name, variant) for variant in self.variants for name in names)
