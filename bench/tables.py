"""Tables of README, docs and benchmarks, written from what benches recorded: no number is typed by hand.

    python -m bench.tables                                   # write every table between its marks
    python -m bench.tables --record squad_uniform            # record the newest noise bench of the store, then write

A Markdown page holds `<!-- results: NAME -->` and `<!-- end of results -->`; what is between is the table of
benchmarks/NAME.json.  A record says what was run, on what, and holds the table's cells; benchmarks/README.md has the
rules.  tests/unit/test_tables.py fails where a page is not what its records say.
"""

import argparse
import json
import platform
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.machine import machine
from noisyir.base.pages.cells import markdown_table

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "benchmarks"
_MARKED = re.compile(
    r"(?P<begin><!-- results: (?P<name>[\w-]+) -->\n)(?P<table>.*?)(?P<end><!-- end of results -->)", re.DOTALL
)


def record(name: str, rows: Sequence[Sequence[str]], *, left: int = 0, claim: str = "", **about: Any) -> Path:
    """Write benchmarks/NAME.json: the rows, headings first, of which `left` columns are words, and what was run."""
    what = {"claim": claim, **circumstances(), **about, "left": left, "table": [list(row) for row in rows]}
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(what, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return path


def whole(commit: str) -> str:
    """The 40 digits of a commit of this repository."""
    found = subprocess.run(["git", "rev-parse", commit], cwd=ROOT, capture_output=True, text=True, check=False)
    return found.stdout.strip()


def circumstances() -> dict[str, str]:
    """What was typed, of which commit, on what machine, with which packages, and when."""
    return {
        "command": " ".join([Path(sys.executable).name, *sys.orig_argv[1:]]),
        "commit": whole("HEAD"),
        "machine": machine(),
        "packages": f"uv.lock of the commit, Python {platform.python_version()}",
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def read(name: str) -> dict[str, Any]:
    """A record.  FileNotFoundError where nothing was recorded under this name."""
    return dict(json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8")))


def written(text: str) -> str:
    """The page with every marked table as its record has it."""

    def table(found: re.Match[str]) -> str:
        known = read(found["name"])
        return f"{found['begin']}{markdown_table(known['table'], left=known['left'])}{found['end']}"

    return _MARKED.sub(table, text)


def pages() -> Iterator[Path]:
    """The Markdown files that may hold tables."""
    yield ROOT / "README.md"
    yield from sorted((ROOT / "docs").rglob("*.md"))
    yield from sorted(set(RECORDS.glob("*.md")) - {RECORDS / "README.md"})


def names(text: str) -> list[str]:
    """The records that a page shows."""
    return [found["name"] for found in _MARKED.finditer(text)]


def record_bench(name: str, build: str, claim: str = "") -> Path:
    """Record the summary of a noise bench in the store: every method, and its tests; a page shows the baseline's."""
    from noisyir.app.lookup import find_build
    from noisyir.base.pages.cells import difference_cells, rate_as_set
    from noisyir.engine.runtime import default_home
    from noisyir.engine.store import Store
    from noisyir.evaluation.pages.bench import starred, word

    store = Store(default_home() / "store", home=default_home())
    meta = find_build(store, build)
    head = ["noise", "rate", "method", "measure", "mean", "against", "difference", "95 % interval", "p (Holm)", ""]
    rows, summary = [], store.builds.table(meta.ref("bench_summary")).to_pylist()
    for row in summary:
        mean = f"{row['mean']:.3f}" + (f" ± {row['seed_std']:.3f}" if row["seed_std"] is not None else "")
        tested = [""] * 5
        if row["against"]:
            tested = [row["against"], *difference_cells(row), starred(word(row, meta.params.get("alpha", 0.05)))]
        about = [row["mechanism"], rate_as_set(row["rate"]), row["method"], row["measure"], mean]
        rows.append([*about, *tested])
    values = store.builds.table(meta.ref("bench_values"))
    seeds = values.group_by(["mechanism", "rate", "method", "measure", "split", "seed"]).aggregate([("value", "mean")])
    tests = [
        {name: row[name] for name in ("mechanism", "rate", "method", "measure", "against", "p_value")}
        for row in summary
        if row["against"]
    ]
    baseline = next((row[5] for row in rows if row[5]), "")
    shown, further = ([row for row in rows if (row[5] in ("", baseline)) == is_shown] for is_shown in (True, False))
    commit = whole((meta.git_commit or "HEAD").rstrip("+"))
    return record(name, [head, *shown], left=4, claim=claim, commit=commit, by_seed=seeds.to_pylist(),
                  tests=tests, artifact=meta.key, further=further)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", metavar="NAME", help="record a noise bench of the store first")
    parser.add_argument("--build", default="noise_table", help="key of the bench's table; default: the newest")
    parser.add_argument("--claim", default="", help="of the record, in one sentence")
    asked = parser.parse_args()
    if asked.record:
        print(record_bench(asked.record, asked.build, asked.claim))
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (new := written(text)) != text:
            page.write_text(new, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: {', '.join(names(text))}")


if __name__ == "__main__":
    main()
