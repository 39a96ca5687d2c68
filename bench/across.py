"""One table over the records of several noise benches of one student: the model as it is, trained, and a method's gain.

    python -m bench.across minilm --records protocol_small_minilm protocol_small_minilm_staqc --claim "…"

The p-values of the method against plain training are corrected over the conditions of the table (Holm).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bench import tables
from noisyir.base.pages.cells import p_value
from noisyir.evaluation.significance import holm

MEASURE, BASELINE = "nDCG@10", "dpr"
HEAD = (
    "data",
    "as it is",
    "trained",
    "doubtful pairs weighted down",
    "gain of the weights",
    "95 % interval",
    "p (Holm)",
)
WORDS = {
    "squad uniform": "SQuAD, 1,500 questions, 40 % random documents",
    "squad neighbour": "SQuAD, 1,500 questions, 40 % near misses",
    "squad half_answer": "SQuAD, 1,500 questions, 40 % half answers",
    "nq uniform": "Natural Questions, 2,281 pairs, 40 % random passages",
    "pydocs uniform": "docstrings of Python, 40 % random functions",
    "staqc own": "StaQC, SQL, 43 % wrong by people",
    "nl2bash own": "nl2bash, commands, 61 % wrong by people",
    "conala own": "CoNaLa, Python, nothing wrong",
}


def conditions(record: Mapping[str, Any]) -> Iterator[str]:
    """The conditions of a record, as `WORDS` names them."""
    return iter(dict.fromkeys(row["mechanism"] for row in record["by_seed"]))


def mean(record: Mapping[str, Any], condition: str, method: str) -> str:
    """The mean over seeds, as a cell."""
    found = [
        row["value_mean"]
        for row in record["by_seed"]
        if (row["mechanism"], row["method"], row["measure"]) == (condition, method, MEASURE)
    ]
    return f"{np.mean(found):.3f}"


def rows(records: Sequence[Mapping[str, Any]], method: str) -> list[list[str]]:
    """A row for each condition, in the order of `WORDS`."""
    found = {condition: record for record in records for condition in conditions(record)}
    found = {condition: found[condition] for condition in WORDS if condition in found}
    corrected = holm(np.array([_test(record, condition, method)["p_value"] for condition, record in found.items()]))
    return [
        [
            WORDS[condition],
            *(mean(record, condition, each) for each in ("as_is", BASELINE, method)),
            *_gain(record, condition, method),
            p_value(p),
        ]
        for (condition, record), p in zip(found.items(), corrected.tolist(), strict=True)
    ]


def _test(record: Mapping[str, Any], condition: str, method: str) -> Mapping[str, Any]:
    asked = (condition, method, MEASURE, BASELINE)
    (found,) = (
        row for row in record["tests"] if (row["mechanism"], row["method"], row["measure"], row["against"]) == asked
    )
    return dict(found)


def _gain(record: Mapping[str, Any], condition: str, method: str) -> list[str]:
    (found,) = (
        row for row in record["table"] if (row[0], row[2], row[3], row[5]) == (condition, method, MEASURE, BASELINE)
    )
    return list(found[6:8])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="of the record to write")
    parser.add_argument("--records", nargs="+", required=True, help="the benches' records, without .json")
    parser.add_argument("--method", default="reweight")
    parser.add_argument("--claim", required=True, help="of the record, in one sentence")
    asked = parser.parse_args()
    found = [HEAD, *rows([tables.read(name) for name in asked.records], asked.method)]
    print(tables.record(asked.name, found, left=1, claim=asked.claim, records=asked.records, method=asked.method))


if __name__ == "__main__":
    main()
