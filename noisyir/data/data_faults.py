"""Kinds of faults that a data set can have, with the words for them and advice."""

from dataclasses import dataclass
from typing import NamedTuple

from noisyir.data.settings import READ_WHOLE

_JUDGED_ON_TRAIN = "Take these training pairs out: a score on such queries measures memory."


class Fault(NamedTuple):
    """The words for things that have a fault, and what to do about it."""

    what: str
    advice: str


FAULTS = {
    "rows": Fault("rows that cannot be read whole", "Mend them: an import leaves them out."),
    "ids.documents": Fault(
        "judgements of a document that is not there ({different} different ids)",
        "Add these documents, or take the judgements out: no system can find them.",
    ),
    "ids.queries": Fault(
        "judgements of a query that is not there ({different} different ids)",
        "Add these queries, or take the judgements out.",
    ),
    "ids.twice": Fault("ids of {kind} that occur again", "Rename one of the two: which text is meant is not known."),
    "repeats.rows": Fault("pairs that are there before", "Leave each in once, or it counts twice."),
    "repeats.texts": Fault(
        "pairs with the texts of an earlier pair under other ids", "Leave each in once, or it counts twice."
    ),
    "conflicts": Fault(
        "pairs called both right and wrong", "Judge them once more, and keep one of the two judgements."
    ),
    "texts.empty": Fault("{kind} without text", "Take them out, with their judgements, or set data.on_empty=exclude."),
    "texts.short": Fault(
        "{kind} with fewer than {least} characters, spaces aside", "Look whether they say anything; else take them out."
    ),
    "texts.cut": Fault(
        "{kind} that look cut off: {how}", "Get the whole texts: the answer may be in the missing part."
    ),
    "texts.long": Fault(
        "documents of more than {longest:,} words",
        f"Models read the first 256 tokens: cut them into passages with chunk.words={READ_WHOLE}, as init may do.",
    ),
    "texts.lost": Fault(
        "{kind} with the mark of a lost character (U+FFFD), or with signs such as Ã¼ in the place of ü",
        "Read the source once more, in its true encoding.",
    ),
    "texts.html": Fault(
        "{kind} with signs of HTML such as &amp;", "Decode them: a model reads their letters as a word."
    ),
    "texts.echo": Fault("pairs of a query with itself as the document", "Take them out: they teach and test nothing."),
    "same.documents": Fault(
        "documents with the words of an earlier one under another id", "Leave one of each in, and give it all pairs."
    ),
    "same.queries": Fault(
        "queries with the words of an earlier one under another id",
        "Make one query of each, with all its relevant documents: else one question counts several times.",
    ),
    "same.unjudged": Fault(
        "relevant pairs with an equal document that is not called relevant",
        "Call the copies relevant, too: a system that finds one of them is scored as wrong.",
    ),
    "leaks.splits": Fault("queries that are in several splits", "Keep each query in one split."),
    "leaks.queries": Fault("{split} queries with the words of a training query", _JUDGED_ON_TRAIN),
    "leaks.near": Fault("{split} queries that share {near} of their words with a training query", _JUDGED_ON_TRAIN),
    "leaks.documents": Fault(
        "{split} queries with a relevant document that a training pair has",
        "Where the model should meet new documents, take these training pairs out; else it is no fault.",
    ),
    "leaks.near_documents": Fault(
        "{split} queries with a relevant document that shares {near} of its words with a training pair's",
        "Where the model should meet new documents, take these training pairs out; else it is no fault.",
    ),
    "relevant.none": Fault("queries without a relevant document", "Judge some documents for them, or take them out."),
    "relevant.grades": Fault(
        "judgements of grade {least}, the least of {count} grades, which counts as relevant",
        "If it says that a document is not relevant, as where people rate from 1 on, lower all grades until it is 0.",
    ),
    "relevant.many": Fault(
        "queries with more than {bound:,} relevant documents, where the mean is {mean:.1f}",
        "Look whether they ask for one thing: a query that fits everything tells nothing.",
    ),
    "relevant.hub": Fault(
        "documents that are relevant to more than {bound:,} queries, where the mean is {mean:.1f}",
        "Look whether they answer all these: a default answer, or an error in making the pairs?",
    ),
}


class FaultExample(NamedTuple):
    """Something that has a fault, in words, and its place in the data."""

    where: str
    said: str


@dataclass(frozen=True)
class FoundFault:
    """A fault that `count` of `of` things have."""

    name: str
    count: int
    of: int
    what: str
    advice: str
    examples: tuple[FaultExample, ...]
