"""Words of texts: shared ones, common ones, and duplicate documents."""

from array import array
from collections import Counter
from collections.abc import Iterable, Set
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.words import words
from noisyir.engine.tables import with_values

_COMMON_SHARE = 0.1  # of documents or queries
_TOO_FEW = 50  # texts, too few to tell common words
_POINTING = frozenset("this that these those it its he she they him her them his their".split())
_FEW = 4  # other words of a question that names nothing


@dataclass(frozen=True)
class PairTexts:
    """Texts of some documents and word counts of all, from one pass over the corpus.

    Attributes:
        documents: doc_id, title, text and `duplicates`, the number of other documents with the same words.
        common: Words of the queries in more than a tenth of the queries or documents.
    """

    documents: pa.Table
    common: Set[str]
    corpus: int

    @cached_property
    def openings(self) -> dict[str, str]:
        """The first words of each of the documents, in one line, by its id."""
        ids, titles, texts = (self.documents[name].to_pylist() for name in ("doc_id", "title", "text"))
        return {of: opening(title or text) for of, title, text in zip(ids, titles, texts, strict=True)}


def opening(text: str, length: int = 80) -> str:
    """The first words of a text, in one line; a word longer than that is cut."""
    start = " ".join(text[: 4 * length].split())
    return start if len(start) <= length else f"{start[:length].rpartition(' ')[0] or start[:length]} …"


def full_text(title: str, text: str) -> str:
    """A document as one text."""
    return f"{title}\n{text}" if title and text else title or text


def texts_of(batches: Iterable[pa.RecordBatch], wanted: Iterable[str]) -> dict[str, str]:
    """The full texts of these documents, as far as the streamed corpus (doc_id, title, text) has them."""
    ids, found = pa.array(sorted(wanted), pa.string()), dict[str, str]()
    for batch in batches:
        rows = batch.filter(pc.is_in(batch["doc_id"], value_set=ids)).to_pylist()
        found |= {row["doc_id"]: full_text(row["title"], row["text"]) for row in rows}
    return found


def shared_words(query: str, document: str, common: Set[str]) -> set[str]:
    """Words that both texts have, without the common ones."""
    return (set(words(query)) & set(words(document))) - common


def names_nothing(query: str, common: Set[str]) -> bool:
    """Whether a question points at something ("this theory") and has no name, no number and few other words."""
    said = query.split()
    named = any(word[:1].isupper() for word in said[1:]) or any(sign.isdigit() for sign in query)
    asked = set(words(query))
    points = bool(asked & _POINTING) and len(asked - common - _POINTING) <= _FEW
    return query.rstrip().endswith("?") and not named and points


def overlap(one: str, other: str) -> float:
    """The shared part of two texts' words, |A & B| / |A | B|; 0 without words.

    Source: Jaccard, 1901; Broder, 1997, takes it for near-duplicates.
    """
    both, either = set(words(one)) & set(words(other)), set(words(one)) | set(words(other))
    return len(both) / len(either) if either else 0.0


def read_texts(batches: Iterable[pa.RecordBatch], wanted: pa.Array, queries: Iterable[str]) -> PairTexts:
    """Stream the corpus (doc_id, title, text); an unwanted document takes eight bytes of memory.

    Duplicates have the same words in the same order in their texts (or titles, without a text); a document without
    words has none.
    """
    in_queries, asked = _frequencies(queries)
    in_documents: Counter[str] = Counter()
    keys = array("Q")
    kept: list[pa.Table] = []
    for batch in batches:
        start = len(keys)
        for title, text in zip(batch["title"].to_pylist(), batch["text"].to_pylist(), strict=True):
            found = words(text or title)
            said = blake2b(" ".join(found).encode(), digest_size=8).digest()  # equal lists of words share a number
            keys.append(int.from_bytes(said, "big") if found else 0)
            in_documents.update(in_queries.keys() & {*found, *words(title)})
        own_keys = pa.array(keys[start:], pa.uint64())
        rows = pa.Table.from_batches([batch.select(["doc_id", "title", "text"])]).append_column("key", own_keys)
        kept.append(rows.filter(pc.is_in(rows["doc_id"], value_set=wanted)))
    common = _common(in_queries, asked) | _common(in_documents, len(keys))
    return PairTexts(_with_duplicates(pa.concat_tables(kept), np.array(keys, np.uint64)), common, len(keys))


def common_words(texts: Iterable[str]) -> Set[str]:
    """Words in more than a tenth of these texts; none if there are too few texts to tell."""
    return _common(*_frequencies(texts))


def _frequencies(texts: Iterable[str]) -> tuple[Counter[str], int]:
    """The number of texts with each word, and of all texts."""
    counts: Counter[str] = Counter()
    asked = list(texts)
    for text in asked:
        counts.update(set(words(text)))
    return counts, len(asked)


def _common(counts: Counter[str], texts: int) -> set[str]:
    if texts < _TOO_FEW:
        return set()
    return {word for word, count in counts.items() if count > _COMMON_SHARE * texts}


def _with_duplicates(rows: pa.Table, keys: np.ndarray) -> pa.Table:
    """The rows with `duplicates` in place of `key`, by the keys of the whole corpus."""
    distinct, counts = np.unique(keys, return_counts=True)
    own = rows["key"].to_numpy()
    others = np.where(own == 0, 0, counts[np.searchsorted(distinct, own)] - 1) if len(own) else np.zeros(0)
    return with_values(rows.drop_columns(["key"]), duplicates=pa.array(others, pa.int32()))
