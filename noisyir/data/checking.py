"""Faults of a data set that are known without judging a pair, counted, with examples and where they stand.

Nothing is left out or changed here: that is for importing.py and validate.py.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias, TypeVar

from noisyir.base.settings import Split
from noisyir.data.held_out import near_duplicates, words_of
from noisyir.data.id_texts import text_key
from noisyir.data.leniency import Exclusions, lenient
from noisyir.data.records import Document, Judgement, Negative, Query, Source, one_by_one
from noisyir.data.settings import HeldOutParams

NEAR = HeldOutParams().near  # share of words from which on two texts are near-duplicates
SHORTEST = {"documents": 10, "queries": 3}  # characters of a text that is not too short, spaces aside
_MANY, _TIMES = 20, 10  # relevant documents of a query, or queries of a document, and how often the mean that is
_PILE, _LONG = 5, {"characters": 100, "words": 20}  # texts of the greatest length that look cut, and that length
_MARKED = re.compile(r"(…|\.\.\.|\[truncated\]|\[…\])\s*$", re.IGNORECASE)
_LOST = "\N{REPLACEMENT CHARACTER}"
_EXAMPLES, _CUT = 2, 60  # examples of each fault, and characters of a text in them
_HELD: tuple[Split, ...] = ("dev", "test")

Text: TypeAlias = Document | Query
Pair: TypeAlias = Judgement | Negative
R = TypeVar("R", bound=Text | Pair)


class Fault(NamedTuple):
    """A kind of fault: the words for things that have it, and advice."""

    what: str
    advice: str


_OUT_OF_TRAIN = "Take these training pairs out: a score on such queries measures memory."
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
    "texts.empty": Fault("{kind} without text", "Take them out, with their judgements."),
    "texts.short": Fault(
        "{kind} with fewer than {least} characters, spaces aside", "Look whether they say anything; else take them out."
    ),
    "texts.cut": Fault(
        "{kind} that look cut off: {how}", "Get the whole texts: the answer may be in the missing part."
    ),
    "texts.lost": Fault(
        "{kind} with the mark of a lost character (U+FFFD)", "Read the source once more, in its true encoding."
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
    "leaks.queries": Fault("{split} queries with the words of a training query", _OUT_OF_TRAIN),
    "leaks.near": Fault("{split} queries that share {near:.0%} of their words with a training query", _OUT_OF_TRAIN),
    "leaks.documents": Fault(
        "{split} queries with a relevant document that a training pair has",
        "Where the model should meet new documents, take these training pairs out; else it is no fault.",
    ),
    "leaks.near_documents": Fault(
        "{split} queries with a relevant document that shares {near:.0%} of its words with a training pair's",
        "Where the model should meet new documents, take these training pairs out; else it is no fault.",
    ),
    "relevant.none": Fault("queries without a relevant document", "Judge some documents for them, or take them out."),
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
    """A fault that was found: `count` of `of` things have it."""

    name: str
    count: int
    of: int
    what: str
    advice: str
    examples: tuple[FaultExample, ...]


@dataclass
class CheckedRecords:
    """All records of a data set, in memory.

    root: of the data's files, which places are told without.  again: records with an id that was there before.
    """

    account: Exclusions
    root: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    negatives: list[Negative] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict)
    again: dict[str, list[Text]] = field(default_factory=lambda: {"documents": [], "queries": []})

    @classmethod
    def read(cls, source: Source, root: str = "", progress: Callable[[int], None] = lambda _: None) -> "CheckedRecords":
        """Read all.  Faulty rows end nothing: they are in the account."""
        with lenient() as account:
            found = cls(account, root)
            for number, record in enumerate(one_by_one(source.records())):
                found._take(record)
                if not number % 10_000:
                    progress(number)
        return found

    def _take(self, record: Text | Pair) -> None:
        self.account.kept()
        record = record._replace(where=self.place(record.where))
        match record:
            case Document() | Query():
                kind = "documents" if isinstance(record, Document) else "queries"
                if getattr(self, kind).setdefault(_id_of(record), record) is not record:
                    self.again[kind].append(record)
            case Judgement():
                self.judgements.append(record)
            case Negative():
                self.negatives.append(record)

    def place(self, where: str) -> str:
        """A place, told from the root; one text for all that are there."""
        return self._places.setdefault(where, where.removeprefix(self.root))

    @cached_property
    def key(self) -> dict[str, dict[str, int]]:
        """Of each text a number that is equal where the words are, in the same order, whatever case and spaces."""
        return {
            "documents": {name: text_key(_whole(doc).casefold()) for name, doc in self.documents.items()},
            "queries": {name: text_key(asked.text.casefold()) for name, asked in self.queries.items()},
        }

    def pair_key(self, pair: Pair) -> tuple[int, int]:
        """The keys of a pair's two texts."""
        return self.key["queries"][pair.query_id], self.key["documents"][pair.doc_id]

    def is_there(self, pair: Pair) -> bool:
        """Whether its query and its document are."""
        return pair.query_id in self.queries and pair.doc_id in self.documents

    @cached_property
    def relevant(self) -> list[Judgement]:
        """The pairs that are called relevant, and those that nobody judged; each once, and with texts alone."""
        right = {(one.query_id, one.doc_id): one for one in reversed(self.judgements)
                 if _is_right(one) and self.is_there(one)}  # fmt: skip
        return [*reversed(right.values())]

    def relevant_of(self, split: Split) -> list[Judgement]:
        """The relevant pairs of one split."""
        return [one for one in self.relevant if one.split == split]


def check(data: CheckedRecords) -> list[FoundFault]:
    """All faults that are found, in the order of FAULTS."""
    found = [finding for of in _CHECKS for finding in of(data)]
    return sorted(found, key=lambda finding: list(FAULTS).index(finding.name))


def _is_right(pair: Pair) -> bool:
    return isinstance(pair, Judgement) and (pair.relevance is None or pair.relevance > 0)


def _whole(document: Document) -> str:
    return f"{document.title} {document.text}".strip()


def _place(record: Text | Pair) -> str:
    return f"{record.where} {record.number}"


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return f'"{line if len(line) <= _CUT else f"{line[: _CUT - 1]}…"}"'


def _text_of(record: Text) -> str:
    return _whole(record) if isinstance(record, Document) else record.text


def _called(record: Text | Pair) -> str:
    """A record in words."""
    if isinstance(record, Judgement | Negative):
        return f"query {record.query_id}, document {record.doc_id}"
    return f"{_id_of(record)} {_quoted(_text_of(record))}"


def _id_of(record: Text) -> str:
    return record.doc_id if isinstance(record, Document) else record.query_id


def _found(
    name: str, having: Sequence[R], of: int, said: Callable[[R], str] | None = None, **values: object
) -> Iterator[FoundFault]:
    """A finding, where anything has the fault; values: of the words of FAULTS."""
    if having:
        fault = FAULTS[name]
        examples = tuple(
            FaultExample(_place(record), _called(record) if said is None else said(record))
            for record in having[:_EXAMPLES]
        )
        yield FoundFault(name, len(having), of, fault.what.format(**values), fault.advice, examples)


def _rows(data: CheckedRecords) -> Iterator[FoundFault]:
    tallies = [(place, reason, tally) for place, of in data.account.files.items()
               for reason, tally in (*of.left_out.items(), *of.parts_left_out.items())]  # fmt: skip
    if tallies:
        examples = [FaultExample(f"{data.place(place)} {tally.first[0]}", reason) for place, reason, tally in tallies]
        fault, read = FAULTS["rows"], sum(of.read for of in data.account.files.values())
        yield FoundFault("rows", sum(t.count for *_, t in tallies), read, *fault, tuple(examples[:_EXAMPLES]))


def _ids(data: CheckedRecords) -> Iterator[FoundFault]:
    pairs: list[Pair] = [*data.judgements, *data.negatives]
    lost = [pair for pair in pairs if pair.doc_id not in data.documents]
    yield from _found("ids.documents", lost, len(pairs), different=f"{len({pair.doc_id for pair in lost}):,}")
    lost = [pair for pair in pairs if pair.query_id not in data.queries]
    yield from _found("ids.queries", lost, len(pairs), different=f"{len({pair.query_id for pair in lost}):,}")
    for kind, again in data.again.items():
        yield from _found("ids.twice", again, len(getattr(data, kind)) + len(again), kind=kind)


def _repeats(data: CheckedRecords) -> Iterator[FoundFault]:
    met: dict[tuple[str, str], Judgement] = {}
    texts: dict[tuple[int, int, Split], Judgement] = {}
    rows: list[Judgement] = []
    copies: list[Judgement] = []
    for one in data.judgements:
        first = met.setdefault((one.query_id, one.doc_id), one)
        if first is not one:
            rows += [one] if first.split == one.split and _is_right(first) == _is_right(one) else []
        elif data.is_there(one) and texts.setdefault((*data.pair_key(one), one.split), one) is not one:
            copies.append(one)
    yield from _found("repeats.rows", rows, len(data.judgements), lambda pair: _pair_texts(data, pair))
    yield from _found("repeats.texts", copies, len(data.judgements), lambda pair: _pair_texts(data, pair))


def _pair_texts(data: CheckedRecords, pair: Pair) -> str:
    """Both texts, where both are there."""
    if not data.is_there(pair):
        return _called(pair)
    asked, document = data.queries[pair.query_id], data.documents[pair.doc_id]
    return f"{_called(asked)} with {_called(document)}"


def _conflicts(data: CheckedRecords) -> Iterator[FoundFault]:
    every: list[Pair] = [*data.judgements, *data.negatives]
    pairs = [pair for pair in every if data.is_there(pair)]
    said: dict[tuple[int, int], set[bool]] = defaultdict(set)
    for pair in pairs:
        said[data.pair_key(pair)].add(_is_right(pair))
    both = {key: pair for pair in pairs if len(said[key := data.pair_key(pair)]) == 2}
    yield from _found("conflicts", [*both.values()], len(said), lambda pair: _pair_texts(data, pair))


def _texts(data: CheckedRecords) -> Iterator[FoundFault]:
    for kind, least in SHORTEST.items():
        all_of: list[Text] = [*getattr(data, kind).values()]
        empty = [record for record in all_of if not _text_of(record).strip()]
        yield from _found("texts.empty", empty, len(all_of), kind=kind)
        short = [record for record in all_of if 0 < len("".join(_text_of(record).split())) < least]
        yield from _found("texts.short", short, len(all_of), kind=kind, least=least)
        yield from _cut(all_of, kind)
        lost = [record for record in all_of if _LOST in _text_of(record)]
        yield from _found("texts.lost", lost, len(all_of), kind=kind)
    echoes = [pair for pair in data.relevant if len({*data.pair_key(pair)}) == 1]
    yield from _found("texts.echo", echoes, len(data.relevant), lambda pair: _pair_texts(data, pair))


def _cut(all_of: Sequence[Text], kind: str) -> Iterator[FoundFault]:
    """Texts of one and the same greatest length, and texts that end with a mark of an omission."""
    for unit, count in (("characters", len), ("words", lambda text: len(text.split()))):
        lengths = [count(record.text) for record in all_of]
        longest = max(lengths, default=0)
        piled = [record for record, length in zip(all_of, lengths, strict=True) if length == longest]
        before = sum(0.9 * longest <= length < longest for length in lengths)
        if longest >= _LONG[unit] and len(piled) >= max(_PILE, before + 1) and len({*lengths}) > 2:
            how = f"they have {longest:,} {unit}, and none has more"
            yield from _found("texts.cut", piled, len(all_of), _end_of, kind=kind, how=how)
            break
    marked = [record for record in all_of if _MARKED.search(record.text[-20:])]
    yield from _found("texts.cut", marked, len(all_of), _end_of, kind=kind, how="they end with … or its like")


def _end_of(record: Text) -> str:
    return f"{_id_of(record)} ends with {_quoted(record.text[-_CUT:])}"


def _same(data: CheckedRecords) -> Iterator[FoundFault]:
    """Equal texts under several ids; of queries those of one split, for others are leaks."""
    split_of = {one.query_id: one.split for one in reversed(data.judgements)}
    for kind in ("documents", "queries"):
        all_of: dict[str, Text] = getattr(data, kind)
        keys = {name: (key, split_of.get(name) if kind == "queries" else None) for name, key in data.key[kind].items()}
        first: dict[tuple[int, Split | None], str] = {}
        later = [record for name, record in all_of.items()
                 if first.setdefault(keys[name], name) != name and _text_of(record).strip()]  # fmt: skip
        earlier = {_id_of(record): first[keys[_id_of(record)]] for record in later[:_EXAMPLES]}
        yield from _found(f"same.{kind}", later, len(all_of), partial(_beside, earlier))
    named: dict[int, set[str]] = defaultdict(set)
    for name, key in data.key["documents"].items():
        named[key].add(name)
    right = {(one.query_id, one.doc_id) for one in data.relevant}
    copies = {one: named[data.key["documents"][one.doc_id]] for one in data.relevant}
    unjudged = [one for one, names in copies.items() if any((one.query_id, name) not in right for name in names)]

    def copy_of(one: Judgement) -> str:
        other = min(name for name in copies[one] if (one.query_id, name) not in right)
        return f"query {one.query_id}: {one.doc_id} is relevant, and its copy {other} is not"

    yield from _found("same.unjudged", unjudged, len(data.relevant), copy_of)


def _beside(earlier: Mapping[str, str], record: Text) -> str:
    return f"{_called(record)}, as {earlier[_id_of(record)]}"


def _leaks(data: CheckedRecords) -> Iterator[FoundFault]:
    splits: dict[str, dict[Split, Judgement]] = defaultdict(dict)
    for one in data.judgements:
        splits[one.query_id].setdefault(one.split, one)
    several = [[*of.values()][-1] for of in splits.values() if len(of) > 1]
    yield from _found("leaks.splits", several, len(splits), lambda one: f"query {one.query_id} is in {one.split}, too")
    trained = [query for name, query in data.queries.items() if "train" in splits[name]]
    if not trained:
        return
    pairs: dict[str, Document] = {one.doc_id: data.documents[one.doc_id] for one in data.relevant_of("train")}
    for split in _HELD:
        held = [asked for name, asked in data.queries.items() if split in splits[name] and "train" not in splits[name]]
        same, near = _met(held, trained, data.key["queries"])
        yield from _leak("leaks.queries", split, same, len(held))
        yield from _leak("leaks.near", split, near, len(held))
        yield from _shared_documents(data, split, [*pairs.values()], len(held))


def _shared_documents(
    data: CheckedRecords, split: Split, trained: Sequence[Document], held: int
) -> Iterator[FoundFault]:
    """Queries of a split with a document of training, or nearly one: each query once."""
    judged = data.relevant_of(split)
    documents = {one.doc_id: data.documents[one.doc_id] for one in judged}
    same, near = _met([*documents.values()], trained, data.key["documents"])
    counted: set[str] = set()
    for name, met in (("leaks.documents", same), ("leaks.near_documents", near)):
        other = {_id_of(document): theirs for document, theirs in met}
        of_query = {one.query_id: one for one in judged if one.doc_id in other and one.query_id not in counted}
        counted |= of_query.keys()
        yield from _leak(name, split, [(one, other[one.doc_id]) for one in of_query.values()], held)


def _leak(name: str, split: Split, met: Sequence[tuple[R, Text]], of: int) -> Iterator[FoundFault]:
    other = dict(met)

    def said(record: R) -> str:
        return f"{_called(record)}, in training {_called(other[record])} ({_place(other[record])})"

    yield from _found(name, [*other], of, said, split=split, near=NEAR)


_Met: TypeAlias = list[tuple[Text, Text]]


def _met(held: Sequence[Text], trained: Sequence[Text], keys: dict[str, int]) -> tuple[_Met, _Met]:
    """The held-out texts that training has, and those that it nearly has, each with the first such text of training."""
    first: dict[int, Text] = {}
    for record in trained:
        first.setdefault(keys[_id_of(record)], record)
    same = [(record, first[key]) for record in held if (key := keys[_id_of(record)]) in first]
    rest = [record for record in held if keys[_id_of(record)] not in first and _text_of(record).strip()]
    by_words: dict[frozenset[str], Text] = {}
    for record in first.values():
        by_words.setdefault(words_of(_text_of(record)), record)
    asked: dict[frozenset[str], list[Text]] = defaultdict(list)
    for record in rest:
        asked[words_of(_text_of(record))].append(record)
    new = [words for words in asked if words not in by_words]
    texts = [_text_of(record) for record in by_words.values()] + [_text_of(asked[words][0]) for words in new]
    theirs, known = [*by_words.values()], len(by_words)
    links = {other: one for one, other in near_duplicates(texts, NEAR, known) if one < known <= other} if new else {}
    near = {words: by_words[words] for words in asked if words in by_words}
    near |= {new[row - known]: theirs[one] for row, one in links.items()}
    return same, [(record, near[words]) for words, of in asked.items() if words in near for record in of]


def _relevant(data: CheckedRecords) -> Iterator[FoundFault]:
    by_query = Counter(one.query_id for one in data.relevant)
    none = [query for name, query in data.queries.items() if not by_query[name] and not query.answers]
    yield from _found("relevant.none", none, len(data.queries))
    by_document = Counter(one.doc_id for one in data.relevant)
    crowded: tuple[tuple[str, Counter[str], Mapping[str, Text]], ...] = (
        ("relevant.many", by_query, data.queries), ("relevant.hub", by_document, data.documents),
    )  # fmt: skip
    for name, counts, records in crowded:
        counts = +counts
        mean = counts.total() / max(1, len(counts))
        bound = max(_MANY, round(_TIMES * mean))
        above = [records[one] for one, count in counts.most_common() if count > bound]
        yield from _found(name, above, len(counts), partial(_with_count, counts), bound=bound, mean=mean)


def _with_count(counts: Counter[str], record: Text) -> str:
    return f"{counts[_id_of(record)]:,} times: {_called(record)}"


_CHECKS = (_rows, _ids, _repeats, _conflicts, _texts, _same, _leaks, _relevant)
