"""How far several judges agree."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from noisyir.app.judging.journal import Answer
from noisyir.verdicts.judgements import Pair


def agreement(latest: Mapping[str, Mapping[Pair, Answer]]) -> list[dict[str, Any]]:
    """For every two judges with pairs in common: how many, and Cohen's kappa of wrong and clean.

    latest: what each judge said last of each pair.
    """
    found = []
    for one, other in combinations(sorted(latest), 2):
        both = [pair for pair in latest[one] if pair in latest[other]]
        said = [(latest[one][pair].verdict == "wrong", latest[other][pair].verdict == "wrong")
                for pair in both if "unclear" not in (latest[one][pair].verdict, latest[other][pair].verdict)]
        if said:
            found.append({"judges": [one, other], "pairs": len(said), "kappa": None})
    return found
