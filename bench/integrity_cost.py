"""What it costs a run that every file is checked before its use: CPU seconds with the checks, and with none.

    python -m bench.integrity_cost --pairs 5 data.max_documents=4000 methods=[dpr]

Each pair is two runs of the demo with the given settings, in processes of their own and empty stores, in an order that
alternates.  Without the checks no file is read for its digest before use, nothing is remembered of what was found, and
Parquet's pages carry no checksums; digests that name what is made stay, for without them there is no store.
"""

import argparse
import multiprocessing
import resource
import statistics
import tempfile
from pathlib import Path

import pyarrow.parquet as pq

from bench.machine import machine
from noisyir import experiments
from noisyir.app.runs import run_experiment
from noisyir.engine import integrity
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.tracking.tracker import Tracker


def main() -> None:
    """Print the CPU seconds of each run, and the median of the pairs' shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="settings of the demo")
    parser.add_argument("--pairs", type=int, default=5)
    given = parser.parse_args()
    print(machine())
    shares = []
    for number in range(given.pairs):
        order = (True, False) if number % 2 else (False, True)
        took = {checked: _in_a_process(given.overrides, checked=checked) for checked in order}
        shares.append(took[True] / took[False] - 1)
        print(f"with checks {took[True]:.2f} s, without {took[False]:.2f} s: {shares[-1]:+.1%}", flush=True)
    print(f"median {statistics.median(shares):+.2%}, from {min(shares):+.1%} to {max(shares):+.1%}")


def _in_a_process(overrides: list[str], *, checked: bool) -> float:
    """CPU seconds, user and system, of one run."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_run, (overrides, checked))


def _run(overrides: list[str], checked: bool) -> float:
    experiment = experiments.load("demo", overrides)
    if not checked:
        _without_checks()
    with tempfile.TemporaryDirectory() as home:
        before = _cpu()
        run_experiment(
            experiment, Choice(), store=Store(Path(home) / "store", home=Path(home)), runtime=Runtime(device="cpu"),
            tracker=Tracker(), observer=Silent(),
        )  # fmt: skip
        return _cpu() - before


def _without_checks() -> None:
    integrity.Integrity._fault = lambda *_: None  # type: ignore[method-assign]
    integrity.Integrity._remember = lambda *_: None  # type: ignore[method-assign]
    integrity.Integrity._signature = lambda *_: (0,)  # type: ignore[method-assign]

    write, read = pq.write_table, pq.ParquetFile
    pq.write_table = lambda *given, **named: write(*given, **{**named, "write_page_checksum": False})
    pq.ParquetFile = lambda *given, **named: read(*given, **{**named, "page_checksum_verification": False})


def _cpu() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in (own, children))


if __name__ == "__main__":
    main()
