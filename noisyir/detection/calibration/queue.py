"""Selection of pairs for a costly judge: some at random, some already judged by people, the rest by worth."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
Draw = Literal["random", "teaching", ""]


class Questions(NamedTuple):
    """Row numbers of the pairs to ask about, in order and without repetition.

    Attributes:
        random: Drawn at random from all pairs with equal probability.
        checked: Also judged by people, to measure how often the judge errs.
        teaching: Pairs with the greatest product of doubt and harm, in descending order.
    """

    random: Int[Array, " random"]
    checked: Int[Array, " checked"]
    teaching: Int[Array, " teaching"]

    @property
    def rows(self) -> Int[Array, " asked"]:
        """All rows in the order of asking, so that a budget that runs out early spares the random ones."""
        return np.concatenate(self)

    @property
    def draws(self) -> list[Draw]:
        """How each of `rows` was drawn; empty for pairs judged by people."""
        counts: list[tuple[Draw, int]] = [("random", len(self.random)), ("", len(self.checked))]
        return [draw for draw, count in [*counts, ("teaching", len(self.teaching))] for _ in range(count)]


def doubt(p_clean: Float[Array, " pair"]) -> Float[Array, " pair"]:
    """Uncertainty about a pair: 4 p (1 - p), which is 1 at p = 1/2 and 0 under certainty."""
    return np.asarray(4 * p_clean * (1 - p_clean))


def harm(query: Int[Array, " pair"], document: Int[Array, " pair"]) -> Float[Array, " pair"]:
    """Damage done by a wrong pair: log2(1 + pairs of its document) / pairs of its query.

    A query's only pair is all that is learnt about the query; one of ten is a tenth. A document in many pairs that is
    wrong for one query, such as a catch-all page, is wrong for many; the logarithm keeps it from taking all questions.
    """
    of_query, of_document = (np.bincount(which)[which] for which in (query, document))
    return np.asarray(np.log2(1 + of_document) / of_query)


def choose_questions(
    worth: Float[Array, " pair"],
    judged: Int[Array, " pair"],
    count: int,
    *,
    random_share: float,
    checked_share: float,
    rng: np.random.Generator,
) -> Questions:
    """Choose at most `count` pairs: a share at random, up to a share judged by people, and the rest by `worth`.

    With the same seed, a larger count extends the random pairs of a smaller one. If all pairs are asked, all count as
    drawn at random.

    Args:
        judged: 0 for pairs not judged by people; among the others larger values are asked first, never for their worth.
    """
    pairs = len(worth)
    order = rng.permutation(pairs)
    if count >= pairs:
        return Questions(order, order[:0], order[:0])
    drawn = min(count, int(np.ceil(count * random_share)))
    random, left = order[:drawn], order[drawn:]
    by_people = left[np.argsort(-judged[left], kind="stable")][: np.count_nonzero(judged[left])]
    checked = by_people[: min(count - drawn, int(np.ceil(count * checked_share)))]
    left = left[judged[left] == 0]
    by_worth = left[np.argsort(-worth[left], kind="stable")]
    return Questions(random, checked, by_worth[: count - drawn - len(checked)])
