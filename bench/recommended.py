"""What `noisyir init --dry-run` knows, and its regret: the best method's gain less the advised one's, sets left out.

    python -m bench.recommended ../shared/data      # the sets' texts anew; gains of benchmarks/real_noise.json
    python -m bench.recommended                     # the regret alone

The gains are those of `python -m bench.method_table`.  Each set is left out in turn, and then each family, the sets
that come from the same texts; what is then advised is held against the gains that were measured on it.
"""

import argparse
import csv
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.method_table import SETS
from bench.real_noise_training import Bench, arguments
from bench.tables import circumstances, read, record
from noisyir.app.protocol import write_tasks
from noisyir.app.recommending import KnownSet, Profile, advise, known_sets, profile_of
from noisyir.app.runs import Execution
from noisyir.engine.runtime import Runtime
from noisyir.methods.plans.suite import Suite
from noisyir.registry import open_tracker

TARGET = Path(__file__).parents[1] / "noisyir/methods/experiments/known_sets.json"
NAME = "recommended"
_TRUTH = ("human", "oracle", "random")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="holds the folders staqc_sql, nl2bash, conala and squad")
    asked = parser.parse_args()
    if asked.data:
        gains = read("real_noise")["sets"]
        sets = [row(name, profile(name, asked.data), gains[name]) for name in SETS if name in gains]
        TARGET.write_text(json.dumps({**circumstances(), "sets": sets}, indent=1) + "\n", encoding="utf-8")
    rows = list(regrets(known_sets()))
    record(NAME, [HEAD, *rows_of(rows)], left=2, claim=CLAIM, regret=rows)
    for cells in [HEAD, *rows_of(rows)]:
        print(" | ".join(cells))


HEAD = ["left out", "set", "advised", "its gain", "interval", "best", "regret"]
CLAIM = "Regret of `noisyir init --dry-run` on the protocol's sets, each left out, and each family left out."


def profile(name: str, data: Path) -> Profile:
    """The texts of a set, with its noise, under seed 0."""
    asked = arguments([*SETS[name][1].format(data=data).split(), "--seeds", "1"])
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        bench = Bench(asked, home)
        experiment = {"name": "profile", "data": bench.data()}
        noise = {"kind": asked.mechanism, "rate": bench.rate}
        suite = Suite(name="profile", experiment=experiment, noise=[noise], seeds=[0], methods=["dpr"])
        tracker = open_tracker(experiment=suite.experiment, home=home, enabled=False)
        execution = Execution(store=bench.store, runtime=Runtime(threads=1), tracker=tracker)
        (place,) = write_tasks(suite, home / "tasks", execution)
        found = profile_of(_pairs(home / "tasks" / place))
    assert found is not None
    print(name, found, flush=True)
    return found


def row(name: str, found: Profile, measured: dict[str, Any]) -> dict[str, Any]:
    """A set as it is kept."""
    gains = {method: round(test["mean"], 5) for method, test in measured["less_plain"].items() if method not in _TRUTH}
    lows = {method: round(measured["less_plain"][method]["low"], 5) for method in gains}
    about = {"name": SETS[name][0], "family": name.partition("_")[0], "profile": found._asdict()}
    return {**about, "gains": gains, "lows": lows}


def regrets(known: tuple[KnownSet, ...]) -> Iterator[dict[str, Any]]:
    """What is advised for each set without it, and without its family."""
    families = {one.name: "squad" if one.family == "near" else one.family for one in known}
    for what in ("set", "family"):
        for one in known:
            others = [other for other in known if other is not one]
            if what == "family":
                others = [other for other in others if families[other.name] != families[one.name]]
            advice = advise(one.profile, "static", others, one.profile.pairs)
            gains = {"dpr": 0.0, **one.gains}
            best = max(gains, key=lambda method: gains[method])
            held = None if advice.gain is None else bool(advice.gain.low <= gains[advice.method] <= advice.gain.high)
            yield {"left out": what, "set": one.name, "advised": advice.method, "gain": gains[advice.method],
                   "held": held, "best": best, "regret": gains[best] - gains[advice.method]}  # fmt: skip


def rows_of(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    """Cells, and the mean and the worst of each way to leave out."""
    said = {None: "not known", True: "holds it", False: "misses it"}
    for what in ("set", "family"):
        mine = [found for found in rows if found["left out"] == what]
        for found in mine:
            yield [what, found["set"], found["advised"], f"{found['gain']:+.4f}", said[found["held"]], found["best"],
                   f"{found['regret']:.4f}"]  # fmt: skip
        known = [found["held"] for found in mine if found["held"] is not None]
        held = f"{sum(known)} of {len(known)} hold"
        spread = [found["regret"] for found in mine]
        yield [
            what,
            "mean",
            "",
            f"{np.mean([found['gain'] for found in mine]):+.4f}",
            held,
            "",
            f"{np.mean(spread):.4f}",
        ]
        least = min(found["gain"] for found in mine)
        yield [what, "worst", "", f"{least:+.4f}", "", "", f"{max(spread):.4f}"]


def _pairs(folder: Path) -> Iterator[tuple[str, str]]:
    read_lines = {
        name: {found["_id"]: found for found in map(json.loads, (folder / f"{name}.jsonl").open(encoding="utf-8"))}
        for name in ("corpus", "queries")
    }
    with (folder / "qrels/train.tsv").open(encoding="utf-8", newline="") as lines:
        for query, document, _ in list(csv.reader(lines, delimiter="\t"))[1:]:
            text = read_lines["corpus"][document]
            yield read_lines["queries"][query]["text"], f"{text.get('title', '')} {text['text']}"


if __name__ == "__main__":
    main()
