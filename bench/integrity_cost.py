"""What it costs a run that every file is checked before its use: CPU seconds with the checks, and with none.

    python -m bench.integrity_cost --pairs 5 data.dev_queries=200 data.test_queries=400 data.max_documents=4000

First, in one run, the CPU seconds of the thread in which files are checked are added up, which other processes on the
machine hardly change.  Then each pair is two runs of the demo with the given settings, in processes of their own and
empty stores, in an order that alternates.  Without the checks no file is read for its digest before use, nothing is
remembered of what was found, and Parquet's pages carry no checksums; digests that name what is made stay, for without
them there is no store.
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq

from bench.machine import machine
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.integrity import Integrity
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments

T = TypeVar("T")


def main() -> None:
    """Print the CPU seconds of each run, and the median of the pairs' shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="settings of the demo")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    print(machine())
    spent, whole = _in_a_process(_accounted, given.overrides)
    print(f"of {whole:.2f} s of a run {spent:.3f} s went to checks: {spent / whole:.2%}", flush=True)
    shares = []
    for number in range(given.pairs):
        order = (True, False) if number % 2 else (False, True)
        took = {checked: _in_a_process(_run, given.overrides, checked) for checked in order}
        shares.append(took[True] / took[False] - 1)
        print(f"with checks {took[True]:.2f} s, without {took[False]:.2f} s: {shares[-1]:+.1%}", flush=True)
    if shares:
        print(f"median {statistics.median(shares):+.2%}, from {min(shares):+.1%} to {max(shares):+.1%}")


def _in_a_process(function: Callable[..., T], *given: object) -> T:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, given)


def _accounted(overrides: list[str]) -> tuple[float, float]:
    """CPU seconds of checks, and of a run."""
    spent = 0.0

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: object, **named: object) -> Any:
            nonlocal spent
            began = time.thread_time()
            try:
                return method(*given, **named)
            finally:
                spent += time.thread_time() - began

        return call

    for name in ("faults", "reread", "wrote"):  # where files are looked at; none calls another
        setattr(Integrity, name, timed(getattr(Integrity, name)))
    whole = _run(overrides, checked=True)
    return spent, whole


def _run(overrides: list[str], checked: bool) -> float:
    """CPU seconds, user and system, of one run."""
    experiment = experiments.load("demo", overrides)
    if not checked:
        _without_checks()
    with tempfile.TemporaryDirectory() as home:
        before = _cpu()
        run_experiment(
            experiment,
            Choice(),
            Execution(store=Store(Path(home) / "store", home=Path(home)), runtime=Runtime(device="cpu")),
        )
        return _cpu() - before


def _without_checks() -> None:
    Integrity._fault = lambda *_: None  # type: ignore[method-assign]
    Integrity._remember = lambda *_: None  # type: ignore[method-assign]
    Integrity._signature = lambda *_: (0,)  # type: ignore[method-assign]

    write, read = pq.write_table, pq.ParquetFile
    pq.write_table = lambda *given, **named: write(*given, **{**named, "write_page_checksum": False})
    pq.ParquetFile = lambda *given, **named: read(*given, **{**named, "page_checksum_verification": False})


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in (own, children))


if __name__ == "__main__":
    main()
