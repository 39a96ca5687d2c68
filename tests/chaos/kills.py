"""kill -9 at random times of a run, several times in one run; then the same command ends in the same bits."""

import random
from collections.abc import Iterator
from pathlib import Path

from noisyir.engine.store import Store
from tests.chaos.case import Case
from tests.chaos.processes import begin, seconds_of
from tests.chaos.world import TIMES, Digests, World, differences, digests

IN_A_RUN = 4  # kills
_TASKS = ("retriever", "reader", "reader")  # by turns: readers take less time


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many kills."""
    draw, world = random.Random(seed), World.make(folder)
    wanted, seconds = {}, {}
    for task in set(_TASKS):
        home = folder / f"whole-{task}"
        seconds[task] = seconds_of(command(world, task), folder / "said", home)
        wanted[task] = digests(world.store(home.name))
    number = 0
    while number < count:
        task = _TASKS[number // IN_A_RUN % len(_TASKS)]
        kills, home = min(IN_A_RUN, count - number), folder / f"killed-{number}"
        times = [draw.uniform(0, seconds[task] / 2) for _ in range(kills)]
        fault = _run_fault(world, task, home, times, wanted[task])
        for at in times:
            yield Case(f"{number}: {task} killed after {at:.2f} s of {seconds[task]:.1f}", fault)
            number += 1


def command(world: World, task: str, *more: str) -> list[str]:
    """The words of a run: checkpoints after every step."""
    fast = ("runtime.checkpoint_seconds=0.000001", "runtime.threads=1", "runtime.device=cpu")
    return ["run", world.name(task), *world.settings(task), *fast, "--no-track", *more]


def _run_fault(world: World, task: str, home: Path, times: list[float], wanted: Digests) -> str | None:
    home.mkdir()
    said = home / "said"
    for at in times:
        process = begin(command(world, task), said, home)
        process.join(at)
        process.kill()
        process.join()
    last = begin(command(world, task), said, home)
    last.join()
    store = world.store(home.name)
    return (
        (f"ended with {last.exitcode}: {said.read_text()[-500:]}" if last.exitcode else None)
        or ("a traceback" if "Traceback" in said.read_text() else None)
        or differences(digests(store), wanted, TIMES)
        or left_over(store)
    )


def left_over(store: Store) -> str | None:
    """What a run that has ended must not leave; None where it left nothing.

    Work may stay behind: whoever is killed between publishing and tidying up leaves it to `gc`.
    """
    found = list(Path(store.root).glob(".staging/*"))
    damaged = [f"{meta.folder}: {fault}" for meta in store.builds.all() for fault in store.builds.verify(meta).values()]
    wrong = [*map(str, found), *damaged, *store.builds.damaged(), *store.damaged_records()]
    return f"left over or damaged: {', '.join(wrong[:3])}" if wrong else None
