"""Deliberate false negatives: relevant documents that no pair names, and how they arise; the stage hide writes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int, UInt64
from pydantic import Field, PositiveInt

from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import DataError
from noisyir.base.settings import Fraction
from noisyir.base.variants import Variant
from noisyir.data.artifacts import CORPUS
from noisyir.data.draws import choose_pairs, is_among
from noisyir.data.id_texts import text_key

_ATTEMPTS = 10


@dataclass(frozen=True)
class Labelled:
    """A collection and its relevance labels.

    pairs, training: Pairs of all splits; train's, sorted by ids, with their `row` in `pairs`.
    documents, read: Number of documents, and a function that streams them.
    """

    pairs: pa.Table
    training: pa.Table
    qrels: pa.Table | None
    documents: int
    read: Callable[[], Iterable[pa.RecordBatch]]
    rng: Callable[[str], np.random.Generator]


@dataclass(frozen=True)
class Hidden:
    """The truth (query_id, doc_id, edit_rate), the rows of removed pairs and the added documents.

    counts: Numbers for the build's notes.
    """

    truth: pa.Table
    counts: Mapping[str, int]
    pairs: Int[np.ndarray, " hidden"] = field(default_factory=lambda: np.empty(0, np.int64))
    documents: pa.Table = field(default_factory=CORPUS.schema.empty_table)


class Hiding(Variant):
    """Relevant documents that no pair names, put in on purpose, with the truth kept apart for scoring.

    adds_documents: Whether the collection changes; otherwise one result serves all seeds.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.hiding"
    default: ClassVar[str | None] = "positives"
    renamed: ClassVar[Mapping[str, str]] = {"mechanism": "kind"}
    adds_documents: ClassVar[bool] = True

    rate: Fraction = Field(
        0.0, description="share hidden of a query's pairs, one left aside; share copied of the training documents"
    )

    def hide(self, given: Labelled) -> Hidden:
        """Choose the documents and pairs to hide; only training pairs change."""
        raise NotImplementedError


class Positives(Hiding, kind="positives"):
    """Some pairs of queries with several leave the training data."""

    adds_documents: ClassVar[bool] = False

    def hide(self, given: Labelled) -> Hidden:
        """Hide exactly round(rate * n) of the n pairs that are not their query's last."""
        training = given.training
        query = training["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
        free = np.flatnonzero(hideable(query, given.rng("stays")))
        if self.rate and not len(free):
            raise DataError("corruption.nothing_to_hide", pairs=len(training))
        hidden = training.take(free[choose_pairs(len(free), self.rate, given.rng("pairs"))])
        counts = {"training_pairs": len(training), "hideable": len(free), "hidden": len(hidden)}
        truth = hidden.append_column("edit_rate", pa.nulls(len(hidden), pa.float32()))
        return Hidden(truth, counts, pairs=hidden["row"].to_numpy())


def hideable(query: Int[np.ndarray, " pair"], rng: np.random.Generator) -> Bool[np.ndarray, " pair"]:
    """Mark all pairs but a random one of each query.

    Source: Wang et al., AAAI 2024, section 4.1, which turns some positives into false negatives at random.
    """
    shuffled = rng.permutation(len(query))
    free = np.ones(len(query), bool)
    free[shuffled[np.unique(query[shuffled], return_index=True)[1]]] = False
    return free


class Originals(NamedTuple):
    """Copied documents by id, as (title, text), and the sorted text keys of the whole corpus."""

    by_id: dict[str, tuple[str, str]]
    keys: np.ndarray[Any, np.dtype[np.uint64]]


class NearDuplicates(Hiding, kind="near_duplicates"):
    """Training pairs' documents get edited copies, which are as relevant."""

    copies: PositiveInt = Field(1, description="edited copies of a document")
    edit_rates: tuple[Fraction, ...] = Field(
        (0.05, 0.1, 0.2), min_length=1, description="share of words edited, one drawn for each copy"
    )

    def hide(self, given: Labelled) -> Hidden:
        """Make the copies as corpus rows, hidden for every training query of their original."""
        chosen, eligible = self._chosen(given)
        originals = self._originals(given, chosen) if chosen else Originals({}, np.empty(0, np.uint64))
        texts = [originals.by_id[doc_id][1] for doc_id in chosen]
        copies = list(edited_copies(texts, self.copies, self.edit_rates, originals.keys, given.rng("copies")))
        made = [copy for copy in copies if copy.text is not None]
        doc_ids = pa.array([chosen[copy.original] for copy in made], pa.string())
        names = pa.array([_name(chosen[copy.original], copy.number) for copy in made], pa.string())
        rows = {
            "doc_id": names,
            "doc_row": pa.array(given.documents + np.arange(len(made)), pa.int32()),
            "title": pa.array([originals.by_id[chosen[copy.original]][0] for copy in made], pa.string()),
            "text": pa.array([copy.text for copy in made], pa.string()),
        }
        rates = pa.array([copy.edit_rate for copy in made], pa.float32())
        copied = pa.table({"original": doc_ids, "doc_id": names, "edit_rate": rates})
        pairs = given.training.select(["query_id", "doc_id"]).rename_columns(["query_id", "original"])
        hidden = pairs.join(copied, "original", join_type="inner").sort_by(BY_PAIR)
        counts = {
            "eligible_documents": eligible,
            "copied_documents": len(chosen),
            "copies": len(made),
            "copies_edited_again": sum(copy.again > 0 for copy in made),
            "copies_given_up": len(copies) - len(made),
            "hidden": len(hidden),
        }
        return Hidden(hidden, counts, documents=pa.table(rows, CORPUS.schema))

    def _chosen(self, given: Labelled) -> tuple[list[str], int]:
        """Draw ids of documents to copy, in order, and count the eligible, which only training pairs name."""
        pairs, training, qrels = given.pairs, given.training, given.qrels
        held_out = [pairs.filter(pc.not_equal(pairs["split"], "train"))["doc_id"]]
        if qrels is not None:
            others = pc.invert(pc.is_in(qrels["query_id"], value_set=training["query_id"].combine_chunks()))
            held_out.append(qrels.filter(pc.and_(others, pc.greater(qrels["relevance"], 0)))["doc_id"])
        named = {name for column in held_out for name in column.to_pylist()}
        eligible = sorted(set(training["doc_id"].to_pylist()) - named)
        if self.rate and not eligible:
            raise DataError("corruption.nothing_to_copy", pairs=len(training))
        rows = choose_pairs(len(eligible), self.rate, given.rng("documents"))
        return [eligible[row] for row in rows.tolist()], len(eligible)

    def _originals(self, given: Labelled, chosen: list[str]) -> Originals:
        """Stream the chosen documents' texts and all text keys; refuse a missing document or a copy's id in use."""
        wanted = pa.array(chosen, pa.string())
        names = pa.array([_name(doc_id, n) for doc_id in chosen for n in range(1, self.copies + 1)], pa.string())
        found: dict[str, tuple[str, str]] = {}
        keys = []
        for batch in given.read():
            ids, texts = batch["doc_id"], batch["text"].to_pylist()
            if len(used := ids.filter(pc.is_in(ids, value_set=names))):
                raise DataError(
                    "corruption.copy_id_in_use", id=used[0].as_py(), original=used[0].as_py().rpartition("~")[0]
                )
            keys.append(np.fromiter(map(text_key, texts), np.uint64, len(texts)))
            for row in np.flatnonzero(pc.is_in(ids, value_set=wanted).to_numpy(zero_copy_only=False)).tolist():
                found[ids[row].as_py()] = batch["title"][row].as_py(), texts[row]
        if missing := [doc_id for doc_id in chosen if doc_id not in found]:
            raise DataError("corruption.missing_documents", count=len(missing), example=missing[0])
        return Originals(found, np.sort(np.concatenate(keys)))


def _name(doc_id: str, number: int) -> str:
    return f"{doc_id}~{number}"


class Copy(NamedTuple):
    """An edited copy: its original's number, its own from 1, its text and its edit rate.

    text: None if no edit gave a new text; again: number of further edits until one did.
    """

    original: int
    number: int
    text: str | None
    edit_rate: float
    again: int


def edited_copies(
    texts: Sequence[str],
    copies: int,
    edit_rates: Sequence[float],
    known: UInt64[np.ndarray, " text"],
    rng: np.random.Generator,
) -> Iterator[Copy]:
    """Yield `copies` copies of each text, edited at rates drawn from `edit_rates`, all distinct.

    `known` are sorted `text_key`s that no copy may have, the originals' among them.
    """
    with_words = [text for text in texts if text.strip()]
    made: set[int] = set()

    def any_word() -> str:
        words = with_words[rng.integers(len(with_words))].split()
        return words[rng.integers(len(words))]

    def is_new(text: str) -> bool:
        key = text_key(text)
        return bool(text) and key not in made and not is_among(np.array([key], np.uint64), known)[0]

    for original, text in enumerate(texts):
        words = text.split()
        for number in range(1, copies + 1):
            rate = edit_rates[int(rng.integers(len(edit_rates)))]
            tries = (edited(words, rate, any_word, rng) for _ in range(_ATTEMPTS if words else 0))
            again, copy = next(((n, one) for n, one in enumerate(tries) if is_new(one)), (0, None))
            if copy is not None:
                made.add(text_key(copy))
            yield Copy(original, number, copy, rate, again)


def edited(words: Sequence[str], rate: float, any_word: Callable[[], str], rng: np.random.Generator) -> str:
    """Edit round(rate * words), at least 1, of the words: delete, replace, or swap with the next.

    Words and edits are drawn uniformly; the last word is swapped with the one before.
    """
    changed = list(words)
    places = rng.choice(len(words), size=max(1, round(rate * len(words))), replace=False)
    for place, edit in zip(places.tolist(), rng.integers(3, size=len(places)).tolist(), strict=True):
        neighbour = place + 1 if place + 1 < len(words) else place - 1
        if edit == 0:
            changed[place] = ""
        elif edit == 1:
            changed[place] = any_word()
        else:
            changed[place], changed[neighbour] = changed[neighbour], changed[place]
    return " ".join(word for word in changed if word)
