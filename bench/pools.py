"""What pools cost: the demo through `make up` beside the local engine, each from nothing and cached; and one hop.

    python -m bench.pools hop            a hop of an idle machine: tiny stages, each sent alone, against none sent
    python -m bench.pools hop --fresh    the same where each flow run is a fresh process
    python -m bench.pools demo           the demo through pools, from nothing and cached
    python -m bench.pools local          the same by the local engine

Runs on an idle machine, or alone on a core (`taskset -c 0`): servers, workers and runs inherit the core.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.e2e.site import ROOT, Site, kill
from tests.tiny import SETTINGS, write_beir

ON_DEMAND, EVERYWHERE = "train_retriever/on-demand", {"elsewhere": ["cpu", "gpu"]}


def main() -> None:
    """Measure what the command line names, and print a line for each run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("hop", "demo", "local"))
    parser.add_argument("--overrides", nargs="*", default=[], help="of the demo, such as methods=[dpr]")
    parser.add_argument("--fresh", action="store_true", help="kill the process that flow runs are forked from")
    given = parser.parse_args()
    if given.what == "local":
        with tempfile.TemporaryDirectory(prefix="noisyir-bench-") as home:
            _tell("by the local engine", [_local(Path(home), given.overrides) for _ in range(2)])
        return
    with _site() as site:
        if given.fresh:
            kill(site.pid("warm"))
        if given.what == "hop":
            _hop(site)
        else:
            runs = [_through(site, given.overrides, EVERYWHERE) for _ in range(2)]
            _tell(f"through pools, in {runs[0][1]} flow runs", [seconds for seconds, _ in runs])


@contextmanager
def _site() -> Iterator[Site]:
    with tempfile.TemporaryDirectory(prefix="noisyir-bench-") as name:
        Path(name).chmod(0o755)  # Postgres may be another user
        site = Site(Path(name))
        try:
            site.up()
            yield site
        finally:
            site.down()


def _hop(site: Site) -> None:
    write_beir(site.home / "beir")
    common = [*SETTINGS, f"data.path={site.home / 'beir'}", "methods=[dpr]"]
    _through(site, [*common, "seed=1"], {"elsewhere": []})  # what a first run alone pays
    for seed in (2, 3):
        begun = _cpu_seconds(site)
        none, _ = _through(site, [*common, f"seed={seed}", f"data.max_held_out={10 + seed}"], {"elsewhere": []})
        between = _cpu_seconds(site)
        alone = {**EVERYWHERE, "together": False}
        each, hops = _through(site, [*common, f"seed={seed + 10}", f"data.max_held_out={12 + seed}"], alone)
        cpu = (_cpu_seconds(site) - between) - (between - begun)
        print(f"none sent {none:.1f} s; {hops} sent alone {each:.1f} s: {(each - none) / hops:.2f} s a hop, ", end="")
        print(f"{cpu / hops:.2f} s of CPU", flush=True)


def _cpu_seconds(site: Site) -> float:
    """Of the servers, the workers and all that they have begun."""
    used = 0.0
    for pid in site.pids().values():
        for process in (root := psutil.Process(pid), *root.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                used += sum(process.cpu_times()[:4])  # user, system, and of children that have ended
    return used


def _tell(how: str, seconds: Sequence[float]) -> None:
    print(f"demo {how}: {seconds[0]:.1f} s from nothing, {seconds[1]:.1f} s cached", flush=True)


def _local(home: Path, overrides: Sequence[str]) -> float:
    """Seconds of `noisyir run demo`, with the start of Python."""
    began = time.monotonic()
    command = [sys.executable, "-m", "noisyir.front.cli", "run", "demo", *overrides]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "NOISYIR_HOME": str(home)}, capture_output=True, check=True)
    return time.monotonic() - began


def _through(site: Site, overrides: Sequence[str], pools: dict[str, Any]) -> tuple[float, int]:
    """Seconds from asking for the flow run to its end, and how many flow runs it sent to the pools."""
    began = time.monotonic()
    run = site.start(ON_DEMAND, experiment="demo", overrides=list(overrides), pools=pools)
    if (state := site.end(run, 3600)) != "COMPLETED":
        raise SystemExit(f"the run is {state}: {site.message(run)}")
    seconds, sent = time.monotonic() - began, site.children(run)
    for child in sent:
        if child["state_type"] != "COMPLETED":
            print(f"{child['name']} is {child['state_type']}: {child['state']['message']}", flush=True)
    return seconds, len(sent)


if __name__ == "__main__":
    main()
