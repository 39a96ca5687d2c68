"""Answer positions in passages, matched as in has-answer, and the selection of DS-Top."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Int

from noisyir.data.answers import answer_lines, token_line, token_pattern, tokens

Place = tuple[int, int]
_CHARACTERS = range(25, 1501)  # passage lengths
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
    """Return every (start, end) in characters, end exclusive, with the tokens of an answer, in text order.

    Tokens follow has-answer: Unicode NFD, lower case. Answers that tokenise to nothing never match. Matches that begin
    or end within a character are skipped, because no offset can express them: "=" in the "not equal" sign.
    """
    return places_of_lines(text, token_line(text), answer_lines(answers))


def places_of_lines(text: str, line: str, answers: Sequence[str]) -> list[Place]:
    """Like `places`, for precomputed token lines of text and answers."""
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
    """Return the start and end of each token in the text; None within a character.

    NFD only reorders marks among themselves and tokens never split these, so character boundaries stay known.
    """
    lengths = (len(unicodedata.normalize("NFD", character)) for character in text)
    places = {place: number for number, place in enumerate(accumulate(lengths, initial=0))}
    decomposed = unicodedata.normalize("NFD", text)
    return [(places.get(m.start()), places.get(m.end())) for m in token_pattern().finditer(decomposed)]


def ngrams(text: str) -> set[tuple[str, ...]]:
    """Return the distinct unigrams and bigrams without stop words or punctuation."""
    words = tokens(text)
    found = [*zip(words, strict=True), *pairwise(words)]
    return {gram for gram in found if all(word not in _STOP_WORDS and word[0].isalnum() for word in gram)}


def overlap(question: str, text: str, start: int, end: int) -> int:
    """Count the question's n-grams that occur in the span or `_AROUND` tokens on either side."""
    before, after = tokens(text[:start])[-_AROUND:], tokens(text[end:])[:_AROUND]
    return len(ngrams(question) & ngrams(" ".join([*before, text[start:end], *after])))


def top_spans(
    overlaps: Sequence[int], passages: Sequence[str], lengths: Sequence[int], top: int
) -> npt.NDArray[np.bool_]:
    """Select one question's spans: the best of each passage, in the `top` best passages.

    The best span has the largest nonzero overlap, the first one on ties. Passages shorter than 25 or longer than 1,500
    characters are skipped.

    Args:
        overlaps: By span, in order of passage ids.
        passages: Passage ids, by span.
        lengths: Passage lengths in characters, by span.
    """
    best: dict[str, int] = {}
    for row, (count, passage, length) in enumerate(zip(overlaps, passages, lengths, strict=True)):
        if count > 0 and length in _CHARACTERS and (passage not in best or count > overlaps[best[passage]]):
            best[passage] = row
    kept = np.zeros(len(overlaps), bool)
    kept[sorted(best.values(), key=lambda row: -overlaps[row])[:top]] = True
    return kept


def window_starts(length: int, room: int, stride: int) -> Places:
    """Return the starts of windows of `room` tokens that cover a passage and overlap by `stride` tokens.

    The last window ends with the passage and may overlap more. The stride is capped at half a window.
    """
    if length <= room:
        return np.zeros(1, np.int64)
    step = room - min(stride, room // 2)
    return np.append(np.arange(0, length - room, step), length - room)


def window_around(
    first: Places, stop: Places, length: Places, room: Places
) -> tuple[Places, Bool[np.ndarray, " place"]]:
    """For each span, return the start of the window that best centres it, and whether the window contains it.

    Windows come from `window_starts` with half their tokens shared, so a span of at most half a window always fits.
    """
    step, end = room - room // 2, np.maximum(length - room, 0)
    ideal = np.clip((first + stop - room) / 2, 0, end)
    before = np.floor(ideal / step).astype(np.int64) * step
    after = np.minimum(before + step, end)
    start = np.where(after - ideal < ideal - before, after, before)
    return start, (start <= first) & (stop <= start + room)
