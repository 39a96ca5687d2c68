"""Tables for stages to read, made of plain rows; and a small world of queries, documents, and pairs of them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from noisyir.base.artifact import Artifact
from noisyir.data.artifacts import ANSWERS, CORPUS, PAIRS, QRELS, QUERIES


def table(artifact: Artifact, rows: Iterable[Sequence[Any] | Mapping[str, Any]]) -> pa.Table:
    """Rows as an artifact's table: values in the order of its columns, or by their names; null for what is missing."""
    named = [row if isinstance(row, Mapping) else dict(zip(artifact.columns, row, strict=False)) for row in rows]
    columns = [pa.array([row.get(name) for row in named], kind) for name, kind in artifact.columns.items()]
    return pa.table(columns, schema=artifact.schema)


def pairs_world(
    names: str,
    queries: Mapping[str, str] | Sequence[str] = (),
    documents: Mapping[str, Any] | Sequence[Any] = (),
    *,
    splits: Mapping[str, str] | None = None,
    pairs: Iterable[Sequence[Any]] | None = None,
    judged: Iterable[tuple[str, str, int]] = (),
    answers: Mapping[str, list[str]] | None = None,
) -> dict[str, pa.Table]:
    """Those of `queries`, `corpus`, `pairs`, `qrels` and `answers` that `names` names.

    Args:
        names: of the tables, with a space between.
        queries: their texts by id; a list's are q0, q1, and so on.
        documents: the same of documents, which are d0, d1, and so on; each is a text, or a title and a text.
        splits: of the queries that are not of train.
        pairs: query and document, perhaps with a source; each query with the document of its number unless they are
            given.
        judged: what the judgements are.
        answers: of the queries that have any.
    """
    asked, read = _named("q", queries), _named("d", documents)
    of = {query: (splits or {}).get(query, "train") for query in asked}
    titled = [("", text) if isinstance(text, str) else text for text in read.values()]
    paired = list(zip(asked, read, strict=False)) if pairs is None else pairs
    rows: dict[str, tuple[Artifact, Iterable[Sequence[Any]]]] = {
        "queries": (QUERIES, [(query, text, of[query]) for query, text in asked.items()]),
        "corpus": (CORPUS, [(doc, row, *text) for row, (doc, text) in enumerate(zip(read, titled, strict=True))]),
        "pairs": (PAIRS, [(query, doc, of[query], *source) for query, doc, *source in paired]),
        "qrels": (QRELS, judged),
        "answers": (ANSWERS, (answers or {}).items()),
    }
    return {name: table(*rows[name]) for name in names.split()}


def _named(letter: str, texts: Mapping[str, Any] | Sequence[Any]) -> Mapping[str, Any]:
    return texts if isinstance(texts, Mapping) else {f"{letter}{n}": text for n, text in enumerate(texts)}
