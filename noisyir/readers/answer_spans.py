"""Answers in passages: places by the rule of has-answer, and those that DS-Top keeps."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Int

from noisyir.data.answers import answer_lines, token_line, token_pattern, tokens

Place = tuple[int, int]
_CHARACTERS = range(25, 1501)  # of a passage
_AROUND = 20  # tokens on either side of a span
_STOP_WORDS = frozenset(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until while of at by for with
    about against between into through during before after above below to from up down in out on off over under again
    further then once here there when where why how all any both each few more most other some such no nor not only own
    same so than too very s t can will just don should now d ll m o re ve y""".split()
)
Places = Int[np.ndarray, " place"]


def places(text: str, answers: Iterable[str]) -> list[Place]:
    """Every (start, end) in characters, end exclusive, whose tokens are those of an answer, in order of the text.

    Tokens are has-answer's: Unicode NFD, in lower case.  An answer that tokenises to nothing is nowhere.  Left out is
    a match that begins or ends within a character, which no offset can say: "=" in the sign of "not equal".
    """
    return places_of_lines(text, token_line(text), answer_lines(answers))


def places_of_lines(text: str, line: str, answers: Sequence[str]) -> list[Place]:
    """As `places`, where the text's token line and the answers' are known."""
    if not (held := [answer for answer in answers if answer in line]):
        return []
    tokens = _token_places(text)
    found = set()
    for answer in held:
        count = answer.count(" ") - 1
        first = line.find(answer)
        while first >= 0:
            number = line.count(" ", 0, first)
            start, end = tokens[number][0], tokens[number + count - 1][1]
            if start is not None and end is not None:
                found.add((start, end))
            first = line.find(answer, first + 1)
    return sorted(found)


def _token_places(text: str) -> list[tuple[int | None, int | None]]:
    """Where each token begins and ends in the text; None within a character.

    NFD reorders marks, but only among marks, and these are never parted: where one character ends and the next begins
    stays known.
    """
    lengths = (len(unicodedata.normalize("NFD", character)) for character in text)
    places = {place: number for number, place in enumerate(accumulate(lengths, initial=0))}
    decomposed = unicodedata.normalize("NFD", text)
    return [(places.get(m.start()), places.get(m.end())) for m in token_pattern().finditer(decomposed)]


def ngrams(text: str) -> set[tuple[str, ...]]:
    """Its distinct words and pairs of neighbours; left out is what holds a stop word or punctuation."""
    words = tokens(text)
    found = [*zip(words, strict=True), *pairwise(words)]
    return {gram for gram in found if all(word not in _STOP_WORDS and word[0].isalnum() for word in gram)}


def overlap(question: str, text: str, start: int, end: int) -> int:
    """How many of the question's n-grams occur in the span and `_AROUND` tokens on either side."""
    before, after = tokens(text[:start])[-_AROUND:], tokens(text[end:])[:_AROUND]
    return len(ngrams(question) & ngrams(" ".join([*before, text[start:end], *after])))


def top_spans(
    overlaps: Sequence[int], passages: Sequence[str], lengths: Sequence[int], top: int
) -> npt.NDArray[np.bool_]:
    """Rows of one question's spans that are kept: the best of each passage, in the `top` best passages.

    Best is the largest overlap, which must not be 0, and the first where it is equal.  Passages shorter than 25
    characters or longer than 1,500 are left out.

    overlaps, passages (ids), lengths (characters of the passage): by span, in the order of the passages' ids.
    """
    best: dict[str, int] = {}
    for row, (count, passage, length) in enumerate(zip(overlaps, passages, lengths, strict=True)):
        if count > 0 and length in _CHARACTERS and (passage not in best or count > overlaps[best[passage]]):
            best[passage] = row
    kept = np.zeros(len(overlaps), bool)
    kept[sorted(best.values(), key=lambda row: -overlaps[row])[:top]] = True
    return kept


def window_starts(length: int, room: int, stride: int) -> Places:
    """Where windows of `room` tokens begin, so that they cover a passage and neighbours share `stride` tokens.

    The last ends with the passage, and shares more.  At most half of a window is shared.
    """
    if length <= room:
        return np.zeros(1, np.int64)
    step = room - min(stride, room // 2)
    return np.append(np.arange(0, length - room, step), length - room)


def window_around(
    first: Places, stop: Places, length: Places, room: Places
) -> tuple[Places, Bool[np.ndarray, " place"]]:
    """For each span, the window of its passage that has it nearest to the middle, and whether it holds all of it.

    Windows are those of `window_starts` that share half their tokens: a span of half a window is always held.
    """
    step, end = room - room // 2, np.maximum(length - room, 0)
    ideal = np.clip((first + stop - room) / 2, 0, end)
    before = np.floor(ideal / step).astype(np.int64) * step
    after = np.minimum(before + step, end)
    start = np.where(after - ideal < ideal - before, after, before)
    return start, (start <= first) & (stop <= start + room)
