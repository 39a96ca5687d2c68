"""Advice for a file of pairs, from the protocol's sets that are most like it; nothing is trained or judged here."""

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from noisyir.base.pages.cells import percent
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.words import spaced
from noisyir.engine.remote.fetched import located
from noisyir.methods.plans.left_out import LEAST_RATE, trials_pay
from noisyir.methods.plans.rules import MANY

Array = np.ndarray
NEAREST, LEAST_NEAR, MOST_LOSS = 5, 3, 0.005
_COSTS = {"dpr": 1, "drop": 1, "reweight": 1, "relabel": 1, "reweight_relabel": 1, "npc": 1, "npc_flags": 1,
          "npc_relabel": 1, "auto": 18}  # fmt: skip
_OF_MINILM = "with MiniLM it gained on four sets with wrong pairs, and was not told from dpr where nothing is wrong"
_WORD = re.compile(r"\w+")
_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")


class Profile(NamedTuple):
    """Statistics of a file of pairs.

    `overlap` is the mean share of query words in the document, `without` the share of pairs without overlap,
    `documents` distinct documents per pair, `repeated` the share of pairs with a repeated query, `latin` the share of
    Latin letters.
    """

    pairs: int
    overlap: float
    without: float
    query_words: float
    document_words: float
    documents: float
    repeated: float
    latin: float

    @property
    def place(self) -> Float[Array, " feature"]:
        """Features for distances between sets, with logarithms of sizes and lengths."""
        return np.array(
            [math.log10(self.pairs), self.overlap, self.without, math.log10(1 + self.query_words),
             math.log10(1 + self.document_words), self.documents]
        )  # fmt: skip


class KnownSet(NamedTuple):
    """A measured set: its profile, and gains in nDCG@10 over plain training with their lower ends."""

    name: str
    family: str
    profile: Profile
    gains: Mapping[str, float]
    lows: Mapping[str, float]


class Expected(NamedTuple):
    """Expected gain over plain training: mean and 95 % prediction interval."""

    mean: float
    low: float
    high: float


class Advice(NamedTuple):
    """A training method with its reason, its gain if known, and the sets behind it."""

    method: str
    why: str
    gain: Expected | None
    near: Sequence[str]

    @property
    def assume(self) -> str | None:
        """`detect.assume` of its measurement; without it the method trains plainly unless made-up pairs agree."""
        return None if self.method in ("dpr", "npc", "auto") else "best"


def profile_of(pairs: Iterable[tuple[str, str]]) -> Profile | None:
    """The profile of (query, document) texts; None of no pair."""
    asked: dict[str, int] = {}
    documents, shares, lengths, letters, latin = set[int](), list[float](), list[tuple[int, int]](), 0, 0
    for query, document in pairs:
        words, others = (_WORD.findall(spaced(text).lower()) for text in (query, document))
        shares.append(len({*words} & {*others}) / max(1, len({*words})))
        lengths.append((len(words), len(others)))
        asked[query] = asked.get(query, 0) + 1
        documents.add(hash(document))
        letters, latin = letters + sum(map(str.isalpha, query)), latin + len(_LATIN.findall(query))
    if not shares:
        return None
    means, count = np.mean(lengths, axis=0), len(shares)
    repeated = sum(number for number in asked.values() if number > 1) / count
    without = sum(share == 0 for share in shares) / count
    about = (float(np.mean(shares)), without, float(means[0]), float(means[1]), len(documents) / count, repeated)
    return Profile(count, *about, latin / max(1, letters))


def profile_of_data(data: Format) -> Profile | None:
    """The profile of a file's first pairs; None of data that is no file of pairs."""
    there = located(data)
    if not isinstance(there, Pairs):
        return None
    first = islice(there.open().right_pairs(), MANY)
    return profile_of((example.query, f"{one.title} {one.text}") for example, one in first)


@cache
def known_sets() -> tuple[KnownSet, ...]:
    """The protocol's sets as `python -m bench.recommended` measured them."""
    text = files("noisyir.methods.experiments").joinpath("known_sets.json").read_text(encoding="utf-8")
    return tuple(
        KnownSet(row["name"], row["family"], Profile(**row["profile"]), row["gains"], row["lows"])
        for row in json.loads(text)["sets"]
    )


def near_sets(profile: Profile, known: Sequence[KnownSet]) -> list[KnownSet]:
    """The nearest sets, nearest first, none farther than the loneliest of them from its third neighbour.

    Distances are Euclidean, each feature by its standard deviation over the known sets.
    """
    places = np.array([one.profile.place for one in known])
    scale = np.maximum(places.std(axis=0), 1e-9)
    apart = np.linalg.norm((places[:, None] - places[None]) / scale, axis=2)
    reach = float(np.sort(apart, axis=1)[:, LEAST_NEAR].max())
    far = np.linalg.norm((places - profile.place) / scale, axis=1)
    order = [int(number) for number in np.argsort(far, kind="stable")[:NEAREST] if far[number] <= reach]
    return [known[number] for number in order]


def expected(gains: Sequence[float]) -> Expected:
    """The mean of n sets' gains and the interval of another set's: mean +- t(n - 1) s sqrt(1 + 1 / n), at 95 %.

    Source: the prediction interval of one further draw from a normal population (Geisser, 1993).
    """
    from scipy import special

    count, mean = len(gains), float(np.mean(gains))
    reach = float(special.stdtrit(count - 1, 0.975)) * float(np.std(gains, ddof=1)) * math.sqrt(1 + 1 / count)
    return Expected(mean, mean - reach, mean + reach)


def advise(
    profile: Profile | None,
    backbone: str,
    known: Sequence[KnownSet],
    pairs: int,
    most_wrong: float | None = None,
    *,
    weighs: bool = False,
) -> Advice:
    """The safe method with the highest mean gain on the near sets; the rule of size decides if none is near.

    A method is safe if its lower end on no known set is below -MOST_LOSS: texts do not tell how pairs are wrong.
    A costlier method must gain a thousandth more than a cheaper one. `most_wrong` is passed to `trials_pay`, and
    `weighs` is whether a transformer may be trained a second time.
    """
    near = near_sets(profile, known) if profile else []
    tried, why = trials_pay(backbone, pairs, most_wrong)
    ruled = most_wrong is not None and not tried
    if weighs and not (most_wrong is not None and most_wrong <= LEAST_RATE):
        return Advice("reweight", _OF_MINILM, None, ())
    if backbone != "static" or ruled or len(near) < LEAST_NEAR:
        unlike = "; the measured sets are of static models" if near else "; no measured set is like this file"
        return Advice("auto" if tried else "dpr", why + ("" if ruled else unlike), None, ())
    names = [one.name for one in near]
    safe = [name for name in _COSTS if all(one.lows.get(name, -math.inf) >= -MOST_LOSS for one in known)]
    best, gain = "dpr", Expected(0.0, 0.0, 0.0)
    for name in safe:
        found = expected([one.gains[name] for one in near])
        if found.mean > gain.mean + 0.001 * (_COSTS[name] > _COSTS[best]):
            best, gain = name, found
    why = f"the most on the {len(near)} sets like it, among methods that on no known set may lose more than {MOST_LOSS}"
    return Advice(best, why, gain, names)


def sentences(advice: Advice, profile: Profile | None) -> list[tuple[str, str]]:
    """The advice for people: a word and its explanation."""
    gain = "not known"
    if advice.gain is not None:
        mean, low, high = advice.gain
        gain = f"{mean:+.3f} nDCG@10 over plain training; 95 % of sets like it lie from {low:+.3f} to {high:+.3f}"
    lines = [("method", f"{advice.method}: {advice.why}"), ("gain", gain)]
    lines += [("with", f"detect.assume={advice.assume}, as its gain was measured")] if advice.assume else []
    lines += [("like it", "; ".join(advice.near))] if advice.near else []
    if profile is None:
        return lines
    count = f"{profile.pairs:,} pairs{' or more' if profile.pairs == MANY else ''}"
    repeated, overlap, without, latin = map(percent, (profile.repeated, *profile[1:3], profile.latin))
    about = f"{count}, {profile.documents:.2f} documents a pair, {repeated} with a query that stands twice"
    shared = f"{overlap} of a query's words are in its document, none in {without} of the pairs"
    lengths = f"{profile.query_words:.0f} and {profile.document_words:.0f} words, {latin} Latin letters"
    return [("pairs", about), ("words", f"{shared}; {lengths}"), *lines]


def passes_of(advice: Advice, epochs: int) -> int:
    """Passes over the documents in the advised trainings, without early stops."""
    return _COSTS[advice.method] * epochs


def as_json(advice: Advice, profile: Profile | None) -> dict[str, Any]:
    """The same for programs."""
    gain = advice.gain._asdict() if advice.gain else None
    about = profile._asdict() if profile else None
    said = {"method": advice.method, "assume": advice.assume, "why": advice.why, "gain": gain}
    return {**said, "near": list(advice.near), "profile": about}
