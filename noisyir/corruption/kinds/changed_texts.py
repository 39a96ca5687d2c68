"""Corruptions that change a text, a class each; no pair gets another document."""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from typing import ClassVar, Literal, NamedTuple

import numpy as np
import regex
from jaxtyping import Float, Int
from pydantic import Field, PositiveFloat

from noisyir.base.settings import Fraction
from noisyir.corruption.kinds import Corruption, PairsToCorrupt, Spoilt, in_turn
from noisyir.corruption.kinds.other_documents import draw_mismatches
from noisyir.data.id_texts import text_key
from noisyir.retrieval.analysis import STOP_WORDS

Rewriter = Callable[[int], Iterator[str]]
Part = Literal["first", "last", "ends"]
_PARTS: tuple[Part, ...] = ("first", "last", "ends")
_ATTEMPTS = 5
# A number: digits, perhaps with points and commas between them.  A name: words that begin with a capital, with single
# spaces, hyphens or apostrophes between them, and perhaps initials (J. Smith, U.S. Army).
_WORD = r"(?:\p{Lu}\. ?)*\p{Lu}\w*"
_ENTITY = regex.compile(rf"(?P<number>\d+(?:[.,]\d+)*)|(?P<name>\b{_WORD}(?:[ '-]{_WORD})*)")
_BEGINS_SENTENCE = regex.compile(r"(?:^|[.!?:\n]\s*[\"'(]*)\s*$")
_CAPITAL_WITHIN = regex.compile(r".+\p{Lu}")
_BACK = 20  # characters before a name that tell whether it begins a sentence


class Rewriting(Corruption):
    """Pairs with a changed version of the right document, which stays in the collection."""

    changes_corpus: ClassVar[bool] = True
    need: ClassVar[str]

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Return a function that yields versions of a document; the first wrong and new one is taken."""
        raise NotImplementedError

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Give each pair a version of its document that is no document yet and holds no answer to the query.

        Pairs of one document may share a version, pairs of one query never do; pairs without a version are skipped.
        """
        versions = self.rewriter(given.texts, given.rng("documents"))
        made: dict[int, int] = {}  # by the version's key, the number of the document that it is made of
        given_to: set[tuple[int, int]] = set()  # (query, version)

        def version_of(row: int) -> str | None:
            query, document = int(given.query[row]), int(given.document[row])
            for text in versions(document):
                key = text_key(text)
                is_new = made.get(key, document) == document and (query, key) not in given_to
                if is_new and text.strip() and not given.is_there(text) and not given.holds_answer(row, text):
                    made[key] = document
                    given_to.add((query, key))
                    return text
            return None

        found = in_turn(self, len(given.query), given.rng("pairs"), version_of, self.need)
        return Spoilt(np.array(list(found), np.int64), texts=list(found.values()))


class HalfAnswer(Rewriting, kind="half_answer"):
    """Training pairs with a part of their own document."""

    need: ClassVar[str] = "a document of two words at least, and a part of it that holds no answer"
    part: Literal["first", "last", "ends", "random"] = Field(
        "random", description="the part that is kept; ends: the middle is left out; random: one of the three"
    )
    keep: Fraction = Field(0.5, description="share of the document's words in that part")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Yield the wanted part; for `random` the three in random order.

        Source: ours, after StaQC (Yao et al., WWW 2018), in which wrong documents are incomplete steps of an answer.
        """

        def parts(document: int) -> Iterator[str]:
            order = [_PARTS[n] for n in rng.permutation(len(_PARTS))] if self.part == "random" else [self.part]
            return (part_of(texts[document], part, self.keep) for part in order)

        return parts


def part_of(text: str, part: Part, keep: float) -> str:
    """Return the first or last round(keep * n) of a text's n words, or as many at both ends, spaced unchanged.

    At least one word is kept and one left out; "" if there are fewer than two.
    """
    words = [found.span() for found in re.finditer(r"\S+", text)]
    if len(words) < 2:
        return ""
    kept = min(max(1, round(keep * len(words))), len(words) - 1)
    if part == "first":
        return text[: words[kept - 1][1]]
    if part == "last":
        return text[words[-kept][0] :]
    before, after = (kept + 1) // 2, kept // 2
    ends = text[: words[before - 1][1]], text[words[-after][0] :] if after else ""
    return " ".join(filter(None, ends))


class Vague(Corruption, kind="vague"):
    """Pairs of vague queries, each with any training pair's document.

    Such a query scores low, or high, with everything, so that a global threshold misjudges it.
    """

    needs_queries: ClassVar[bool] = True
    by: Literal["length", "rarity"] = Field(
        "length", description="a query is vague for having few words, or words that many queries have"
    )
    power: PositiveFloat = Field(2.0, description="a pair's weight is that length or rarity to minus this power")

    def spoil(self, given: PairsToCorrupt) -> Spoilt:
        """Draw exactly round(rate * pairs) pairs by weight, and uniform wrong documents."""
        weights = vagueness(given.questions(), self.by) ** self.power
        rows = draw_by_weight(weights, round(self.rate * len(weights)), given.rng("pairs"))
        return Spoilt(rows, draw_mismatches(given.of(rows), given.rng("documents")))


def vagueness(questions: list[str], by: Literal["length", "rarity"]) -> Float[np.ndarray, " query"]:
    """One over each query's number of words, or over the mean of ln(1 + N / n) over its words; in (0, inf).

    n of the N queries have the word (inverse document frequency, Sparck Jones, 1972, of queries).  A query without
    words counts as one word that all have.
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
    """Draw `wanted` ascending rows without replacement, each by its weight among those left.

    Source: Efraimidis and Spirakis, Information Processing Letters 2006: the greatest u^(1 / weight), u uniform.
    """
    keys = np.log(1.0 - rng.random(len(weights))) / weights
    return np.sort(np.argsort(-keys, kind="stable")[:wanted])


class WordsLeftOut(Rewriting, kind="words_left_out"):
    """Training pairs with their own document without some of its words."""

    need: ClassVar[str] = "a document with content words and others, that holds no answer without some of them"
    share: Fraction = Field(0.5, description="share of the document's content words that is left out")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Yield versions without words that are drawn each time.

        Source: word dropout as in the noise model of Lample et al., ICLR 2018, section 2.3; here of content words.
        """

        def versions(document: int) -> Iterator[str]:
            return (without_words(texts[document], self.share, rng) for _ in range(_ATTEMPTS))

        return versions


def without_words(text: str, share: float, rng: np.random.Generator) -> str:
    """Drop round(share * n), but at least 1, of the n content words of a text, drawn uniformly.

    A content word is a run of letters, digits and _ that is no stop word of Lucene's; it goes with the space before
    it.  "" if there is none.
    """
    words = [found.span(1) for found in re.finditer(r"(\s*\w+)", text) if found[0].strip().lower() not in STOP_WORDS]
    if not words:
        return ""
    gone = rng.choice(len(words), size=max(1, round(share * len(words))), replace=False)
    pieces, upto = [], 0
    for start, end in (words[n] for n in np.sort(gone).tolist()):
        pieces.append(text[upto:start])
        upto = end
    return "".join([*pieces, text[upto:]]).strip()


class Entity(NamedTuple):
    """A name or a number in a text, its kind and its span."""

    text: str
    kind: str
    start: int
    end: int


class SwappedEntities(Rewriting, kind="swapped_entities"):
    """Training pairs with their own document, in which names and numbers are other documents'."""

    need: ClassVar[str] = "a document with a name or number, and a version with others that holds no answer"
    share: Fraction = Field(1.0, description="share of the document's distinct names and numbers that is swapped")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Yield versions with entities that are drawn each time.

        Source: the corpus substitution of Longpre et al. (entity-based knowledge conflicts), EMNLP 2021, by types
        that a regular expression finds, with all entities changed.
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
    """Return the names and numbers of a text, in order, without overlaps.

    A name is a run of capitalised words without leading stop words; a single word that begins a sentence needs a
    second capital (`McKinley`, `ValueError`).  Its kind is its number of words, up to 3; a number's is `year` (1000
    to 2099), or its number of characters, up to 4.
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
    """Return the part of a run of capitalised words that is a name, or ""."""
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
    """Replace round(share * n), but at least 1, of the n distinct entities of a text, each by one throughout.

    `other(entity, own)` draws an entity of the kind that is not the text's own; None leaves it.
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
