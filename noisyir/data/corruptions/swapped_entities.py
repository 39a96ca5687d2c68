"""Wrong pairs whose document speaks of other people, places and numbers: those of the right one, swapped."""

from collections.abc import Callable, Iterator
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import regex
from pydantic import Field

from noisyir.data.rewriting import Rewriter, Rewriting
from noisyir.retrieval.analysis import STOP_WORDS
from noisyir.settings import Fraction

_ATTEMPTS = 5
# A number: digits, perhaps with points and commas between them.  A name: words that begin with a capital, with single
# spaces, hyphens or apostrophes between them, and perhaps initials (J. Smith, U.S. Army).
_WORD = r"(?:\p{Lu}\. ?)*\p{Lu}\w*"
_ENTITY = regex.compile(rf"(?P<number>\d+(?:[.,]\d+)*)|(?P<name>\b{_WORD}(?:[ '-]{_WORD})*)")
_BEGINS_SENTENCE = regex.compile(r"(?:^|[.!?:\n]\s*[\"'(]*)\s*$")
_CAPITAL_WITHIN = regex.compile(r".+\p{Lu}")
_BACK = 20  # characters before a name that tell whether it begins a sentence


class Entity(NamedTuple):
    """A name or a number in a text: what it reads, its kind, and from where to where it stands."""

    text: str
    kind: str
    start: int
    end: int


class SwappedEntities(Rewriting):
    """Any training pairs, each with its own document in which names and numbers are those of other documents."""

    kind: Literal["swapped_entities"] = "swapped_entities"
    need: ClassVar[str] = "a document with a name or number, and a version with others that holds no answer"
    share: Fraction = Field(1.0, description="share of the document's distinct names and numbers that is swapped")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Versions with entities that are drawn anew each time.

        Source: the corpus substitution of Longpre et al. (entity-based knowledge conflicts), EMNLP 2021, by type; the
        types here are those that a regular expression tells, and all entities change.
        """
        entities_of = cache(lambda document: entities(texts[document]))
        stock: dict[str, list[str]] = {}
        for document in range(len(texts)):
            for entity in entities_of(document):
                stock.setdefault(entity.kind, []).append(entity.text)

        def other(entity: Entity, own: set[str]) -> str | None:
            drawn = (stock[entity.kind][rng.integers(len(stock[entity.kind]))] for _ in range(_ATTEMPTS))
            return next((text for text in drawn if text not in own), None)

        def versions(document: int) -> Iterator[str]:
            found = entities_of(document)
            return (swapped(texts[document], found, self.share, other, rng) for _ in range(_ATTEMPTS if found else 0))

        return versions


def entities(text: str) -> list[Entity]:
    """The names and numbers of a text, in order, none over another.

    A name is a run of words with capitals, without stop words at its beginning; one word that begins a sentence is
    none, for it has its capital anyway, unless it has a second one (`McKinley`, `ValueError`).  Its kind is the
    number of its words, up to 3; a number's is `year` (1000 to 2099), or the number of its characters, up to 4.
    """
    found = []
    for match in _ENTITY.finditer(text):
        start, end = match.span()
        if match["number"]:
            is_year = len(match[0]) == 4 and match[0][:2] in {f"{n}" for n in range(10, 21)}
            found.append(Entity(match[0], "year" if is_year else f"number {min(end - start, 4)}", start, end))
            continue
        begins = _BEGINS_SENTENCE.search(text[max(0, start - _BACK) : start]) is not None
        if not (words := _name(match[0], begins)):
            continue
        kind = f"name {min(len(words.split()), 3)}"
        found.append(Entity(words, kind, end - len(words), end))
    return found


def _name(run: str, begins_sentence: bool) -> str:
    """What of a run of words with capitals is a name; "" where nothing is."""
    words = run.split(" ")
    name = words[next((n for n, word in enumerate(words) if word.lower() not in STOP_WORDS), len(words)) :]
    lone = begins_sentence and words == name and len(name) == 1 and not _CAPITAL_WITHIN.match(name[0])
    return "" if lone else " ".join(name)


def swapped(
    text: str,
    found: list[Entity],
    share: float,
    other: Callable[[Entity, set[str]], str | None],
    rng: np.random.Generator,
) -> str:
    """The text with round(share * n), but at least 1, of its n distinct entities replaced, each by one throughout.

    other(entity, own): an entity of the kind that is none of the text's own; None, which leaves it, where none came.
    """
    distinct = {entity.text: entity for entity in found}
    own = set(distinct)
    chosen = rng.choice(len(distinct), size=max(1, round(share * len(distinct))), replace=False)
    names = list(distinct)
    instead = {names[n]: other(distinct[names[n]], own) for n in np.sort(chosen).tolist()}
    pieces, upto = [], 0
    for entity in found:
        if new := instead.get(entity.text):
            pieces += [text[upto : entity.start], new]
            upto = entity.end
    return "".join([*pieces, text[upto:]])
