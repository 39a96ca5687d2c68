"""Which queries and documents a stage works on, and what of a document BM25 and models read."""

from collections.abc import Collection, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import DataError
from noisyir.settings import Split, with_promotion


def of_splits(queries: pa.Table, splits: Sequence[Split], setting: str) -> pa.Table:
    """The queries of these splits, in order, with those of promotion where the splits are held out.

    DataError, naming the `setting` to change, when there are none.
    """
    chosen = queries.filter(pc.is_in(queries["split"], value_set=pa.array(with_promotion(splits), pa.string())))
    if chosen.num_rows == 0:
        check_splits(queries["split"].unique().to_pylist(), splits, setting)
    return chosen


def check_splits(there: Collection[str], splits: Sequence[str], setting: str) -> None:
    """DataError, naming the `setting` to change, where data has queries in none of these splits."""
    if not {*there} & {*splits}:
        found = ", ".join(sorted(there)) or "no split"
        raise DataError(
            f"no query is in {setting}={list(splits)}; the data has queries in: {found}: set it to one of these, "
            "or hold training queries out with data.hold_out={}"
        )


def contents(documents: pa.RecordBatch) -> list[str]:
    """What is indexed of each document: title, newline, text."""
    titles, texts = documents["title"].to_pylist(), documents["text"].to_pylist()
    return [f"{title}\n{text}" for title, text in zip(titles, texts, strict=True)]


def texts_of(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> dict[str, str]:
    """The texts, without titles, of the documents of these ids; DataError when the corpus lacks one of them."""
    wanted, texts = doc_ids.unique(), dict[str, str]()
    for some in among(documents, wanted):
        texts.update(zip(some["doc_id"].to_pylist(), some["text"].to_pylist(), strict=True))
    if unknown := [doc_id for doc_id in wanted.to_pylist() if doc_id not in texts]:
        raise DataError(
            f"the corpus lacks {len(unknown)} of {len(wanted)} documents that are read, for example {unknown[0]!r}: "
            "rank the corpus that is read"
        )
    return texts


def passages_of(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> dict[str, str]:
    """What models read, title and text, of the documents of these ids; of those that the corpus has."""
    from noisyir.models.tokens import passage_text

    passages: dict[str, str] = {}
    for some in among(documents, doc_ids.unique()):
        texts = map(passage_text, some["title"].to_pylist(), some["text"].to_pylist())
        passages.update(zip(some["doc_id"].to_pylist(), texts, strict=True))
    return passages


def among(documents: Iterable[pa.RecordBatch], doc_ids: pa.Array | pa.ChunkedArray) -> Iterator[pa.RecordBatch]:
    """Of each batch the documents of these ids."""
    return (batch.filter(pc.is_in(batch["doc_id"], value_set=doc_ids)) for batch in documents)
