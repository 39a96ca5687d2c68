"""The campaign: `python -m tests.chaos [FAMILY ...] [--seed N] [--count N]`; a table of tried and fine at the end.

Where a machine is not free for long, `--minutes 9 --record FILE` does as much as fits: the same command again goes on
with other seeds until every family has its trials, and tells what all pieces came to.
"""

import argparse
import csv
import logging
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

FAMILIES = {  # and how many trials a whole campaign makes of each
    "flips": 200,
    "truncations": 200,
    "kills": 200,
    "gc": 60,
    "gc_widened": 20,
    "disk_full": 20,
    "s3": 40,
    "malformed": 1600,
    "nodes": 20,
    "fuzz": 480,
    "serving": 600,
}
_TELL = 20  # trials after which it is said how far a family is


class Piece(NamedTuple):
    """Trials of one family that were made at one time."""

    family: str
    seed: int
    tried: int
    fine: int
    seconds: float


def main() -> int:
    """Exit code 1 where a trial was not fine."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("families", nargs="*", choices=[*FAMILIES, []], help="(default: all)")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn (default: 0)")
    parser.add_argument("--count", type=int, help="trials of each family (default: as in docs/operate/reliability.md)")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no trial begins")
    parser.add_argument("--record", type=Path, help="where earlier pieces are written down, and this one will be")
    parser.add_argument("--tell", action="store_true", help="print each trial of malformed with what a user is told")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # so that what it has begun is ended
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    logging.getLogger("noisyir").setLevel(logging.ERROR)
    pieces, until = _recorded(given.record), time.monotonic() + 60 * given.minutes
    for name in given.families or FAMILIES:
        tried = sum(piece.tried for piece in pieces if piece.family == name)
        if (left := (given.count or FAMILIES[name]) - tried) > 0 and time.monotonic() < until:
            seed = given.seed + sum(piece.family == name for piece in pieces)
            pieces.append(_campaign(name, seed, left, until, tell=given.tell))
            _record(given.record, pieces[-1])
    rows = list(_table(pieces))
    print(f"{'family':<14}{'tried':>7}{'fine':>7}{'seconds':>9}")
    for name, tried, fine, seconds in rows:
        print(f"{name:<14}{tried:>7}{fine:>7}{seconds:>9.0f}")
    return int(any(tried != fine or not tried for _, tried, fine, _ in rows))


def _campaign(name: str, seed: int, count: int, until: float, *, tell: bool) -> Piece:
    """At most so many trials of a family; what is not fine is told at once.  until: when no trial begins any more."""
    began, tried, fine = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix=f"chaos-{name}-") as folder:
        for case in import_module(f"tests.chaos.{name}").cases(seed, count, Path(folder)):
            tried, fine = tried + 1, fine + (case.fault is None)
            if tried % _TELL == 0:
                print(f"{name}: {fine} of {tried} fine, {count} wanted", file=sys.stderr, flush=True)
            if tell and case.said:
                print(f"{case.name}\n    {case.said}")
            if case.fault is not None:
                print(f"{name}: {case.name}: {case.fault}", file=sys.stderr, flush=True)
            if time.monotonic() > until:
                break
    return Piece(name, seed, tried, fine, time.monotonic() - began)


def _recorded(path: Path | None) -> list[Piece]:
    if path is None or not path.exists():
        return []
    with path.open() as rows:
        return [
            Piece(name, int(seed), int(tried), int(fine), float(seconds))
            for name, seed, tried, fine, seconds in csv.reader(rows)
        ]


def _record(path: Path | None, piece: Piece) -> None:
    if path is not None:
        with path.open("a") as rows:
            csv.writer(rows).writerow(piece)


def _table(pieces: Iterable[Piece]) -> Iterator[tuple[str, int, int, float]]:
    """(family, tried, fine, seconds) of all pieces."""
    for name in FAMILIES:
        if mine := [piece for piece in pieces if piece.family == name]:
            yield name, *(sum(counts) for counts in list(zip(*mine, strict=True))[2:])  # type: ignore[misc]


if __name__ == "__main__":
    sys.exit(main())
