"""A suite: one experiment on one or several sets, under kinds and rates of noise, methods and seeds."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

from pydantic import Field, SerializeAsAny, ValidationError, ValidationInfo, field_validator, model_validator

from noisyir.base.faults import faults
from noisyir.base.settings import Params, merged
from noisyir.base.variants import Variant
from noisyir.corruption.hiding import Hiding
from noisyir.corruption.kinds import Corruption
from noisyir.evaluation.settings import OWN, NoiseTableParams
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.method import Method


class BenchSet(Params):
    """A data set of a suite, and the settings in which it differs from the suite's experiment."""

    about: str = Field("", description="its content, and who made its pairs wrong, in one line")
    source: str = Field("", description="the command that makes it or fetches it")
    digest: str = Field("", description="of the data that the protocol's table is of; empty: any data")
    experiment: dict[str, Any] = Field(description="what of the suite's experiment differs: its data, at least")
    noise: tuple[Corruption, ...] | None = Field(None, description="put in; null: the suite's; none: as it is")


class Condition(NamedTuple):
    """A set (the only one is called "") under one kind and rate of noise, and the settings of that noise."""

    set: str
    kind: str
    rate: float
    change: Mapping[str, Params]

    @property
    def name(self) -> str:
        """Its name in the table."""
        return f"{self.set} {self.kind}" if self.set else self.kind

    def folder(self, seed: int) -> str:
        """The relative folder of its files under one seed."""
        return "/".join(part for part in (self.set, f"{self.kind}-{self.rate:g}", f"seed{seed}") if part)


class Suite(Params):
    """A bench: one experiment under several kinds and rates of noise, methods and seeds."""

    name: str = Field(description="names the bench's files")
    description: str = Field("", description="one line on the bench's purpose")
    experiment: Experiment
    sets: dict[str, BenchSet] = Field({}, description="data sets by name, where there are several; none: one")
    given: dict[str, str] = Field(
        {}, description="folders with weights or runs of others, by the name of their row (docs/how-to/protocol.md)"
    )
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
    table: NoiseTableParams = NoiseTableParams()

    @field_validator("methods", mode="before")
    @classmethod
    def _of_the_task(cls, methods: Any, info: ValidationInfo) -> Any:
        """A name means a method of the experiment's task."""
        if not isinstance(methods, list | tuple):
            return methods
        if "experiment" not in info.data:  # it has a fault of its own
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
        if self.experiment.task.own_labels and (self.sets or self.given):
            raise ValueError(f"sets, given: a suite of {self.experiment.task.kind}s has one set, and its own rows")
        return self

    @model_validator(mode="after")
    def _noises_differ(self) -> Self:
        kinds = [(found.name, found.rate) for found in self.conditions]
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
            for of in self.sets or [""]:
                self.variant(name, of)
        return self

    @model_validator(mode="after")
    def _names_can_stand_in_labels(self) -> Self:
        for setting, named in (("sets", self.sets), ("given", self.given)):
            if odd := next((name for name in named if not name or any(sign in ":/ " for sign in name)), None):
                raise ValueError(f"{setting}: {odd!r} is no name of a row: write letters, digits, dashes")
        if twice := set(self.given) & set(self.arms):
            raise ValueError(f"given: {twice.pop()!r} is a method of this suite: call the row by another name")
        return self

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Each kind of noise, then each kind of hiding, of every set."""
        return tuple(found for name in self.sets or [""] for found in self._conditions_of(name))

    def _conditions_of(self, name: str) -> Iterator[Condition]:
        if labels := self.experiment.task.own_labels:
            yield Condition(name, labels, 0.0, {})
            return
        own = self.sets[name].noise if name else None
        for noise in self.noise if own is None else own:
            yield Condition(name, noise.kind, noise.rate, {"noise": noise})
        if own == ():
            yield Condition(name, OWN, 0.0, {})
        for hide in self.hide:
            yield Condition(name, hide.kind, hide.rate, {"hide": hide})

    def variant(self, name: str, of: str = "") -> Experiment:
        """The experiment of this variant on one of the sets."""
        changes, place = dict(self.variants[name]), f"variants.{name}"
        if of:
            changes, place = merged(self.sets[of].experiment, changes), f"sets.{of}.experiment"
        try:
            return Experiment(**merged(self.experiment.model_dump(exclude_unset=True), changes))
        except ValidationError as error:
            raise ValueError(faults(error, Experiment, place)[0]) from error

    def arm(self, method: str, variant: str) -> str:
        """The table's name for a method with a variant."""
        return method if not variant else variant if len(self.methods) <= 1 else f"{method}+{variant}"

    @property
    def arms(self) -> tuple[str, ...]:
        """The rows that the table compares."""
        names = [method.kind for method in self.methods] or [""]
        return tuple(self.arm(name, variant) for variant in self.variants for name in names)
