"""`noisyir run demo` from an empty home: the clock, all processor time and the peak of memory, of all its processes."""

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from bench.speed.row import Line, Row, Taken, Work

_SECONDS = 0.5  # between two looks at the memory


class Demo(Row):
    lines = (
        Line("demo", "noisyir", "before_the_work", "noisyir before", at_least=2),
        Line("demo, peak memory", "noisyir", "before_the_work", "noisyir before", limit=2000, quantity="tree_mb"),
    )
    turns = 1
    reads_texts = False
    takes_minutes = True
    needs: ClassVar = {"noisyir": ("psutil",), "before_the_work": ("psutil",)}
    before = frozenset({"before_the_work"})

    def noisyir(self, work: Work) -> Taken:
        with tempfile.TemporaryDirectory(dir=work.folder) as home:
            environment = os.environ | {"NOISYIR_HOME": home}
            began, cpu = time.perf_counter(), _of_children()
            command = [sys.executable, "-m", "noisyir.front.cli", "run", "demo"]
            with (Path(home) / "said").open("w") as said:
                run = subprocess.Popen(command, env=environment, stdout=said, stderr=said, text=True)
                peak = watched(run)
            if run.returncode:
                raise SystemExit((Path(home) / "said").read_text()[-2000:])
            seconds = time.perf_counter() - began
        return {"seconds": seconds, "cpu_seconds": _of_children() - cpu, "items": 1, "tree_mb": peak}

    before_the_work = noisyir


def _of_children() -> float:
    """Processor seconds of all processes that have ended below this one."""
    times = os.times()
    return times.children_user + times.children_system


def watched(run: "subprocess.Popen[str]") -> float:
    """Wait for a process; the most memory that it and all below it held at once, in MB: shared pages count once."""
    import psutil

    peak, top = 0.0, psutil.Process(run.pid)
    while run.poll() is None:
        held = 0.0
        with suppress(psutil.NoSuchProcess):
            for process in (top, *top.children(recursive=True)):
                with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                    held += process.memory_full_info().pss / 2**20
        peak = max(peak, held)
        time.sleep(_SECONDS)
    return peak
