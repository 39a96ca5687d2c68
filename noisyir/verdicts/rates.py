"""What is said about the noise rate, and about the made-up pairs that it rests on, in words."""

from collections.abc import Mapping
from statistics import median
from typing import Any

_OTHERS = {
    "random_scores": "documents drawn at random",
    "near_scores": "documents much like the best other one",
    "lexical_scores": "documents with the query's words",
    "source_scores": "documents of the best other one's source",
}


def beside(row: Mapping[str, Any]) -> str:
    """The middle one of the scores of each kind of made-up pair, of a row of pair_scores; empty where there is none."""
    found = {name: [score for score in row.get(name) or () if score == score] for name in _OTHERS}
    says = [f"{median(scores):.3f} with {_OTHERS[name]}" for name, scores in found.items() if scores]
    return f", and {', '.join(says)} in its place" if says else ""
