"""The disk fills up at points spread over a run: one line; with space back the same command ends in the same bits.

The disk is a tmpfs that is mounted for the campaign, which only root may do; for others the largest size that a file
may have takes its place.  By turns it is small from the start, or filled by someone else while the run is at work.
"""

import random
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.chaos.case import Case
from tests.chaos.kills import command, left_over
from tests.chaos.processes import begin, seconds_of
from tests.chaos.world import TIMES, Digests, World, differences, digests

_TASK = "reader"


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many points, half of them of space and half of time."""
    draw, world = random.Random(seed), World.make(folder)
    whole = folder / "whole"
    seconds = seconds_of(command(world, _TASK), folder / "said", whole)
    wanted = digests(world.store("whole"))
    needed = sum(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    largest = max(path.stat().st_size for path in whole.rglob("*") if path.is_file())
    for number in range(count):
        share = (number + draw.random()) / count
        with _disk(folder / f"disk-{number}") as is_disk:
            if not is_disk:
                fault = _limited(world, folder / f"disk-{number}", max(1, int(share * largest)), wanted)
                yield Case(f"{number}: files of at most {share:.0%} of the largest", fault)
            elif number % 2:
                fault = _filled(world, folder / f"disk-{number}", share * seconds, wanted)
                yield Case(f"{number}: full after {share * seconds:.2f} s of {seconds:.1f}", fault)
            else:
                fault = _small(world, folder / f"disk-{number}", int(share * needed), wanted)
                yield Case(f"{number}: space for {share:.0%} of what a run writes", fault)


@contextmanager
def _disk(home: Path) -> Iterator[bool]:
    """A disk mounted at `home`; false where that may not be done."""
    home.mkdir()
    mount = shutil.which("mount")
    is_disk = (
        mount is not None
        and not subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=64m", "none", home], capture_output=True, check=False
        ).returncode
    )
    try:
        yield is_disk
    finally:
        if is_disk:
            subprocess.run(["umount", "-l", home], check=True)


def _small(world: World, home: Path, space: int, wanted: Digests) -> str | None:
    subprocess.run(["mount", "-o", f"remount,size={max(space, 4096)}", home], check=True)
    process = begin(command(world, _TASK), home.with_name(f"{home.name}-said"), home)
    process.join()
    subprocess.run(["mount", "-o", "remount,size=64m", home], check=True)
    return _fault(world, home, process.exitcode, wanted)


def _filled(world: World, home: Path, after: float, wanted: Digests) -> str | None:
    process = begin(command(world, _TASK), home.with_name(f"{home.name}-said"), home)
    process.join(after)
    ballast = home / "ballast"
    subprocess.run(["dd", "if=/dev/zero", f"of={ballast}", "bs=4096"], capture_output=True, check=False)
    process.join()
    ballast.unlink()
    return _fault(world, home, process.exitcode, wanted)


def _limited(world: World, home: Path, largest: int, wanted: Digests) -> str | None:
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
    process = begin(command(world, _TASK), home.with_name(f"{home.name}-said"), home, limit)
    process.join()
    return _fault(world, home, process.exitcode, wanted)


def _fault(world: World, home: Path, code: int | None, wanted: Digests) -> str | None:
    """What the run on the full disk did wrong, or the one after it."""
    said = home.with_name(f"{home.name}-said")
    lines = said.read_text().splitlines()
    errors = [number for number, line in enumerate(lines) if line.startswith("noisyir: ")]
    if code not in (0, 1) or (code == 1 and errors != [len(lines) - 1]) or "Traceback" in said.read_text():
        return f"ended with {code}, and not in one line: {said.read_text()[-700:]}"
    again = begin(command(world, _TASK), said, home)
    again.join()
    store = world.store(home.name)
    return (
        (f"with space ended with {again.exitcode}: {said.read_text()[-500:]}" if again.exitcode else None)
        or differences(digests(store), wanted, TIMES)
        or left_over(store)
    )
