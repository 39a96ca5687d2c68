"""Text about the noise rate and the made-up pairs on which it is based."""

from collections.abc import Mapping
from statistics import median
from typing import Any, NamedTuple

from noisyir.detection.rate import RateByNull, rate_range
from noisyir.detection.settings import Null
from noisyir.detection.verdicts import nulls_in

_FIRST = 50  # pairs that a person judges in about 15 minutes
ASSUMED: dict[Null, str] = {
    "random": "random documents",
    "near": "neighbours of the best other document",
    "lexical": "documents with the query's words",
    "source": "documents of the best other one's source",
}
_SCORES = {
    "random_scores": "documents drawn at random",
    "near_scores": "documents much like the best other one",
    "lexical_scores": "documents with the query's words",
    "source_scores": "documents of the best other one's source",
}
_OTHER = "it cannot be known: half an answer, or one with a wrong name, is like a right one to all detectors"
NOT_KNOWN = f"not known without judgements: judge {_FIRST} pairs to know it"
NOT_SAID = f"how many are wrong is {NOT_KNOWN}"
_ANY = "any rate is possible: it depends on which of these your wrong pairs are like"


class RateSentence(NamedTuple):
    """One line: an assumption about wrong pairs, and the rate that follows."""

    assumed: str
    rate: str


def by_each_null(estimate: Mapping[str, float]) -> list[RateSentence]:
    """Each null's rate and its credibility, the range over all, and the noise that no null detects."""
    said = nulls_in(estimate)
    lines = [RateSentence(f"if wrong pairs have {ASSUMED[null]}", _statement(found)) for null, found in said.items()]
    any_of = RateSentence("if they have any of these", _over_all(said))
    return [*lines, any_of, RateSentence("if they are wrong in other ways", _OTHER)]


def in_terminal(estimate: Mapping[str, float], assumed: str | None, called_wrong: int = 0) -> str:
    """Lines for the terminal in place of the noise rate if there are no judgements.

    Args:
        assumed: Value of `detect.assume`; if set, the implication of each kind of made-up pairs is included.
        called_wrong: Number of other pairs that the data calls wrong itself.
    """
    asked = f" besides the {called_wrong:,}?\n{'':<21}" if called_wrong else "?  "
    first = f"How many are wrong{asked}{NOT_KNOWN[0].upper()}{NOT_KNOWN[1:]}."
    if assumed is None:
        return f"{first}\n{'':<21}--assume random shows it if wrong documents are random."
    lines = by_each_null(estimate)
    width = max(len(line.assumed) for line in lines)
    return "\n".join([first, *(f"  {line.assumed:<{width}}  {line.rate}" for line in lines)])


def why_none_is_flagged(estimate: Mapping[str, float]) -> str:
    """Explain in a clause why no pair is flagged without judgements."""
    said = nulls_in(estimate).values()
    if said and all(found.reading == "blind" for found in said):
        return (
            "made-up pairs look no more suspect than yours: either all of yours are wrong, or the detectors know "
            "nothing of such texts; judge 20 to know which"
        )
    if said and all(found.reading == "few" for found in said):
        return "hardly any pair looks like a made-up one; pairs that are wrong in other ways cannot be seen"
    return "the scores alone cannot separate wrong pairs from right ones; that does not mean that all are right"


def _statement(found: RateByNull) -> str:
    interval = f"{_number(found.rate)} % [{_number(found.low)}, {_number(found.high)}]"
    at_most = f"at most {_number(found.high)} %"
    if found.reading == "agrees":
        return f"{interval}; the scores agree with that"
    if found.reading == "at_most":
        return f"{at_most}; made-up pairs of this kind fit better than yours"
    if found.reading == "too_easy":
        return "says little: these made-up pairs are too easy to tell from yours"
    if found.reading == "weak":
        return f"{at_most}; right pairs may look like these made-up ones (AUROC {found.auroc:.2f}): too weak to count"
    if found.reading == "blind":
        return f"any rate is possible: these made-up pairs look no more suspect than yours (AUROC {found.auroc:.2f})"
    if found.reading == "few":
        return f"{at_most}; hardly any of your pairs looks like that"
    return f"{interval}; this cannot be checked with so few pairs, or so few made up for each"


def cannot_be_known(said: Mapping[Null, RateByNull]) -> bool:
    """Return whether no kind of made-up pairs was found to be like the wrong ones among the given pairs."""
    return all(found.reading != "agrees" for found in said.values())


def _over_all(said: Mapping[Null, RateByNull]) -> str:
    low, high = rate_range(said)
    readings = {found.reading for found in said.values()}
    if readings == {"few"}:
        return f"{_number(low)} to {_number(high)} %; hardly any is wrong in these ways; in all it cannot be known"
    if cannot_be_known(said):  # a range would suggest otherwise
        if "unchecked" in readings:
            return "it cannot be known: too few pairs, or too few made up for each, to check any of these"
        return "it cannot be known: made-up pairs of none of these kinds are like your wrong ones"
    return _ANY if low == 0 and high == 1 else f"{_number(low)} to {_number(high)} %"


def _number(share: float) -> str:
    """Format in percent: as an integer, or below 10 with one decimal."""
    return f"{100 * share:.0f}" if share >= 0.0995 or share == 0 else f"{100 * share:.1f}"


def beside(row: Mapping[str, Any]) -> str:
    """Medians of a pair_scores row's scores by kind of made-up pair; empty if there are none."""
    found = {name: [score for score in row.get(name) or () if score == score] for name in _SCORES}
    says = [f"{median(scores):.3f} with {_SCORES[name]}" for name, scores in found.items() if scores]
    return f", and {', '.join(says)} in its place" if says else ""
