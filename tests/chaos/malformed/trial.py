"""One malformed input: how it is made, what reads it, and whether what comes of that is one clear line."""

import atexit
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from noisyir.base.errors import NoisyirError
from tests.chaos.case import Case

CPU_SECONDS, WALL_SECONDS = 10, 60  # the former is the promise; a busy machine may need more of the latter
MEMORY = 1 << 30
LONGEST_LINE = 900
_MOST_TOLD = 4000  # characters of a trial's own fault: a pipe takes so many at once
# A message says what to do, or what should stand there instead of what does.
_REMEDY = re.compile(
    r"\b(set|sets|give|put|keep|name|use|write|convert|mend|check|get|remove|rename|leave|leaves|lower|raise|choose|"
    r"make|must|should|known|there are|expected|needs|did you mean|download|map|copy|valid|a number|goes with|lists?|"
    r"again|one of)\b",
    re.IGNORECASE,
)


def folder_until_the_end(name: str) -> Path:
    """A new folder that goes when this process ends; those forked from it leave it."""
    folder = Path(mkdtemp(prefix=f"noisyir-{name}-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


Read = Callable[[], object]
Make = Callable[[Path, random.Random], Read]


@dataclass(frozen=True)
class Trial:
    """make: writes the input into an empty folder and returns what reads it; place: what the message has to name."""

    name: str
    make: Make
    place: str


def tried(trial: Trial, folder: Path, seed: int) -> Case:
    """Make and read the input in a process of its own, which may neither hang nor take much memory."""
    folder.mkdir(parents=True)
    read_end, write_end = os.pipe()
    inherited = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # which a fork begins with
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _in_the_child(trial, folder, seed, write_end)
    os.close(write_end)
    fault, said = None, ""
    heard = _listen(read_end, child)
    _, status, used = os.wait4(child, 0)
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        fault = f"hangs, or takes more than {CPU_SECONDS} s" if number in _HANGS else f"dies of signal {number}"
    else:
        fault, said = json.loads(heard)
    if not fault and (taken := used.ru_maxrss * 1024 - inherited) > MEMORY:
        fault = f"takes {taken >> 20} MB"
    return Case(trial.name, fault, said)


_HANGS = (signal.SIGXCPU, signal.SIGKILL)


def _in_the_child(trial: Trial, folder: Path, seed: int, write_end: int) -> None:
    found: tuple[str | None, str] = "ended without a word", ""
    try:
        os.chdir(folder)
        read = trial.make(folder, random.Random(f"{seed} {trial.name}"))
        used = int(time.process_time()) + 1
        resource.setrlimit(resource.RLIMIT_CPU, (used + CPU_SECONDS, used + CPU_SECONDS))
        found = fault_of(read, trial.place)
    except BaseException:
        found = "the trial itself failed: " + traceback.format_exc()[-_MOST_TOLD:], ""
    finally:
        os.write(write_end, json.dumps(found).encode())
        os._exit(0)


def _listen(read_end: int, child: int) -> str:
    """What the child says, which is ended when it says nothing for too long."""
    with os.fdopen(read_end, "rb") as pipe:
        if not select.select([pipe], [], [], WALL_SECONDS)[0]:
            os.kill(child, signal.SIGKILL)
        return pipe.read().decode()


def fault_of(read: Read, place: str) -> tuple[str | None, str]:
    """Why this is not the refusal that a person needs, None where it is; and what was said."""
    try:
        read()
    except NoisyirError as error:
        said = str(error)
        return fault_of_message(said, place), said[:_MOST_TOLD]
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        said = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return f"{said} ({Path(last.filename).name}:{last.lineno})", ""
    return "accepted without a word", ""


def fault_of_message(text: str, place: str) -> str | None:
    """The same of a message.  Of several faults of an experiment each has its line, which begins alike."""
    lines = text.split("\n")
    if "Traceback" in text or any(line.partition(":")[0] != lines[0].partition(":")[0] for line in lines):
        return f"more than a line: {text[:300]!r}"
    if max(map(len, lines)) > LONGEST_LINE:
        return f"{len(text)} characters: {text[:200]!r}"
    if place not in text:
        return f"does not name {place!r}: {text[:300]!r}"
    return None if _REMEDY.search(text) else f"does not say what to do: {text[:300]!r}"
