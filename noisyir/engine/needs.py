"""Needs of a stage: processors, memory and GPU memory, as measured while it was built."""

import re
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from noisyir.engine.meta import Meta
from noisyir.engine.runtime import Runtime

NOTE = "needs"


@dataclass(frozen=True)
class Needs:
    """Processors at work on average, and bytes of memory; None if not known."""

    processors: float | None = None
    memory: int | None = None
    gpu_memory: int | None = None

    def __str__(self) -> str:
        sizes = {"": self.memory, "GPU ": self.gpu_memory}
        known = [f"{self.processors:.2g} cpu"] if self.processors else []
        return ", ".join(known + [f"{name}{size / 2**30:.1f} GiB" for name, size in sizes.items() if size])


def needs_of(meta: Meta) -> Needs:
    """Return the needs of a build; none are known of builds of earlier versions."""
    noted = meta.notes.get(NOTE, {})
    return Needs(**{field.name: noted.get(field.name) for field in fields(Needs)})


def most(of_each: Iterable[Needs]) -> Needs:
    """Return what steps need that run one after the other in one place; unknown if one of them is."""
    columns = zip(*map(astuple, of_each), strict=True)
    return Needs(*(None if None in values else max(values) for values in columns))


@contextmanager
def measured(notes: dict[str, Any], runtime: Runtime) -> Iterator[None]:
    """Note the needs of the work inside; memory only on systems that count it for a process."""
    began, spent = time.monotonic(), _spent()
    cuda = _cuda()
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the kernel forgets the peak until now
    if cuda:
        cuda.reset_peak_memory_stats()
    yield
    alone = runtime.processes == 1
    found: dict[str, float] = {}
    with suppress(OSError):
        peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
        others = 0 if alone else runtime.processes * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        found["memory"] = 1024 * (int(peak[1]) + others) if peak else 0
    found["processors"] = round((_spent() - spent) / max(time.monotonic() - began, 1e-3), 2)
    if alone and (cuda := _cuda()):
        found["gpu_memory"] = max(map(cuda.max_memory_reserved, range(cuda.device_count())))
    notes[NOTE] = found


def _spent() -> float:
    """Seconds of processors for this process and for its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _cuda() -> Any:
    """torch.cuda if this process has used a GPU."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch and torch.cuda.is_initialized() else None
