"""Leaks between splits: held-out queries and documents that training has, too, or nearly."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from noisyir.base.pages.cells import percent
from noisyir.base.settings import Split
from noisyir.data.checked_records import CheckedRecords, R, Text, described, findings, id_of, text_of
from noisyir.data.data_faults import FoundFault
from noisyir.data.held_out import near_duplicates, words_of
from noisyir.data.records import Document, Judgement, place_of
from noisyir.data.settings import HeldOutParams

NEAR = HeldOutParams().near  # share of common words from which two texts are near-duplicates
_HELD: tuple[Split, ...] = ("dev", "test")
_Matches: TypeAlias = list[tuple[Text, Text]]


def leaks(data: CheckedRecords) -> Iterator[FoundFault]:
    """Held-out queries and documents that training has, too."""
    splits: dict[str, dict[Split, Judgement]] = defaultdict(dict)
    for one in data.judgements:
        splits[one.query_id].setdefault(one.split, one)
    last = [[*by_split.values()][-1] for by_split in splits.values() if len(by_split) > 1]
    yield from findings("leaks.splits", last, len(splits), lambda one: f"query {one.query_id} is in {one.split}, too")
    trained = [query for name, query in data.queries.items() if "train" in splits[name]]
    if not trained:
        return
    pairs: dict[str, Document] = {one.doc_id: data.documents[one.doc_id] for one in data.relevant_of("train")}
    for split in _HELD:
        held = [query for name, query in data.queries.items() if split in splits[name] and "train" not in splits[name]]
        same, near = _matches(held, trained, data.key["queries"])
        yield from _leak("leaks.queries", split, same, len(held))
        yield from _leak("leaks.near", split, near, len(held))
        yield from _shared_documents(data, split, [*pairs.values()], len(held))


def _shared_documents(
    data: CheckedRecords, split: Split, trained: Sequence[Document], held: int
) -> Iterator[FoundFault]:
    """Queries of a split with a training document or a near-duplicate of one, each query once."""
    judged = data.relevant_of(split)
    documents = {one.doc_id: data.documents[one.doc_id] for one in judged}
    same, near = _matches([*documents.values()], trained, data.key["documents"])
    counted: set[str] = set()
    for name, matches in (("leaks.documents", same), ("leaks.near_documents", near)):
        other = {id_of(document): theirs for document, theirs in matches}
        of_query = {one.query_id: one for one in judged if one.doc_id in other and one.query_id not in counted}
        counted |= of_query.keys()
        yield from _leak(name, split, [(one, other[one.doc_id]) for one in of_query.values()], held)


def _leak(name: str, split: Split, matches: Sequence[tuple[R, Text]], of: int) -> Iterator[FoundFault]:
    other = dict(matches)

    def describe(record: R) -> str:
        return f"{described(record)}, in training {described(other[record])} ({place_of(other[record])})"

    yield from findings(name, [*other], of, describe, split=split, near=percent(NEAR))


def _matches(held: Sequence[Text], trained: Sequence[Text], keys: dict[str, int]) -> tuple[_Matches, _Matches]:
    """Held-out texts equal to a training text, then near-duplicates, each with the first such training text."""
    first: dict[int, Text] = {}
    for record in trained:
        first.setdefault(keys[id_of(record)], record)
    same = [(record, first[key]) for record in held if (key := keys[id_of(record)]) in first]
    rest = [record for record in held if keys[id_of(record)] not in first and text_of(record).strip()]
    by_words: dict[frozenset[str], Text] = {}
    for record in first.values():
        by_words.setdefault(words_of(text_of(record)), record)
    by_rest: dict[frozenset[str], list[Text]] = defaultdict(list)
    for record in rest:
        by_rest[words_of(text_of(record))].append(record)
    new = [words for words in by_rest if words not in by_words]
    texts = [text_of(record) for record in by_words.values()] + [text_of(by_rest[words][0]) for words in new]
    theirs, known = [*by_words.values()], len(by_words)
    links = {other: one for one, other in near_duplicates(texts, NEAR, known) if one < known <= other} if new else {}
    near = {words: by_words[words] for words in by_rest if words in by_words}
    near |= {new[row - known]: theirs[one] for row, one in links.items()}
    return same, [(record, near[words]) for words, records in by_rest.items() if words in near for record in records]
