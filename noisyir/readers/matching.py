"""Where a passage holds an answer: DPR's rule of has-answer, with the places in the text."""

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import accumulate

from noisyir.data.answers import answer_lines, token_line, token_pattern

Place = tuple[int, int]


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
