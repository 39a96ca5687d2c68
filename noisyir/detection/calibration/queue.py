"""Pairs to ask a costly judge about: some at random, some that people judged, the rest by worth."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int

Array = np.ndarray
Draw = Literal["random", "teaching", ""]


class Questions(NamedTuple):
    """Pairs to ask about, as row numbers, the first first; none twice.

    random: drawn at random from all pairs, each pair as likely as any other; checked: judged by people, too, so that
    they tell how often the judge errs; teaching: those where doubt times harm is greatest, the greatest first.
    """

    random: Int[Array, " random"]
    checked: Int[Array, " checked"]
    teaching: Int[Array, " teaching"]

    @property
    def rows(self) -> Int[Array, " asked"]:
        """All of them in the order in which they are asked, so that a budget that ends early spares the random ones."""
        return np.concatenate(self)

    @property
    def draws(self) -> list[Draw]:
        """How each of `rows` was drawn; nothing for those that people judged."""
        counts: list[tuple[Draw, int]] = [("random", len(self.random)), ("", len(self.checked))]
        return [draw for draw, count in [*counts, ("teaching", len(self.teaching))] for _ in range(count)]


def doubt(p_clean: Float[Array, " pair"]) -> Float[Array, " pair"]:
    """How open it is whether a pair is right: 4 p (1 - p), 1 at a half, 0 where all is known."""
    return np.asarray(4 * p_clean * (1 - p_clean))


def harm(query: Int[Array, " pair"], document: Int[Array, " pair"]) -> Float[Array, " pair"]:
    """How much it would matter that a pair is wrong: log2(1 + pairs of its document) / pairs of its query.

    The only pair of a query is all that is learnt of it; of ten, one is a tenth.  A document that many pairs name is
    wrong for many when it is wrong for one, as a catch-all page is; the logarithm keeps it from taking all questions.
    query, document: numbers that equal ones share, from 0.
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
    """At most `count` pairs to ask about: a share at random, up to a share that people judged, the rest by `worth`.

    judged: 0 for what people did not judge; what they did is asked the sooner the greater, and never for its worth.
    With the same seed a larger count adds to a smaller one's random pairs and takes none away.  Where all pairs are
    asked, all are drawn at random.
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
