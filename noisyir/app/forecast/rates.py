"""Seconds for an amount of work: measured on the builds in the store, else assumed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import median

from noisyir.costs.workload import Call, Sizes
from noisyir.data.settings import ChunkParams
from noisyir.engine.builds import Meta
from noisyir.engine.cost import Cost
from noisyir.models.settings import InitModelParams, InitRankerParams, InitReaderParams
from noisyir.schemas.reading import READER
from noisyir.schemas.training import MODEL, RANKER

GPU_TFLOPS = 100.0  # about a third of an A100's 312 in bf16
CPU_TFLOPS = 0.5  # a server of 16 to 32 cores in fp32
_TELLING = ("factory", "precision", "kind", "folds", "weights")
_MODELS = {artifact.name for artifact in (MODEL, RANKER, READER)}
_REACH = 10.0  # how many times its own amount a build may speak for
# A forecast's range is from its seconds divided by a factor to its seconds times that factor.
_OF_ASSUMED = 3.0  # where no build speaks for it
_OF_EQUAL = 1.25  # of a build of the very amount: what else the machine does
_TOKENS_OF_WORD = 1.3  # of English, in BERT's vocabulary
_GROWTH = 0.2  # exponent of the amount's ratio: a factor of 2 at ten times the amount


@dataclass(frozen=True)
class Machine:
    """Assumed speeds: floating-point operations a second, in 10^12, of work on a GPU and on a CPU."""

    gpu_tflops: float = GPU_TFLOPS
    cpu_tflops: float = CPU_TFLOPS


@dataclass(frozen=True)
class Time:
    """Seconds of a step, and where the number is from: measured, or assumed for a gpu or a cpu.

    factor: by how much it may be wrong, up or down.
    """

    seconds: float
    basis: str
    factor: float = _OF_ASSUMED

    @property
    def low(self) -> float:
        """Seconds, if it is quick."""
        return self.seconds / self.factor

    @property
    def high(self) -> float:
        """Seconds, if it is slow."""
        return self.seconds * self.factor


@dataclass(frozen=True)
class Measured:
    """Seconds for an amount of one kind of work; `largest`: of the builds behind it; `scatter`: among their rates."""

    rate: float
    largest: float
    scatter: float = 1.0

    def speaks_for(self, amount: float) -> bool:
        """Whether a build was large enough to foretell a step of this amount: a toy says nothing of more."""
        return amount <= _REACH * self.largest

    def time(self, amount: float) -> Time:
        """The seconds of such an amount, with a range that grows with what lies between it and the largest build."""
        factor = _OF_EQUAL * max(1.0, amount / self.largest) ** _GROWTH
        return Time(self.rate * amount, "measured", max(factor, self.scatter))


Rates = Mapping[tuple[str, ...], Measured]


def cost_of(call: Call, sizes: Sizes) -> Cost | None:
    """What the stage declares of such a call; None where it declares nothing."""
    return None


def _in_passages(call: Call, sizes: Sizes) -> Sizes:
    """The sizes of what a call reads where documents were cut before it."""
    behind = next((one.params for one in call.lineage()[1:] if isinstance(one.params, ChunkParams)), None)
    if behind is None or behind.words is None or sizes.document_tokens is None:
        return sizes
    several = max(1.0, sizes.document_tokens / (_TOKENS_OF_WORD * (behind.words - behind.overlap)))
    tokens = min(sizes.document_tokens, round(_TOKENS_OF_WORD * behind.words))
    return replace(sizes, documents=round(sizes.documents * several), document_tokens=tokens)


def measured(builds: Iterable[tuple[Meta, Call]]) -> Rates:
    """The rate of each kind of work that there are builds of: the median of those near the largest in size."""
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for meta, call in builds:
        sizes = next((one.sizes for one in call.lineage() if one.sizes), None)
        if sizes and (amount := _amount(cost_of(call, sizes), sizes)) > 0:
            found.setdefault(_kind(call), []).append((amount, meta.seconds))
    return {kind: _rate(values) for kind, values in found.items()}


def _amount(cost: Cost | None, sizes: Sizes) -> float:
    """What a call's time is in proportion to: the size of the data, where its stage does not say."""
    return cost.amount if cost else sizes.documents + sum(sizes.queries.values()) + sizes.pairs


def _kind(call: Call) -> tuple[str, ...]:
    """What a step must have in common with a build for its speed to be known: the stage, its models, and its engine."""
    found: list[object] = [getattr(call.params, name, None) for name in _TELLING]
    if _MODELS & {read.artifact.name for read in call.stage.reads.values()}:
        behind = [one.params for one in call.lineage()]
        for kind in (InitModelParams, InitRankerParams, InitReaderParams):
            model = next((params for params in behind if isinstance(params, kind)), None)
            found += [getattr(model, name, None) for name in ("weights", "backbone", "layers", "shared")]
    for name, setting in (("index", "factory"), ("lexical_index", "engine")):
        built = call.upstream(name)
        found.append(getattr(built and built.params, setting, None))
    return (call.stage.name, *map(str, found))


def _rate(values: list[tuple[float, float]]) -> Measured:
    largest, _ = max(values)
    rates = [took / amount for amount, took in values if amount >= largest / _REACH]
    rate = median(rates)
    return Measured(rate, largest, max(max(rates) / rate, rate / min(rates)) if min(rates) > 0 else 1.0)


def time_of(call: Call, cost: Cost | None, sizes: Sizes, rates: Rates, machine: Machine) -> Time | None:
    """How long a step takes: measured, by its arithmetic on the kind of worker that it deserves, or roughly assumed.

    None where none of these is to be had.
    """
    known, amount = rates.get(_kind(call)), _amount(cost, sizes)
    if known and known.speaks_for(amount):
        return known.time(amount)
    if cost and cost.flops:
        tflops = machine.gpu_tflops if call.stage.pool == "gpu" else machine.cpu_tflops
        return Time(cost.flops / (tflops * 1e12), call.stage.pool)
    return Time(amount * cost.rate, "cpu") if cost and cost.rate else None
