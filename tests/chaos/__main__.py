"""The campaign: `python -m tests.chaos [FAMILY ...] [--seed N] [--count N]`; a table of tried and fine at the end."""

import argparse
import logging
import os
import sys
import tempfile
import time
from importlib import import_module
from pathlib import Path

FAMILIES = {  # and how many trials a whole campaign makes of each
    "flips": 200,
    "truncations": 200,
    "kills": 200,
    "gc": 60,
    "gc_widened": 20,
    "disk_full": 20,
    "s3": 40,
    "malformed": 400,
}
_TELL = 20  # trials after which it is said how far a family is


def main() -> int:
    """Exit code 1 where a trial was not fine."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="(default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--count", type=int, help="trials of each family (default: as in docs/reliability.md)")
    given = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.getLogger("noisyir").setLevel(logging.ERROR)
    rows = [_campaign(name, given.seed, given.count or FAMILIES[name]) for name in given.families or FAMILIES]
    print(f"{'family':<14}{'tried':>7}{'fine':>7}{'seconds':>9}")
    for name, tried, fine, seconds in rows:
        print(f"{name:<14}{tried:>7}{fine:>7}{seconds:>9.0f}")
    return int(any(tried != fine or not tried for _, tried, fine, _ in rows))


def _campaign(name: str, seed: int, count: int) -> tuple[str, int, int, float]:
    """(family, tried, fine, seconds); what is not fine is told at once."""
    began, tried, fine = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix=f"chaos-{name}-") as folder:
        for case in import_module(f"tests.chaos.{name}").cases(seed, count, Path(folder)):
            tried, fine = tried + 1, fine + (case.fault is None)
            if tried % _TELL == 0:
                print(f"{name}: {fine} of {tried} fine, {count} wanted", file=sys.stderr, flush=True)
            if case.fault is not None:
                print(f"{name}: {case.name}: {case.fault}", file=sys.stderr, flush=True)
    return name, tried, fine, time.monotonic() - began


if __name__ == "__main__":
    sys.exit(main())
