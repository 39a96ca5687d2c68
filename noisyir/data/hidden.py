"""Relevant documents that no pair names, put in on purpose, as pure functions: pairs to hide, and edited copies."""

from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt64

from noisyir.data.noise import is_among

_ATTEMPTS = 10


class Copy(NamedTuple):
    """An edited copy: the number of its original, its own number from 1, its text, and the edit rate drawn for it.

    text: None where no edit gave a text that nobody has.  again: how often it was edited anew until one did.
    """

    original: int
    number: int
    text: str | None
    edit_rate: float
    again: int


def hideable(query: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Bool[np.ndarray, " pair"]:
    """All pairs but one of each query, which is drawn at random and stays.

    Source: Wang et al., AAAI 2024, section 4.1, which turns some positives into false negatives at random.
    """
    shuffled = rng.permutation(len(query))
    free = np.ones(len(query), bool)
    free[shuffled[np.unique(query[shuffled], return_index=True)[1]]] = False
    return free


def text_key(text: str) -> int:
    """64 bits that are equal for texts of equal words, however these are spaced."""
    return int.from_bytes(blake2b(" ".join(text.split()).encode(), digest_size=8).digest())


def edited_copies(
    texts: Sequence[str],
    copies: int,
    edit_rates: Sequence[float],
    known: UInt64[np.ndarray, " text"],
    rng: np.random.Generator,
) -> Iterator[Copy]:
    """`copies` copies of each text, each edited at a rate drawn from `edit_rates`, no two alike and none in `known`.

    known: ascending `text_key`s of what no copy may be equal to, the originals among them.
    """
    with_words = [text for text in texts if text.strip()]
    made: set[int] = set()

    def any_word() -> str:
        words = with_words[rng.integers(len(with_words))].split()
        return words[rng.integers(len(words))]

    def is_new(text: str) -> bool:
        key = text_key(text)
        return bool(text) and key not in made and not is_among(np.array([key], np.uint64), known)[0]

    for original, text in enumerate(texts):
        words = text.split()
        for number in range(1, copies + 1):
            rate = edit_rates[int(rng.integers(len(edit_rates)))]
            tries = (edited(words, rate, any_word, rng) for _ in range(_ATTEMPTS if words else 0))
            again, copy = next(((n, one) for n, one in enumerate(tries) if is_new(one)), (0, None))
            if copy is not None:
                made.add(text_key(copy))
            yield Copy(original, number, copy, rate, again)


def edited(words: Sequence[str], rate: float, any_word: Callable[[], str], rng: np.random.Generator) -> str:
    """The words, round(rate * words) of them but at least 1 edited: deleted, replaced, or swapped with the next.

    Which words, and what happens to each, is drawn uniformly; the last word is swapped with the one before.
    """
    changed = list(words)
    places = rng.choice(len(words), size=max(1, round(rate * len(words))), replace=False)
    for place, edit in zip(places.tolist(), rng.integers(3, size=len(places)).tolist(), strict=True):
        neighbour = place + 1 if place + 1 < len(words) else place - 1
        if edit == 0:
            changed[place] = ""
        elif edit == 1:
            changed[place] = any_word()
        else:
            changed[place], changed[neighbour] = changed[neighbour], changed[place]
    return " ".join(word for word in changed if word)
