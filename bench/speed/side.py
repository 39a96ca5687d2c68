"""One call of a side: `python -m bench.speed.side ROW SIDE FOLDER TEXTS SIZE`; the last line is what it took."""

import json
import re
import sys
from importlib import import_module
from pathlib import Path

from bench.speed.row import Stopwatch, Taken, Work, row_of


def main(name: str, side: str, folder: str, texts: str, size: str, *profile: str) -> None:
    Stopwatch.profiling = bool(profile)
    row = row_of(import_module(f"bench.speed.rows.{name}"))
    taken: Taken = getattr(row, side)(Work(Path(folder), Path(texts), int(size))) or {}
    print(json.dumps({"peak_mb": peak_mb(), **taken}))


def peak_mb() -> float:
    """Since this program began; `ru_maxrss` would count what its parent held."""
    found = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    return int(found[0]) / 1024


if __name__ == "__main__":
    main(*sys.argv[1:])
