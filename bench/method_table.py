"""The table of methods on real and injected noise: measured set by set, recorded, written into benchmarks/noise.md.

    python -m bench.method_table ../shared/data                          # all sets: hours on one core
    python -m bench.method_table ../shared/data --sets staqc pydocs      # these anew, the others as recorded

Each set is one command of `bench.real_noise_training`.  What it gives goes into benchmarks/real_noise.json as soon as
it is known, by seed, beside the tests; `python -m bench.tables` writes the page from it.
"""

import argparse
import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bench.real_noise_training import MEASURE, arguments, measured
from bench.real_noise_training import METHODS as MEASURED
from bench.tables import RECORDS, read, record
from noisyir.evaluation.bench import CellBlock
from noisyir.evaluation.significance import crossed_t_test, holm

NAME = "real_noise"
CLAIM = f"{MEASURE} of plain training, and what other methods add to it, on real and injected noise."
SIGNIFICANT = 0.05
SQUAD = "--data squad {data}/squad --pairs 1500 --rate 0.4 --mechanism "
SETS = {
    "staqc": ("StaQC SQL, 43 % wrong by people", "--data staqc {data}/staqc_sql"),
    "nl2bash": ("nl2bash, most wrong by experts", "--data nl2bash {data}/nl2bash"),
    "conala": ("CoNaLa, written by hand, all right", "--data conala {data}/conala"),
    "pydocs": ("pydocs, its own noise", "--data pydocs --max-documents 4500 --rate 0"),
    "pydocs_uniform": ("pydocs, `uniform` 40 %", "--data pydocs --max-documents 4500 --rate 0.4"),
    "near_same_page": ("SQuAD, right pairs and same page", "--data squad_same_page {data}/squad --pairs 1500"),
    "near_half_answers": ("SQuAD, right pairs and half answers", "--data squad_half_answers {data}/squad --pairs 1500"),
    **{
        f"squad_{kind}": (f"SQuAD, `{kind}` 40 %", SQUAD + kind)
        for kind in (
            "uniform",
            "neighbour",
            "same_source",
            "confusable",
            "half_answer",
            "swapped_entities",
            "words_left_out",
            "absent",
            "vague",
            "group",
        )
    },
}
METHODS = {
    "reweight": "reweight", "reweight_relabel": "reweight_relabel", "relabel": "relabel", "drop": "drop", "npc": "npc",
    "npc_flags": "npc_flags", "npc_relabel": "npc_relabel", "auto": "auto",
    "human": "true labels", "oracle": "true labels", "random": "as many at random",
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="holds the folders staqc_sql, nl2bash, conala and squad")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS), help="those to measure")
    parser.add_argument("--methods", nargs="+", default=MEASURED, help="those to measure; others stay as recorded")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args()
    home = Path(os.environ.get("NOISYIR_HOME") or tempfile.mkdtemp())
    for name in asked.sets:
        given = SETS[name][1].format(data=asked.data).split()
        how = ["--seeds", str(asked.seeds), "--methods", *asked.methods]
        found = _values(*measured(arguments([*given, *how]), home / name))
        known: dict[str, Any] = read(NAME)["sets"] if (RECORDS / f"{NAME}.json").exists() else {}
        known[name] = together(known.get(name, {}), found)
        in_order = {name: known[name] for name in SETS if name in known}
        record(NAME, table(in_order), left=1, claim=CLAIM, seeds=asked.seeds, sets=in_order)
        print(name, found, flush=True)
        shutil.rmtree(home / name)


def _values(block: CellBlock, told: Mapping[str, str]) -> dict[str, Any]:
    """Of every method its mean under each seed, and its difference to plain training, p not yet corrected."""
    values = dict(zip(block.methods, block.values, strict=True))
    tests = {method: crossed_t_test((found - values["dpr"]).T, block.groups) for method, found in values.items()}
    return {
        "queries": block.values.shape[2],
        "told": dict(told),
        "by_seed": {method: np.round(found.mean(axis=1), 5).tolist() for method, found in values.items()},
        "less_plain": {
            method: {part: round(value, 6) for part, value in test._asdict().items()}
            for method, test in tests.items()
            if method != "dpr"
        },
    }


def together(known: Mapping[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """What was recorded of other methods stays, if plain training is what it was then."""
    if not known or known["by_seed"]["dpr"] != found["by_seed"]["dpr"]:
        return found
    return found | {part: known[part] | found[part] for part in ("told", "by_seed", "less_plain")}


def table(sets: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """A row for each set: plain training's value, the differences of the others, and what was told."""
    known = {METHODS[name] for found in sets.values() for name in found["less_plain"]}
    methods = [method for method in dict.fromkeys(METHODS.values()) if method in known]
    rows = [["", "plain", *methods, "95 % interval, about ±", "flagged", "`auto` chose"]]
    for name, found in sets.items():
        tests = found["less_plain"]
        corrected = holm(np.array([test["p_value"] for test in tests.values()]))
        cells = {METHODS[name]: _cell(tests[name]["mean"], p) for name, p in zip(tests, corrected, strict=True)}
        widths = [test["high"] - test["low"] for test in tests.values()]
        rows.append(
            [
                SETS[name][0],
                f"{np.mean(found['by_seed']['dpr']):.3f}",
                *(cells.get(method, "-") for method in methods),
                f".{round(1000 * float(np.median(widths)) / 2):03d}",
                found["told"].get("flagged", ""),
                found["told"].get("auto chose", ""),
            ]
        )
    return rows


def _cell(difference: float, p_value: float) -> str:
    """Thousandths, bold where significant."""
    shown = f"{difference:+.3f}".replace("0.", ".", 1)
    return f"**{shown}**" if p_value < SIGNIFICANT else shown


if __name__ == "__main__":
    main()
