"""Faults of a data set that show without judging a pair, counted, with examples and places.  It changes nothing."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from noisyir.base.settings import Split
from noisyir.data.checked_records import (
    EXAMPLES,
    QUOTED,
    CheckedRecords,
    Pair,
    Text,
    described,
    findings,
    id_of,
    quoted,
    text_of,
)
from noisyir.data.data_faults import FAULTS, FaultExample, FoundFault
from noisyir.data.leaks import leaks
from noisyir.data.passages import LONGEST, is_long
from noisyir.data.records import Judgement

__all__ = ["FAULTS", "CheckedRecords", "FoundFault", "check"]

SHORTEST = {"documents": 10, "queries": 3}  # characters without spaces
_MANY, _TIMES = 20, 10  # relevant documents of a query, or queries of a document: at least, and times the mean
_PILE, _LONG = 5, {"characters": 100, "words": 20}  # texts of the greatest length that look cut, and that length
_OMISSION = re.compile(r"(…|\.\.\.|\[truncated\]|\[…\])\s*$", re.IGNORECASE)
_HTML = re.compile(r"&(amp|lt|gt|quot|apos|nbsp|#\d+|#x[\da-f]+);", re.IGNORECASE)
_LOST = "\N{REPLACEMENT CHARACTER}"


def check(data: CheckedRecords) -> list[FoundFault]:
    """All faults that are found, in the order of FAULTS."""
    checks = (_rows, _ids, _repeats, _conflicts, _texts, _same, leaks, _relevant)
    found = [finding for one in checks for finding in one(data)]
    return sorted(found, key=lambda finding: list(FAULTS).index(finding.name))


def _rows(data: CheckedRecords) -> Iterator[FoundFault]:
    tallies = [(place, reason, tally) for place, of in data.account.files.items()
               for reason, tally in (*of.left_out.items(), *of.parts_left_out.items())]  # fmt: skip
    if tallies:
        examples = [FaultExample(f"{data.place(place)} {tally.first[0]}", reason) for place, reason, tally in tallies]
        fault, read = FAULTS["rows"], sum(of.read for of in data.account.files.values())
        yield FoundFault("rows", sum(t.count for *_, t in tallies), read, *fault, tuple(examples[:EXAMPLES]))


def _ids(data: CheckedRecords) -> Iterator[FoundFault]:
    pairs: list[Pair] = [*data.judgements, *data.negatives]
    lost = [pair for pair in pairs if pair.doc_id not in data.documents]
    yield from findings("ids.documents", lost, len(pairs), different=f"{len({pair.doc_id for pair in lost}):,}")
    lost = [pair for pair in pairs if pair.query_id not in data.queries]
    yield from findings("ids.queries", lost, len(pairs), different=f"{len({pair.query_id for pair in lost}):,}")
    for kind, again in data.again.items():
        yield from findings("ids.twice", again, len(getattr(data, kind)) + len(again), kind=kind)


def _repeats(data: CheckedRecords) -> Iterator[FoundFault]:
    firsts: dict[tuple[str, str], Judgement] = {}
    texts: dict[tuple[int, int, Split], Judgement] = {}
    rows: list[Judgement] = []
    copies: list[Judgement] = []
    for one in data.judgements:
        first = firsts.setdefault((one.query_id, one.doc_id), one)
        if first is not one:
            rows += [one] if first.split == one.split and first.is_right == one.is_right else []
        elif data.has_texts(one) and texts.setdefault((*data.pair_key(one), one.split), one) is not one:
            copies.append(one)
    yield from findings("repeats.rows", rows, len(data.judgements), lambda pair: _pair_texts(data, pair))
    yield from findings("repeats.texts", copies, len(data.judgements), lambda pair: _pair_texts(data, pair))


def _pair_texts(data: CheckedRecords, pair: Pair) -> str:
    """Both texts, if both are known."""
    if not data.has_texts(pair):
        return described(pair)
    query, document = data.queries[pair.query_id], data.documents[pair.doc_id]
    return f"{described(query)} with {described(document)}"


def _conflicts(data: CheckedRecords) -> Iterator[FoundFault]:
    every: list[Pair] = [*data.judgements, *data.negatives]
    pairs = [pair for pair in every if data.has_texts(pair)]
    verdicts: dict[tuple[int, int], set[bool]] = defaultdict(set)
    for pair in pairs:
        verdicts[data.pair_key(pair)].add(isinstance(pair, Judgement) and pair.is_right)
    both = {key: pair for pair in pairs if len(verdicts[key := data.pair_key(pair)]) == 2}
    yield from findings("conflicts", [*both.values()], len(verdicts), lambda pair: _pair_texts(data, pair))


def _texts(data: CheckedRecords) -> Iterator[FoundFault]:
    for kind, least in SHORTEST.items():
        records: list[Text] = [*getattr(data, kind).values()]
        empty = [record for record in records if not text_of(record).strip()]
        yield from findings("texts.empty", empty, len(records), kind=kind)
        short = [record for record in records if 0 < len("".join(text_of(record).split())) < least]
        yield from findings("texts.short", short, len(records), kind=kind, least=least)
        yield from _cut(records, kind)
        lost = [record for record in records if any(map(_is_garbled, text_of(record).split()))]
        yield from findings("texts.lost", lost, len(records), kind=kind)
        marked = [record for record in records if _HTML.search(text_of(record))]
        yield from findings("texts.html", marked, len(records), kind=kind)
    long = [record for record in data.documents.values() if is_long(record.text)]
    yield from findings("texts.long", long, len(data.documents), longest=LONGEST)
    echoes = [pair for pair in data.relevant if len({*data.pair_key(pair)}) == 1]
    yield from findings("texts.echo", echoes, len(data.relevant), lambda pair: _pair_texts(data, pair))


def _is_garbled(word: str) -> bool:
    """Whether a word has lost a character, or is UTF-8 that was read as Windows-1252."""
    try:
        return not word.isascii() and (_LOST in word or word.encode("cp1252").decode() != word)
    except UnicodeError:
        return False


def _cut(records: Sequence[Text], kind: str) -> Iterator[FoundFault]:
    """Texts that share the greatest length, and texts that end with a mark of omission."""
    for unit, count in (("characters", len), ("words", lambda text: len(text.split()))):
        lengths = [count(record.text) for record in records]
        longest = max(lengths, default=0)
        piled = [record for record, length in zip(records, lengths, strict=True) if length == longest]
        before = sum(0.9 * longest <= length < longest for length in lengths)
        if longest >= _LONG[unit] and len(piled) >= max(_PILE, before + 1) and len({*lengths}) > 2:
            how = f"they have {longest:,} {unit}, and none has more"
            yield from findings("texts.cut", piled, len(records), _end_of, kind=kind, how=how)
            break
    marked = [record for record in records if _OMISSION.search(record.text[-20:])]
    yield from findings("texts.cut", marked, len(records), _end_of, kind=kind, how="they end with … or its like")


def _end_of(record: Text) -> str:
    return f"{id_of(record)} ends with {quoted(record.text[-QUOTED:])}"


def _same(data: CheckedRecords) -> Iterator[FoundFault]:
    """Equal texts under several ids; queries only within a split, because others are leaks."""
    split_of = {one.query_id: one.split for one in reversed(data.judgements)}
    for kind in ("documents", "queries"):
        records: dict[str, Text] = getattr(data, kind)
        keys = {name: (key, split_of.get(name) if kind == "queries" else None) for name, key in data.key[kind].items()}
        first: dict[tuple[int, Split | None], str] = {}
        later = [record for name, record in records.items()
                 if first.setdefault(keys[name], name) != name and text_of(record).strip()]  # fmt: skip
        earlier = {id_of(record): first[keys[id_of(record)]] for record in later[:EXAMPLES]}
        yield from findings(f"same.{kind}", later, len(records), partial(_with_earlier, earlier))
    named: dict[int, set[str]] = defaultdict(set)
    for name, key in data.key["documents"].items():
        named[key].update([name] if text_of(data.documents[name]).strip() else [])  # empty texts are no copies
    right = {(one.query_id, one.doc_id) for one in data.relevant}
    copies = {one: named[data.key["documents"][one.doc_id]] for one in data.relevant}
    unjudged = [one for one, names in copies.items() if any((one.query_id, name) not in right for name in names)]

    def copy_of(one: Judgement) -> str:
        other = min(name for name in copies[one] if (one.query_id, name) not in right)
        return f"query {one.query_id}: {one.doc_id} is relevant, and its copy {other} is not"

    yield from findings("same.unjudged", unjudged, len(data.relevant), copy_of)


def _with_earlier(earlier: Mapping[str, str], record: Text) -> str:
    return f"{described(record)}, as {earlier[id_of(record)]}"


def _relevant(data: CheckedRecords) -> Iterator[FoundFault]:
    by_query = Counter(one.query_id for one in data.relevant)
    none = [query for name, query in data.queries.items() if not by_query[name] and not query.answers]
    yield from findings("relevant.none", none, len(data.queries))
    grades = {one.relevance for one in data.judgements if one.relevance is not None}
    least = min(grades) if len(grades) > 2 else 0
    lowest = [one for one in data.judgements if one.relevance == least > 0]
    yield from findings("relevant.grades", lowest, len(data.judgements), least=least, count=len(grades))
    by_document = Counter(one.doc_id for one in data.relevant)
    crowded: tuple[tuple[str, Counter[str], Mapping[str, Text]], ...] = (
        ("relevant.many", by_query, data.queries), ("relevant.hub", by_document, data.documents),
    )  # fmt: skip
    for name, counts, records in crowded:
        counts = +counts
        mean = counts.total() / max(1, len(counts))
        bound = max(_MANY, round(_TIMES * mean))
        above = [records[one] for one, count in counts.most_common() if count > bound]
        yield from findings(name, above, len(counts), partial(_with_count, counts), bound=bound, mean=mean)


def _with_count(counts: Counter[str], record: Text) -> str:
    return f"{counts[id_of(record)]:,} times: {described(record)}"
