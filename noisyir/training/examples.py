"""From tables to `TrainingPairs` and `Held`: texts joined to ids, tokenised once and numbered.

Only texts that pairs, negatives or dev queries name are read.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.engine.tables import aligned
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import Tokens, passage_text
from noisyir.training.batches import NumberedPairs, Ragged, Rows, TrainingPairs
from noisyir.training.validation import Held

NO_PAIRS = pa.table({name: pa.array([], pa.string()) for name in PAIR_KEY})


@dataclass(frozen=True)
class Numbering:
    """Numbers of a set of ids: row i is `ids[i]`."""

    ids: pa.Array
    of: str

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, ids: pa.ChunkedArray | pa.Array) -> Rows:
        """Return the row of every id.

        Raises:
            DataError: If an id is unknown.
        """
        found = pc.index_in(ids, value_set=self.ids)
        if found.null_count:
            missing = ids.filter(found.is_null())[0].as_py()
            raise DataError("training.unknown_ids", rows=found.null_count, of=self.of, example=missing)
        return np.asarray(found, np.int64)


@dataclass(frozen=True)
class TrainingDocuments:
    """The documents that training needs; `same` maps each row to the first with the same title and text."""

    numbering: Numbering
    same: Rows

    def passages(self, ids: pa.ChunkedArray | pa.Array) -> Rows:
        """Return the row that represents each document in training; raises as `Numbering.rows`."""
        rows: Rows = self.same[self.numbering.rows(ids)]
        return rows


@dataclass(frozen=True)
class TokenisedDocuments(TrainingDocuments):
    """Documents tokenised for a bi-encoder, in the corpus's order."""

    tokens: Tokens


def training_queries(pairs: pa.Table, queries: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the training pairs and their queries.

    Raises:
        DataError: If there are no training pairs.
    """
    chosen = pairs.filter(pc.field("split") == "train")
    if not chosen.num_rows:
        raise DataError("training.no_training_pairs")
    return chosen, queries.filter(pc.is_in(queries["query_id"], value_set=pc.unique(chosen["query_id"])))


def dev_relevance(qrels: pa.Table, queries: pa.Table, at_most: int, rng: np.random.Generator) -> pa.Table:
    """Return (query_id, text, doc_id) of the relevant documents of at most `at_most` dev queries."""
    relevant = qrels.filter(pc.field("relevance") > 0)
    dev = queries.filter(pc.field("split") == "dev")
    dev = dev.filter(pc.is_in(dev["query_id"], value_set=pc.unique(relevant["query_id"])))
    if dev.num_rows > at_most:
        dev = dev.take(np.sort(rng.choice(dev.num_rows, at_most, replace=False)))
    texts = aligned(relevant, dev, ["query_id"])["text"]
    kept = relevant.select(["query_id", "doc_id"]).append_column("text", texts)
    return kept.filter(pc.is_valid(texts))


def document_texts(
    corpus: Iterable[pa.RecordBatch], needed: pa.Array | None
) -> Iterator[tuple[pa.StringArray, list[str]]]:
    """Yield ids and passage texts of the documents in `needed` (None: all), batch by batch."""
    for batch in corpus:
        some = batch if needed is None else batch.filter(pc.is_in(batch["doc_id"], value_set=needed))
        yield some["doc_id"], list(map(passage_text, some["title"].to_pylist(), some["text"].to_pylist()))


def number_documents(
    corpus: Iterable[pa.RecordBatch], needed: pa.Array | None, meet: Callable[[list[str]], None] = lambda _: None
) -> TrainingDocuments:
    """Number the documents with ids in `needed` (None: all), streaming the corpus; `meet` is given their texts."""
    ids: list[pa.StringArray] = []
    same: list[int] = []
    first: dict[bytes, int] = {}
    for some, texts in document_texts(corpus, needed):
        meet(texts)
        for text in texts:
            same.append(first.setdefault(sha256(text.encode()).digest(), len(same)))
        ids.append(some)
    numbering = Numbering(pa.chunked_array(ids, pa.string()).combine_chunks(), "documents")
    return TrainingDocuments(numbering, np.array(same, np.int64))


def read_documents(encoder: BiEncoder, corpus: Iterable[pa.RecordBatch], needed: pa.Array | None) -> TokenisedDocuments:
    """Number and tokenise the documents with ids in `needed` (None: all), streaming the corpus."""
    tokens = encoder.tokenize([], "passage")

    def tokenise(texts: list[str]) -> None:
        nonlocal tokens
        tokens += encoder.tokenize(texts, "passage")

    found = number_documents(corpus, needed, tokenise)
    return TokenisedDocuments(found.numbering, found.same, tokens)


def training_pairs(
    encoder: BiEncoder,
    pairs: pa.Table,
    queries: pa.Table,
    documents: TokenisedDocuments,
    negatives: pa.Table,
    own: pa.Table = NO_PAIRS,
) -> TrainingPairs:
    """Number the pairs, and tokenise their queries."""
    numbered = numbered_pairs(pairs, queries, documents, negatives, own)
    texts = queries["text"].to_pylist()
    return TrainingPairs(**vars(numbered), queries=encoder.tokenize(texts, "query"), passages=documents.tokens)


def numbered_pairs(
    pairs: pa.Table, queries: pa.Table, documents: TrainingDocuments, negatives: pa.Table, own: pa.Table = NO_PAIRS
) -> NumberedPairs:
    """Number the pairs, and gather for each query text its pairs' documents and its `own`: no wrong answers."""
    numbering = Numbering(queries["query_id"].combine_chunks(), "queries")
    query, passage = numbering.rows(pairs["query_id"]), documents.passages(pairs["doc_id"])
    text = np.asarray(queries["text"].combine_chunks().dictionary_encode().indices, np.int64)
    own = own.filter(pc.is_in(own["doc_id"], value_set=documents.numbering.ids))
    asked, itself = text[numbering.rows(own["query_id"])], documents.passages(own["doc_id"])
    of, right = np.concatenate([text[query], asked]), np.concatenate([passage, itself])
    known = np.unique(np.stack([of, right], axis=1), axis=0)
    count = int(text.max()) + 1
    return NumberedPairs(
        query=query,
        passage=passage,
        text=text,
        known=Ragged.grouped(known[:, 0], known[:, 1], count),
        negatives=Ragged.grouped(
            numbering.rows(negatives["query_id"]), documents.passages(negatives["doc_id"]), len(numbering)
        ),
        itself=Ragged.grouped(asked, itself, count),
    )


def held_out(
    encoder: BiEncoder, relevance: pa.Table, documents: TokenisedDocuments, at_most: int, rng: np.random.Generator
) -> Held | None:
    """Return dev queries over a pool of `at_most` documents, more if more are relevant; None without queries."""
    if not relevance.num_rows:
        return None
    queries = relevance.group_by("query_id", use_threads=False).aggregate([("text", "first")])
    numbering = Numbering(queries["query_id"].combine_chunks(), "queries")
    relevant = documents.numbering.rows(relevance["doc_id"])
    pool = np.unique(relevant)
    others = np.setdiff1d(np.arange(len(documents.numbering)), pool)
    if (room := at_most - len(pool)) > 0:
        pool = np.union1d(pool, others if room >= len(others) else rng.choice(others, room, replace=False))
    return Held(
        queries=encoder.tokenize(queries["text_first"].to_pylist(), "query"),
        pool=documents.tokens.take(pool),
        relevant=Ragged.grouped(numbering.rows(relevance["query_id"]), np.searchsorted(pool, relevant), len(numbering)),
    )
