"""Long texts cut into passages at ends of sentences, and which passage of a document answers a query."""

import math
import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from noisyir.data.answers import answer_lines, token_line

# A run of characters without a space, or one sign of a script that puts no spaces between words.
_UNSPACED = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_UNSPACED}]|[^\s{_UNSPACED}]+")
_TERM = re.compile(rf"[{_UNSPACED}]|[^\W{_UNSPACED}]+")
_END = re.compile(r"[.!?…。！？]['\"”’»)\]」』]*$")  # noqa: RUF001
_PARAGRAPH = re.compile(r"\n\s*\n")
LONGEST = 500  # words: models read less than half of a longer document


def is_long(text: str) -> bool:
    """Whether a document has more than LONGEST words, as `cut` counts them."""
    return len(text) > 2 * LONGEST and len(_WORD.findall(text)) > LONGEST


def cut(text: str, words: int, overlap: int = 0) -> list[str]:
    """Cut a text into about equally long passages of at most `words` words, overlapping by at most `overlap` words.

    A word is what stands between spaces, or a sign of Chinese or Japanese.  A passage ends with a sentence if one ends
    in the second half of its length.  Passages are slices: without overlap (below half of `words`) no word is lost.
    """
    places = [found.span() for found in _WORD.finditer(text)]
    if len(places) <= words:
        return [text]
    ends = _sentence_ends(text, places)
    passages, start = [], 0
    while len(places) - start > words:
        end = _end(start, len(places), ends, words, overlap)
        passages.append(text[places[start][0] : places[end - 1][1]])
        start = next((first for first in range(end - overlap, end) if ends[first - 1]), end - overlap)
    return [*passages, text[places[start][0] : places[-1][1]]]


class PassageWords:
    """A passage, read once for all queries of its document."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.words = frozenset(_TERM.findall(text.casefold()))

    @cached_property
    def line(self) -> str:
        """The line in which answers are looked for."""
        return token_line(self._text)


def best_passage(query: str, passages: Sequence[PassageWords], answers: Sequence[str] = ()) -> int:
    """The number of the passage that fits a query best, among those with an answer if any has one.

    A query word that n of N passages have counts ln((N + 1) / (n + 1/2)); the first of equal passages wins.
    """
    wanted = sorted({*_TERM.findall(query.casefold())})
    held = [sum(word in passage.words for passage in passages) for word in wanted]
    weight = {word: math.log((len(passages) + 1) / (count + 0.5)) for word, count in zip(wanted, held, strict=True)}
    fit = [sum(weight[word] for word in wanted if word in passage.words) for passage in passages]
    lines = answer_lines(answers)
    holding = [any(line in passage.line for line in lines) for passage in passages]
    return max(range(len(passages)), key=lambda number: (holding[number], fit[number], -number))


def _sentence_ends(text: str, places: Sequence[tuple[int, int]]) -> list[bool]:
    """Whether a sentence or a paragraph ends with each word."""
    gaps = [text[end:start] for (_, end), (start, _) in pairwise(places)]
    ends = [
        bool(_END.search(text, max(first, last - 4), last)) or bool(_PARAGRAPH.search(gap))
        for (first, last), gap in zip(places, gaps, strict=False)
    ]
    return [*ends, True]


def _end(start: int, count: int, ends: Sequence[bool], words: int, overlap: int) -> int:
    """The end of the passage that starts at a word, so that the passages to come are about equally long."""
    left = count - start
    passages = math.ceil((left - overlap) / (words - overlap))
    wanted = math.ceil((left + (passages - 1) * overlap) / passages)
    least = max(wanted // 2, overlap) + 1
    found = [end for end in range(start + least, start + words + 1) if ends[end - 1]]
    return min(found, key=lambda end: (abs(end - start - wanted), end), default=start + wanted)
