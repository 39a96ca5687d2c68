"""Lists that a ranker ranks: each training query's positive in column 0, then n negatives.

Passages are shared by number rather than token ids, because ranker and retriever may have different vocabularies.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.held_out import words_of
from noisyir.training.batches import Batches, Ragged, Rng, Rows, is_known
from noisyir.training.examples import Numbering, TrainingDocuments, document_texts

_TRIES = 100  # draws of a passage before all are taken to be right for the query


@dataclass(frozen=True)
class TrainingTexts(TrainingDocuments):
    """Documents as texts, in the order of their ids."""

    texts: pa.LargeStringArray


def read_texts(corpus: Iterable[pa.RecordBatch], needed: pa.Array) -> TrainingTexts:
    """Read the documents in `needed`, streaming the corpus."""
    ids, texts = [pa.array([], pa.string())], [pa.array([], pa.large_string())]
    for some, read in document_texts(corpus, needed):
        ids.append(some)
        texts.append(pa.array(read, pa.large_string()))
    order = pc.sort_indices(pa.concat_arrays(ids))
    ordered = pa.concat_arrays(texts).take(order)
    _, first, code = np.unique(np.asarray(ordered.dictionary_encode().indices), return_index=True, return_inverse=True)
    numbering = Numbering(pa.concat_arrays(ids).take(order), "documents")
    return TrainingTexts(numbering, first[code].astype(np.int64), ordered)


@dataclass(frozen=True)
class Lists:
    """Queries, passages and the row lists from which lists are drawn.

    positives, negatives: Rows of each query, at least one and perhaps none; no negative is a known positive.
    text: Text number of each query, equal for queries that read the same.
    known: Passages that pairs give to each text number.
    doubted: Positives of each query that are flagged as wrong.
    """

    queries: pa.LargeStringArray
    passages: pa.LargeStringArray
    positives: Ragged
    negatives: Ragged
    text: Rows
    known: Ragged
    doubted: Ragged

    def __len__(self) -> int:
        return len(self.queries)

    def missing(self, count: int) -> Rows:
        """Return how many of `count` negatives each query lacks; random training passages replace them."""
        missing: Rows = np.maximum(count - np.diff(self.negatives.offsets), 0)
        return missing

    def is_clean(self, batch: "ListBatch") -> npt.NDArray[np.bool_]:
        """Whether each list's positive is not flagged."""
        return ~is_known(self.doubted, batch.queries, batch.passages[:, 0])

    @cached_property
    def training_passages(self) -> Rows:
        """The passages that pairs and negatives name."""
        return np.union1d(self.positives.values, self.negatives.values)

    def draw(self, count: int, rng: np.random.Generator) -> Rows:
        """Draw (query, 1 + count) passages: a random positive, then random negatives without repetition.

        Random training passages that are not known positives fill missing places, perhaps repeatedly.
        """
        places = np.arange(count) >= count - self.missing(count)[:, None]
        columns, everyone = np.zeros((len(self), 1 + count), np.int64), np.arange(len(self))
        query, place, positive = self.positives.shuffled(everyone, rng)
        columns[query[place == 0], 0] = positive[place == 0]
        query, place, negative = self.negatives.shuffled(everyone, rng)
        kept = place < count
        columns[query[kept], 1 + place[kept]] = negative[kept]
        columns[:, 1:][places] = self._strangers(np.nonzero(places)[0], rng)
        return columns

    def _strangers(self, queries: Rows, rng: np.random.Generator) -> Rows:
        """Draw a training passage that is not a known positive for each of `queries`."""
        drawn = rng.choice(self.training_passages, len(queries))
        for _ in range(_TRIES):
            wrong = is_known(self.known, self.text[queries], drawn)
            if not wrong.any():
                return drawn
            drawn[wrong] = rng.choice(self.training_passages, int(wrong.sum()))
        raise DataError("training.too_few_negatives", query=self.queries[int(queries[wrong][0])].as_py())


def ranking_lists(pairs: pa.Table, queries: pa.Table, documents: TrainingTexts, negatives: pa.Table) -> Lists:
    """Number training pairs, with an optional column `is_clean`, and negatives (query_id, doc_id), sorted by id.

    Queries without a pair are left out, and so are negatives that a pair gives to a query of the same text.

    Raises:
        ConfigError: If no negative is left.
    """
    queries = queries.filter(pc.is_in(queries["query_id"], value_set=pc.unique(pairs["query_id"]))).sort_by("query_id")
    numbering = Numbering(queries["query_id"].combine_chunks(), "queries")
    read = queries["text"].combine_chunks().cast(pa.large_string())
    text = np.asarray(read.dictionary_encode().indices, np.int64)
    negatives = negatives.filter(pc.is_in(negatives["query_id"], value_set=numbering.ids))
    positive, negative = (
        np.unique(np.stack([numbering.rows(table["query_id"]), documents.passages(table["doc_id"])], axis=1), axis=0)
        for table in (pairs, negatives)
    )
    right = np.unique(np.stack([text[positive[:, 0]], positive[:, 1]], axis=1), axis=0)
    known = Ragged.grouped(right[:, 0], right[:, 1], int(text.max(initial=-1)) + 1)
    negative = negative[~is_known(known, text[negative[:, 0]], negative[:, 1])]
    if not len(negative):
        raise ConfigError("training.no_negatives_left")
    wrong = pairs.filter(pc.invert(pairs["is_clean"])) if "is_clean" in pairs.column_names else pairs.slice(0, 0)
    doubted = np.stack([numbering.rows(wrong["query_id"]), documents.passages(wrong["doc_id"])], axis=1)
    groups = (Ragged.grouped(rows[:, 0], rows[:, 1], len(numbering)) for rows in (positive, negative, doubted))
    positives, mined, doubts = groups
    return Lists(read, documents.texts, positives, mined, text, known, doubts)


@dataclass(frozen=True)
class ListBatch:
    """Some of the lists: query rows, and (list, passage) rows with the positive first."""

    queries: Rows
    passages: Rows

    def __len__(self) -> int:
        return len(self.queries)

    def take(self, rows: Rows) -> "ListBatch":
        """Select the lists at `rows`."""
        return ListBatch(self.queries[rows], self.passages[rows])


class ListBatches(Batches[ListBatch]):
    """Batches of all queries' lists, which are drawn again each epoch with `count` negatives."""

    def __init__(self, lists: Lists, count: int, batch_size: int, rng: Rng) -> None:
        super().__init__(len(lists), batch_size, rng)
        self.lists, self.count = lists, count

    def draw(self, rng: np.random.Generator) -> Rows:
        """Draw the passages of every list."""
        return self.lists.draw(self.count, rng)

    def batch(self, rows: Rows, drawn: Rows) -> ListBatch:
        """Build the batch of the lists at `rows`."""
        return ListBatch(rows, drawn)


def folds_of(texts: Sequence[str], folds: int, rng: np.random.Generator) -> Rows:
    """Assign each text to one of `folds` equal parts; texts with the same words share a part.

    Raises:
        DataError: If there are fewer different texts than parts.
    """
    number: dict[frozenset[str], int] = {}
    numbers = np.array([number.setdefault(words_of(text), len(number)) for text in texts], np.int64)
    if len(number) < folds:
        raise DataError("training.too_few_queries", folds=folds, queries=len(number))
    fold: Rows = rng.permutation(np.arange(len(number)) % folds)[numbers]
    return fold
