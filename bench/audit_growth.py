"""How an audit's processor time, memory and page grow with the number of pairs, on pairs made by code.

    python -m bench.audit_growth --pairs 10000 30000 100000

Of so many pairs each document is named by three or four; a document has 60 words of 30,000, a query six of its
document's, and a fifth of the pairs another document.  Each audit is a process of its own, with a fresh store.
"opens" is how much longer Chromium takes to draw the page than an empty one; it stays empty where there is none.
Writes benchmarks/audit_growth.json, a row as it is measured; numbers that are not named keep their rows.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from bench.pictures import BROWSER, draw_page
from bench.tables import read, record

HEADINGS = ["pairs", "documents", "processor", "wall", "peak memory", "page", "opens"]
_WORDS, _LENGTH, _ASKED, _WRONG, _OF_EACH = 30_000, 60, 6, 0.2, 10 / 3


def write_pairs(count: int, path: Path) -> None:
    """A file of so many pairs."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{number:x}" for number in rng.permutation(_WORDS)])
    documents = np.minimum(rng.zipf(1.3, (int(count / _OF_EACH), _LENGTH)) - 1, _WORDS - 1)
    documents = (
        documents + rng.integers(0, _WORDS, (len(documents), 1)) * (rng.random(documents.shape) < 0.7)
    ) % _WORDS
    with path.open("w", encoding="utf-8") as out:
        for number in range(count):
            own = number % len(documents)
            query = " ".join(words[rng.choice(documents[own], _ASKED, replace=False)])
            given = rng.integers(len(documents)) if rng.random() < _WRONG else own
            row = {"query": f"{query} {number}", "doc_id": f"d{given}", "document": " ".join(words[documents[given]])}
            out.write(json.dumps(row) + "\n")


def audited(count: int, folder: Path, options: list[str]) -> tuple[float, float, float, int, str]:
    """Seconds of the processor and of the wall, MB at the peak, bytes of the page, and how long it opens."""
    file, out, home = folder / "pairs.jsonl", folder / "audit", folder / "home"
    write_pairs(count, file)
    command = [
        sys.executable,
        "-m",
        "noisyir.front.cli",
        "audit",
        str(file),
        "--out",
        str(out),
        "runtime.threads=1",
        *options,
    ]
    began = time.perf_counter()
    process = subprocess.Popen(command, env={**os.environ, "NOISYIR_HOME": str(home)}, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"the audit of {count:,} pairs ended with {os.waitstatus_to_exitcode(status)}")
    seconds = time.perf_counter() - began
    page, empty = (out / "audit.html").resolve(), (folder / "empty.html").resolve()
    empty.touch()
    opens = f"{drawn(page) - drawn(empty):.1f} s" if BROWSER else ""
    return used.ru_utime + used.ru_stime, seconds, used.ru_maxrss / 1024, page.stat().st_size, opens


def drawn(page: Path) -> float:
    """Seconds from the browser's start until it has drawn the page, the least of three."""
    took = []
    for _ in range(3):
        began = time.perf_counter()
        draw_page(page, page.with_suffix(".png"))
        took.append(time.perf_counter() - began)
    return min(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[10_000, 30_000, 100_000])
    parser.add_argument("--folder", help="for files and stores, which are deleted (default: the temporary one)")
    parser.add_argument("--set", nargs="*", default=[], help="settings, such as detectors.ensemble.tokens=0")
    given = parser.parse_args()
    for count in given.pairs:
        folder = Path(tempfile.mkdtemp(prefix="audit-growth-", dir=given.folder))
        try:
            used, seconds, peak, page, opens = audited(count, folder, given.set)
        finally:
            shutil.rmtree(folder)
        made = [f"{count:,}", f"{int(count / _OF_EACH):,}", f"{used:,.0f} s", f"{seconds:,.0f} s", f"{peak:,.0f} MB",
                f"{page / 1e6:.1f} MB", opens]  # fmt: skip
        print(" | ".join(made), flush=True)
        rows = [row for row in read("audit_growth")["table"][1:] if row[0] != made[0]]
        rows = sorted([*rows, made], key=lambda row: int(row[0].replace(",", "")))
        claim = "An audit's time, memory and page by the number of its pairs."
        record("audit_growth", [HEADINGS, *rows], claim=claim)


if __name__ == "__main__":
    main()
