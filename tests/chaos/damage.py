"""One damaged file a trial: of an artifact, of what a killed stage left to go on from, or of a build's own account.

A trial damages the store in one of three ways of being found: the file's time has changed, and the next run passes the
build over; the bits rotted under an unchanged time, and what reads the file is run again; `verify --repair` is typed.
None may use the damage; after the advised command every artifact has the bytes of a store that was never damaged.
"""

import io
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from noisyir.base.errors import NoisyirError
from noisyir.engine.meta import META
from noisyir.engine.plan import Choice
from noisyir.engine.stage import Observer, Step
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.chaos.case import Case
from tests.chaos.world import (
    TASKS,
    TIMES,
    Digests,
    Task,
    World,
    differences,
    digests,
    forget_what_was_read,
    is_one_of,
    run,
)

RESUMING = {  # stages that leave work behind, and the task that has them
    "train_dpr": "retriever",
    "warm_up_ranker": "retriever",
    "train_ar2": "retriever",
    "train_npc": "retriever",
    "score_pairs": "retriever",
    "encode": "retriever",
    "train_reader": "reader",
    "sieve": "further",
}
Damage = Callable[[bytes, random.Random], bytes]


class _Stopped(BaseException):
    """As sudden as a kill for a stage, in a process that goes on."""


class _StopsAfter(Observer):
    """Ends the run when a stage has told of its progress so often; `told` counts."""

    def __init__(self, stage: str, times: int) -> None:
        self.stage, self.times, self.told = stage, times, 0

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        """Count, and stop."""
        if step.stage.name == self.stage:
            self.told += 1
            if self.told == self.times:
                raise _Stopped


@dataclass(frozen=True)
class Patient:
    """A store that was made and never damaged, and the copy of it that a trial damages and heals."""

    world: World
    pristine: Store
    store: Store
    wanted: Digests
    tasks: tuple[Task, ...]

    @classmethod
    def make(cls, folder: Path, names: tuple[str, ...]) -> "Patient":
        """Run these tasks once."""
        world, tasks = World.make(folder), []
        pristine = world.store("pristine")
        for name in names:
            tasks.append(world.task(name, pristine))
            run(tasks[-1], pristine)
        return cls(world, pristine, world.copy(pristine, "damaged"), digests(pristine), tuple(tasks))

    def run_all(self) -> None:
        """What the advice says: run what made it again."""
        for task in self.tasks:
            run(task, self.store)

    def fault(self) -> str | None:
        """What is other than in the pristine store."""
        return differences(digests(self.store), self.wanted, TIMES)


def damaged_files(
    seed: int, count: int, folder: Path, damage: Damage, tasks: tuple[str, ...] = TASKS
) -> Iterator[Case]:
    """So many trials, by turns over all kinds of files."""
    draw, patient = random.Random(seed), Patient.make(folder, tasks)
    left = {f"work of {stage}": stage for stage, task in RESUMING.items() if task in tasks}
    kinds = [*_kinds(patient.pristine), *left]
    draw.shuffle(kinds)
    works: dict[str, _Work] = {}
    for number in range(count):
        kind = kinds[number % len(kinds)]
        if (stage := left.get(kind)) is not None:
            if stage not in works:
                works[stage] = _interrupted(patient, stage, draw)
            yield Case(f"{number}: {kind}", _work_fault(patient, works[stage], damage, draw))
        else:
            patient.world.copy(patient.pristine, "damaged")  # what an earlier trial healed tells of other times
            path = draw.choice(_kinds(patient.store)[kind])
            way = draw.choice((_found_by_time, _found_by_reading, _found_by_verify))
            yield Case(f"{number}: {kind}, {way.__name__[1:]}: {path}", _guarded(patient, way, path, damage, draw))


def _kinds(store: Store) -> dict[str, list[Path]]:
    """The files of a store by kind: the artifact's name, `meta` or `record`."""
    found: dict[str, list[Path]] = {}
    for path in sorted(Path(store.root).glob("[!.]*/*/*/**/*")):
        if path.is_file():
            inside = path.relative_to(store.root).parts[3:]
            found.setdefault("meta" if inside == (META,) else inside[0], []).append(path)
    found["record"] = sorted(Path(store.root).glob(".runs/*.json"))
    found["memory of what was checked"] = sorted(Path(store.root).glob(".checked/*.json"))
    return found


def _guarded(
    patient: Patient, way: Callable[..., str | None], path: Path, damage: Damage, draw: random.Random
) -> str | None:
    try:
        return way(patient, path, damage, draw) or patient.fault()
    except Exception as error:  # a trial's fault, not the campaign's
        return f"{type(error).__name__}: {error}"


def _found_by_time(patient: Patient, path: Path, damage: Damage, draw: random.Random) -> str | None:
    path.write_bytes(damage(path.read_bytes(), draw))
    patient.run_all()
    healed = META != path.name and ".runs" not in path.parts
    stands_for_itself = is_one_of(str(path.relative_to(patient.store.root)), TIMES)  # the new one has other bytes
    return _verified(patient) if healed and not stands_for_itself else _repaired(patient)


def _found_by_reading(patient: Patient, path: Path, damage: Damage, draw: random.Random) -> str | None:
    """The consumers of the build run again: each gives a line or the same bytes."""
    times = path.stat()
    path.write_bytes(damage(path.read_bytes(), draw))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    hit = path.relative_to(patient.store.root).parts[1]
    for task in patient.tasks:
        for step in task.plan.steps:
            if any(output.key == hit for output in step.outputs_needed()):
                try:
                    run(task, patient.store, Choice(only=step.name, refresh=(step.name,)))
                except NoisyirError as error:
                    if "\n" in str(error):
                        return f"more than a line: {error}"
                if wrong := differences(
                    _but(digests(patient.store), path, patient), _but(patient.wanted, path, patient)
                ):
                    return f"{step.name} used it: {wrong}"
    patient.run_all()
    return _repaired(patient)


def _but(found: Digests, path: Path, patient: Patient) -> Digests:
    stage, key, _, *inside = path.relative_to(patient.store.root).parts
    return {name: digest for name, digest in found.items() if name != "/".join((stage, key, *inside))}


def _found_by_verify(patient: Patient, path: Path, damage: Damage, draw: random.Random) -> str | None:
    before = path.read_bytes()
    path.write_bytes(damage(before, draw))
    memory = ".checked" in path.parts
    code, said = typed("store", "verify", "--store", patient.store.root)
    build = str(path.relative_to(patient.store.root).parent if ".runs" in path.parts else path.parent)
    if code != 1 and not memory and not _says_the_same(path, before):
        return f"verify notices nothing in {build}: {said}"
    return _repaired(patient)


def _says_the_same(path: Path, before: bytes) -> bool:
    """Whether a JSON file's damage lies in what JSON does not read: a space that became a tab."""
    try:
        return path.suffix == ".json" and bool(json.loads(path.read_bytes()) == json.loads(before))
    except ValueError:
        return False


def _repaired(patient: Patient) -> str | None:
    code, said = typed("store", "verify", "--repair", "--store", patient.store.root)
    if code:
        return f"verify --repair ends with {code}: {said}"
    patient.run_all()
    return _verified(patient)


def _verified(patient: Patient) -> str | None:
    forget_what_was_read()
    code, said = typed("store", "verify", "--store", patient.store.root)
    return f"verify still finds: {said}" if code else None


def typed(*words: str) -> tuple[int, str]:
    """The exit code of a command as another process would give it, and what it said."""
    forget_what_was_read()
    said = io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        return main(words), said.getvalue()


# Work ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Work:
    """What a stage that was stopped left, in a store where only its builds are missing."""

    stage: str
    store: Store


def _interrupted(patient: Patient, stage: str, draw: random.Random) -> _Work:
    store = patient.world.copy(patient.pristine, f"stopped-{stage}")
    task = patient.world.task(RESUMING[stage])
    counting = _StopsAfter(stage, 0)
    shutil.rmtree(Path(store.root) / stage)
    run(task, store, observer=counting)
    for after in draw.sample(range(1, counting.told), counting.told - 1):
        shutil.rmtree(Path(store.root) / stage, ignore_errors=True)
        try:
            run(task, store, observer=_StopsAfter(stage, after))
        except _Stopped:
            if _work_files(store):
                return _Work(stage, store)
    raise AssertionError(f"{stage} leaves nothing to go on from, wherever it is stopped")


def _work_files(store: Store) -> list[Path]:
    return [path for path in sorted(Path(store.root).glob(".work/*/**/*")) if path.is_file()]


def _work_fault(patient: Patient, work: _Work, damage: Damage, draw: random.Random) -> str | None:
    store = patient.world.copy(work.store, "resumed")
    path = draw.choice(_work_files(store))
    path.write_bytes(damage(path.read_bytes(), draw))
    try:
        for task in patient.tasks:
            run(task, store)
    except Exception as error:
        return f"{path.name}: {type(error).__name__}: {error}"
    return differences(digests(store), patient.wanted, TIMES)
