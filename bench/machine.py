"""What a measurement was taken on, in one sentence."""

import os
import platform
import re
from pathlib import Path


def machine() -> str:
    """Processor, cores that this process may use, memory and accelerator, and how busy it is."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    threads = f"{given} thread(s)" if (given := os.environ.get("OMP_NUM_THREADS")) else ""
    parts = [_processor(), f"{cores()} of {os.cpu_count()} cores", threads, f"{memory:.0f} GiB", platform.system()]
    return ", ".join(part for part in (*parts, _accelerator(), f"load {os.getloadavg()[0]:.1f}") if part)


def cores() -> int:
    """How many cores this process, and what it starts, may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return f"{platform.machine()} {found[1]}" if found else platform.processor() or platform.machine()


def _accelerator() -> str:
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
