"""Dev and test queries drawn from data without any, so that training has nothing of them."""

import re
from collections import Counter
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import DataError
from noisyir.base.pages.cells import percent
from noisyir.base.settings import HELD_OUT, PROMOTION, Split
from noisyir.data.settings import HeldOutParams
from noisyir.data.words import signs, spaced
from noisyir.engine.tables import with_values

Tables = dict[str, pa.Table]
Pair = tuple[str, str]  # query id, document id
Groups = list[list[int]]  # rows of queries for one split
_WORD = re.compile(r"\w+")
_ROWS, _PAIRS = 2048, 65_536  # texts looked up at once, and pairs measured at once
_ROUNDING = 1e-6  # tolerance in words, so that rounding rules no pair out
_ENOUGH = 0.5  # share of the wanted queries; if groups by documents fill less, splits may share documents


def hold_out(
    tables: Tables,
    documents: Mapping[str, Hashable],
    params: HeldOutParams,
    promotion: float = 0.0,
    wrong: Container[Pair] = frozenset(),
) -> tuple[Tables, dict[str, Any]]:
    """Move some training queries to dev and test, as judged relevant; return the tables and notes for the build.

    Wrong pairs change nothing in the draw, so a file has the same held-out queries before and after cleaning.

    Args:
        tables: Queries, pairs and qrels as ingest writes them.
        documents: A key of each document's text, by id.
        promotion: Share of the dev queries for the gate of promotion alone.
        wrong: Pairs of query id and document id that become judged as not relevant.
    """
    queries, pairs = tables["queries"], tables["pairs"].filter(pc.equal(tables["pairs"]["split"], "train"))
    training = queries.filter(pc.is_in(queries["query_id"], value_set=pairs["query_id"].combine_chunks()))
    names = training["query_id"].to_pylist()
    wanted = {split: min(round(share * len(names)), params.most) for split, share in params.shares.items()}
    if promotion and "dev" in wanted:
        gates = round(promotion * wanted["dev"])
        wanted |= {"dev": wanted["dev"] - gates, PROMOTION: gates}
        if promotion == 1.0:
            del wanted["dev"]
    if len(names) <= sum(wanted.values()) or not all(wanted.values()):
        gate, count = f", with {promotion:g} of dev for the gate" if promotion else "", len(names)
        raise DataError("data.too_few_to_hold_out", n_queries=count, dev=params.dev, test=params.test, promotion=gate)
    alike = list(near_duplicates(training["text"].to_pylist(), params.near))
    sharing = list(_sharing(names, pairs, documents))
    by_documents = params.together != "queries"
    drawn = _drawn(names, _groups(len(names), alike + (sharing if by_documents else [])), wanted, params.seed)
    if params.together == "auto" and len(drawn) < _ENOUGH * sum(wanted.values()):
        by_documents, drawn = False, _drawn(names, _groups(len(names), alike), wanted, params.seed)
    counts = Counter(drawn.values())
    if missing := [split for split in wanted if not counts[split]]:
        raise DataError("data.no_small_group", missing=missing[0])
    moved, n_wrong = _moved(tables, drawn, wrong)
    return {**tables, **moved}, _facts(counts, params, n_wrong, by_documents=by_documents)


def words_of(text: str) -> frozenset[str]:
    """The distinct words of a text, or the text itself if it has none.

    A sign of a script without spaces between words is a word, and so are two in a row: few signs make many words.
    """
    folded = text.casefold()
    both = map("".join, pairwise(signs(folded)))
    return frozenset([*_WORD.findall(spaced(folded)), *both]) or frozenset({text})


def near_duplicates(texts: Sequence[str], near: float, known: int | None = None) -> Iterator[tuple[int, int]]:
    """Pairs of rows that link all texts with a Jaccard similarity of words of at least `near`.

    Texts with equal words are linked to the first of them alone.  With `known`, only rows from there on are compared,
    and only with earlier ones.
    Source: prefix filter, Chaudhuri, Ganti and Kaushik, ICDE 2006: sets so similar share some of their rarest words.
    """
    first: dict[frozenset[str], int] = {}
    for row, text in enumerate(texts):
        words = words_of(text)
        if (same := first.setdefault(words, row)) != row:
            yield same, row
    rows = list(first.values())
    before = None if known is None else sum(row < known for row in rows)
    for one, other in _near_sets(list(first), near, before):
        yield rows[one], rows[other]


def _near_sets(sets: Sequence[frozenset[str]], near: float, known: int | None) -> Iterator[tuple[int, int]]:
    """Number pairs of similar sets; an upper bound on common words rules most out before all words are compared."""
    from scipy.sparse import csr_array

    often = Counter(word for words in sets for word in words)
    place = {word: number for number, word in enumerate(sorted(often, key=lambda word: (often[word], word)))}
    sizes = np.array([len(words) for words in sets], np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    words = np.fromiter((at for one in sets for at in sorted(place[word] for word in one)), np.int64, starts[-1])
    shape = len(sets), len(place)
    whole = csr_array((np.ones(len(words), np.int32), words, starts), shape=shape)
    rank = np.arange(len(words)) - np.repeat(starts[:-1], sizes)
    others = np.ceil(near * sizes).astype(np.int64) - 1  # words of each set that are not looked up
    is_rare = rank < np.repeat(sizes - others, sizes)
    rare = csr_array((is_rare.astype(np.int32), words, starts), shape=shape, copy=True)  # zeros go in place
    rare.eliminate_zeros()
    holding = rare[:known].T.tocsr()
    for begin in range(known or 0, len(sets), _ROWS):
        found = (rare[begin : begin + _ROWS] @ holding).tocoo()
        one, other = found.row + begin, found.col
        most = found.data + np.maximum(others[one], others[other])
        fits = (other < one) & ((1 + near) * most >= near * (sizes[one] + sizes[other]) - _ROUNDING)
        for some in np.array_split(np.flatnonzero(fits), 1 + np.count_nonzero(fits) // _PAIRS):
            both = whole[one[some]].multiply(whole[other[some]]).sum(axis=1)
            alike = some[both >= near * (sizes[one[some]] + sizes[other[some]] - both)]
            yield from zip(other[alike].tolist(), one[alike].tolist(), strict=True)


def _sharing(names: Sequence[str], pairs: pa.Table, documents: Mapping[str, Hashable]) -> Iterator[tuple[int, int]]:
    """Pairs of rows that link the queries of each document text."""
    row_of = {name: row for row, name in enumerate(names)}
    first: dict[Hashable, int] = {}
    for query_id, doc_id in zip(pairs["query_id"].to_pylist(), pairs["doc_id"].to_pylist(), strict=True):
        row = row_of[query_id]
        if (same := first.setdefault(documents[doc_id], row)) != row:
            yield same, row


def _groups(count: int, links: Iterable[tuple[int, int]]) -> Groups:
    """The rows 0 to `count` - 1 in groups that links connect."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    one, other = zip(*links, strict=True) if (links := list(links)) else ((), ())
    graph = coo_array(([1] * len(one), (one, other)), shape=(count, count))
    groups: Groups = [[] for _ in range(count)]
    for row, group in enumerate(connected_components(graph, directed=False)[1].tolist()):
        groups[group].append(row)
    return [group for group in groups if group]


def _drawn(names: Sequence[str], groups: Groups, wanted: Mapping[Split, int], seed: int) -> dict[str, Split]:
    """The held-out queries by id: groups in the order of their hashes, each into the first split with room."""
    room, found = dict(wanted), dict[str, Split]()

    def place(group: Sequence[int]) -> bytes:
        return sha256(f"{seed} {min(names[row] for row in group)}".encode()).digest()

    for group in sorted(groups, key=place):
        if (split := next((split for split, left in room.items() if len(group) <= left), None)) is not None:
            room[split] -= len(group)
            found |= {names[row]: split for row in group}
    return found


def _moved(tables: Tables, drawn: Mapping[str, Split], wrong: Container[Pair]) -> tuple[dict[str, pa.Table], int]:
    """Queries, pairs and qrels in their new splits, and the number of held-out pairs that are wrong.

    Right pairs of dev stay pairs, too; all others become judgements alone.
    """
    queries, pairs, qrels = tables["queries"], _with_splits(tables["pairs"], drawn), tables["qrels"]
    ids = list(zip(pairs["query_id"].to_pylist(), pairs["doc_id"].to_pylist(), strict=True))
    judged = {*zip(qrels["query_id"].to_pylist(), qrels["doc_id"].to_pylist(), strict=True)}
    held = {pair: int(pair not in wrong) for pair in ids if pair[0] in drawn}
    new = [{"query_id": query_id, "doc_id": doc_id, "relevance": relevance}
           for (query_id, doc_id), relevance in held.items() if (query_id, doc_id) not in judged]  # fmt: skip
    splits = pairs["split"].to_pylist()
    stays = [split in ("train", "dev") and held.get(pair, 1) == 1 for pair, split in zip(ids, splits, strict=True)]
    moved = {
        "queries": _with_splits(queries, drawn),
        "pairs": pairs.filter(pa.array(stays, pa.bool_())),
        "qrels": pa.concat_tables([qrels, pa.Table.from_pylist(new, qrels.schema)]),
    }
    return moved, len(held) - sum(held.values())


def _with_splits(table: pa.Table, drawn: Mapping[str, Split]) -> pa.Table:
    rows = zip(table["query_id"].to_pylist(), table["split"].to_pylist(), strict=True)
    splits = pa.array([drawn.get(query_id, split) for query_id, split in rows], pa.string())
    return with_values(table, split=splits)


def _facts(counts: Mapping[Split, int], params: HeldOutParams, n_wrong: int, *, by_documents: bool) -> dict[str, Any]:
    held = " and ".join(f"{counts[split]:,} {split}" for split in HELD_OUT if counts.get(split))
    shared = f"share {'a document or ' * by_documents}{percent(params.near)}"
    documents = "" if by_documents else ", which documents need not be"
    note = (
        f"{held} queries held out, drawn by seed {params.seed}; queries that {shared} of their words "
        f"are in one split{documents}; their pairs are unchecked"
        + (f", and {n_wrong:,} of weight 0 count as wrong" if n_wrong else "")
    )
    return {"held_out": note, "split": {**counts, "by_documents": by_documents}}
