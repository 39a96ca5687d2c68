"""Wrong pairs that come with bad queries: the fewer or the commoner a query's words, the likelier its pair is wrong."""

import re
from collections import Counter
from typing import ClassVar, Literal

import numpy as np
from jaxtyping import Float, Int
from pydantic import Field, PositiveFloat

from noisyir.data.corruptions import Noise, Spoilt, TrainingPairs
from noisyir.data.corruptions.uniform import draw_mismatches


class Vague(Noise):
    """Pairs of vague queries rather than of others, each with any training pair's document.

    Such a query scores low, or high, with everything, so that a threshold for all queries takes it for wrong or right.
    """

    kind: Literal["vague"] = "vague"
    needs_queries: ClassVar[bool] = True
    by: Literal["length", "rarity"] = Field(
        "length", description="a query is vague for having few words, or words that many queries have"
    )
    power: PositiveFloat = Field(2.0, description="a pair's weight is that length or rarity to minus this power")

    def spoil(self, given: TrainingPairs) -> Spoilt:
        """Exactly round(rate * pairs) pairs drawn by weight, and documents uniform over what is wrong for the query."""
        weights = vagueness(given.questions(), self.by) ** self.power
        rows = draw_by_weight(weights, round(self.rate * len(weights)), given.rng("pairs"))
        return Spoilt(rows, draw_mismatches(given.of(rows), given.rng("documents")))


def vagueness(questions: list[str], by: Literal["length", "rarity"]) -> Float[np.ndarray, " query"]:
    """One over the number of words of each query, or over the mean of ln(1 + N / n) over its words; in (0, inf).

    n: how many of the N queries have the word (inverse document frequency, Sparck Jones, 1972, of queries).  A query
    without a word counts as one of one word that all have.
    """
    words = [re.findall(r"\w+", question.lower()) for question in questions]
    if by == "length":
        return 1.0 / np.array([max(1, len(some)) for some in words], np.float64)
    having = Counter(word for some in words for word in set(some))
    rarity = [np.mean([np.log1p(len(words) / having[word]) for word in some] or [np.log(2.0)]) for some in words]
    return 1.0 / np.array(rarity, np.float64)


def draw_by_weight(
    weights: Float[np.ndarray, " pair"], wanted: int, rng: np.random.Generator
) -> Int[np.ndarray, " drawn"]:
    """Ascending row numbers of `wanted` pairs, drawn one after the other, each by its weight among those left.

    Source: Efraimidis and Spirakis, Information Processing Letters 2006: the greatest u^(1 / weight), u uniform.
    """
    keys = np.log(1.0 - rng.random(len(weights))) / weights
    return np.sort(np.argsort(-keys, kind="stable")[:wanted])
