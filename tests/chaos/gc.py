"""Runs beside a loop of `noisyir store gc`, which keeps the newest run alone: what a run needs is never deleted."""

import random
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path

from noisyir.base.errors import StoreError
from noisyir.engine.meta import Meta
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from tests.chaos.case import Case
from tests.chaos.kills import command
from tests.chaos.processes import begin
from tests.chaos.world import SMALL, World

_GCS = 400  # turns of the loop, so many that it outlasts a run


def cases(seed: int, count: int, folder: Path, before_gc: Callable[[], None] | None = None) -> Iterator[Case]:
    """So many runs, each of a seed of its own, so that each leaves the one before unneeded; a fourth is killed once."""
    draw, world, home = random.Random(seed), World.make(folder), folder / "beside"
    home.mkdir()
    loop = _loop(home, before_gc)
    try:
        for number in range(count):
            if not loop.is_alive():
                loop = _loop(home, before_gc)
            said = home / f"said-{number}"
            words = command(world, "retriever", *SMALL, f"seed={number}")
            if draw.random() < 0.25:
                first = begin(words, said, home)
                first.join(draw.uniform(0, 2))
                first.kill()
                first.join()
            process = begin(words, said, home)
            process.join()
            yield Case(f"{number}", _fault(world.store(home.name), process, said, home / "gc"))
    finally:
        loop.kill()
        loop.join()


def _loop(home: Path, before: Callable[[], None] | None) -> BaseProcess:
    words = ("store", "gc", "--keep-runs", "1", "--wait", "60")
    return begin(words, home / "gc", home, partial(_many, words, before))


def _many(words: tuple[str, ...], before: Callable[[], None] | None) -> None:
    """All turns of the loop but the last; what one says of a lock that it did not get is no fault."""
    from noisyir.front.cli import main

    if before:
        before()
    for _ in range(_GCS):
        main(words)


def _fault(store: Store, process: BaseProcess, said: Path, gc: Path) -> str | None:
    if process.exitcode:
        return f"the run ended with {process.exitcode}: {said.read_text()[-600:]}"
    if "Traceback" in said.read_text() or "Traceback" in gc.read_text():
        return "a traceback"
    with store.locks.in_use():
        newest = store.runs.all()[0]
        there = {(meta.key, meta.build): meta for meta in store.builds.all()}
        wanted = {name: there.get((step["key"], step["build"])) for name, step in newest["steps"].items()}
        if gone := [name for name, meta in wanted.items() if meta is None]:
            return f"deleted: {', '.join(gone)}"
        return _damage(store, [meta for meta in wanted.values() if meta])


def _damage(store: Store, metas: list[Meta]) -> str | None:
    try:
        behind = lineage(store, [meta.ref(name) for meta in metas for name in meta.artifacts])
    except StoreError as error:
        return str(error)
    faults = [f"{meta.folder}: {fault}" for meta in behind for fault in store.builds.verify(meta).values()]
    return "; ".join(faults) or None
