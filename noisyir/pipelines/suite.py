"""A suite: one experiment under several kinds and rates of noise, methods and seeds."""

from typing import Any, Self

from pydantic import Field, ValidationError, model_validator

from noisyir.data.settings import CorruptParams, HideParams
from noisyir.eval.settings import NoiseTableParams, ScoreLossGroupsParams
from noisyir.pipelines.experiment import Experiment
from noisyir.settings import Params, merged


class Suite(Params):
    """A bench: one experiment under several kinds and rates of noise, methods and seeds."""

    name: str = Field(description="names the bench's files")
    description: str = Field("", description="one line on what the bench shows")
    experiment: Experiment
    noise: tuple[CorruptParams, ...] = Field((), description="wrong pairs put in")
    hide: tuple[HideParams, ...] = Field((), description="relevant documents hidden: false negatives")
    methods: tuple[str, ...] = Field(("dpr", "oracle", "npc"), description="trained on each; none: mining alone")
    variants: dict[str, dict[str, Any]] = Field(
        {"": {}}, min_length=1, description="what of the experiment differs, by name: each method is run with each"
    )
    seeds: tuple[int, ...] = Field((0, 1, 2, 3, 4), min_length=1, description="of the noise and of training")
    detect: bool = Field(True, description="run the experiment's detectors, for their quality and the noise rate")
    loss_groups: ScoreLossGroupsParams | None = Field(
        None, description="the losses of false, hard and in-batch negatives under each model; null: not computed"
    )
    table: NoiseTableParams = NoiseTableParams()

    @model_validator(mode="after")
    def _readers_have_no_noise(self) -> Self:
        if self.experiment.task == "reader" and (self.noise or self.hide):
            raise ValueError("noise, hide: a suite of readers has none: distant labels are wrong by themselves")
        return self

    @model_validator(mode="after")
    def _noises_differ(self) -> Self:
        kinds = [(mechanism, rate) for mechanism, rate, _ in self.conditions]
        if not kinds:
            raise ValueError("noise, hide: a suite needs one of either at least; rate 0 leaves the pairs as they are")
        if not self.methods and not self.hide:
            raise ValueError("methods: only a suite that hides documents can do without any")
        if twice := [kind for kind in kinds if kinds.count(kind) > 1]:
            mechanism, rate = twice[0]
            raise ValueError(
                f"noise: {mechanism} at rate {rate:g} is there more than once, and mechanism and rate are all that the "
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
        """(mechanism, rate, what of the experiment it sets) of each kind of noise, then of each kind of hiding.

        Of readers: the passages that are labelled, as they are.
        """
        if self.experiment.task == "reader":
            return ((self.experiment.reader.labels, 0.0, {}),)
        given: list[tuple[str, CorruptParams | HideParams]] = [("noise", noise) for noise in self.noise]
        given += [("hide", hide) for hide in self.hide]
        return tuple((params.mechanism, params.rate, {name: params}) for name, params in given)

    def variant(self, name: str) -> Experiment:
        """The experiment with what this variant changes."""
        try:
            return Experiment(**merged(self.experiment.model_dump(exclude_unset=True), self.variants[name]))
        except ValidationError as error:
            where = ".".join(map(str, error.errors()[0]["loc"]))
            raise ValueError(f"variants.{name}: {where}: {error.errors()[0]['msg']}") from error

    def arm(self, method: str, variant: str) -> str:
        """What the table calls a method with a variant: by what there is more than one of."""
        return method if not variant else variant if len(self.methods) <= 1 else f"{method}+{variant}"

    @property
    def arms(self) -> tuple[str, ...]:
        """All that the table compares."""
        return tuple(self.arm(method, variant) for variant in self.variants for method in self.methods or ("",))
