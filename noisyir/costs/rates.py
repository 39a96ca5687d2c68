"""Seconds for an amount of work: measured on the builds in the store, else assumed."""

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from noisyir.costs.nodes import Builds, Node, Planned, ancestor, upstream
from noisyir.costs.scene import Work
from noisyir.costs.work import WORK, work_of

GPU_TFLOPS = 100.0  # about a third of an A100's 312 in bf16
CPU_TFLOPS = 0.5  # a server of 16 to 32 cores in fp32
_TRUSTED_SECONDS = 1.0  # a shorter build's time is mostly that of starting
_OF_MODELS = frozenset(
    {
        "encode",
        "train_dpr",
        "train_npc",
        "train_co_teaching",
        "sieve",
        "warm_up_ranker",
        "train_ar2",
        "rerank",
        "ranker_judge",
        "train_reader",
        "read",
    }
)
_TELLING = ("dataset", "factory", "precision", "mechanism", "kind", "folds", "weights")
_REACH = 10.0  # how many times its own amount a shorter build may speak for


@dataclass(frozen=True)
class Machine:
    """Assumed speeds: floating-point operations a second, in 10^12, of work on a GPU and on a CPU."""

    gpu_tflops: float = GPU_TFLOPS
    cpu_tflops: float = CPU_TFLOPS


@dataclass(frozen=True)
class Time:
    """Seconds of a step, and where the number is from: measured, or assumed for a gpu or a cpu."""

    seconds: float
    basis: str


@dataclass(frozen=True)
class Measured:
    """Seconds for an amount of one kind of work; `largest`, `seconds`: of the largest build behind it."""

    rate: float
    largest: float
    seconds: float

    def speaks_for(self, amount: float) -> bool:
        """Whether the builds were long enough, or large enough, to foretell a step of this amount."""
        return self.seconds >= _TRUSTED_SECONDS or amount <= _REACH * self.largest


Rates = Mapping[tuple[str, ...], Measured]


def kind_of_work(node: Node) -> tuple[str, ...]:
    """What a step must have in common with a build for its speed to be known: the stage, its models, and its engine."""
    found: list[object] = [getattr(node.params, name, None) for name in _TELLING]
    for name in ("init_model", "init_ranker", "init_reader") if node.stage in _OF_MODELS else ():
        model = ancestor(node, name)
        found += [getattr(model and model.params, field, None) for field in ("weights", "backbone", "layers", "shared")]
    for name, field in (("index", "factory"), ("lexical_index", "engine")):
        built = upstream(node, name)
        found.append(getattr(built and built.params, field, None))
    return (node.stage, *map(str, found))


def measured(builds: Builds) -> Rates:
    """The rate of each kind of work that the store holds builds of: the median of those near the largest in size."""
    found: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for build in builds:
        ingest = ancestor(build, "ingest")
        sizes = ingest.sizes() if ingest else None
        if build.stage in WORK and sizes and (work := work_of(build, sizes)) and work.amount > 0:
            found.setdefault(kind_of_work(build), []).append((work.amount, build.meta.seconds))
    return {kind: _rate(values) for kind, values in found.items()}


def _rate(values: list[tuple[float, float]]) -> Measured:
    largest, seconds = max(values)
    return Measured(median(took / amount for amount, took in values if amount >= largest / 10), largest, seconds)


def time_of(node: Planned, work: Work, rates: Rates, machine: Machine) -> Time | None:
    """How long a step takes: measured, by its arithmetic on the kind of worker that it deserves, or roughly assumed.

    None where none of these is to be had.
    """
    known = rates.get(kind_of_work(node))
    if known and known.speaks_for(work.amount):
        return Time(known.rate * work.amount, "measured")
    if work.flops:
        pool = node.step.stage.pool
        tflops = machine.gpu_tflops if pool == "gpu" else machine.cpu_tflops
        return Time(work.flops / (tflops * 1e12), pool)
    if node.stage in ASSUMED:
        return Time(work.amount * ASSUMED[node.stage], "cpu")
    return None


# Seconds for a unit of `amount` where this store has no build to tell: rough, from builds of pydocs, SQuAD and NFCorpus
# on a machine of 2 cores with other work.
ASSUMED: Mapping[str, float] = {
    "ingest": 1.5e-4,
    "hide": 1e-4,
    "corrupt": 1e-5,
    "detect": 1.3e-5,
    "repair": 4e-6,
    "pseudo_label": 4e-6,
    "score_detection": 3e-5,
    "audit": 3e-4,
    "init_model": 3e-7,
    "init_ranker": 3e-7,
    "init_reader": 3e-7,
    "bm25_index": 1.2e-6,
    "bm25": 7e-8,
    "gold_run": 1e-5,
    "spans": 2.5e-5,
    "confusing": 4e-8,
    "ensemble": 3e-6,
    "score_reading": 7e-5,
    "score_confidence": 1e-5,
    "random_run": 9e-6,
    "encode": 2e-4,  # this and the next two: of static models, which have no arithmetic to speak of
    "train_dpr": 9e-6,
    "train_npc": 1.1e-5,
    "index": 3e-8,
    "candidates": 7e-6,
    "mine": 2e-6,
    "score": 3e-4,
    "compare": 2e-4,
    "report": 5e-5,
}
