"""`noisyir export`: copy out of the store what other tools load: a model, or the pairs that a reader believes in."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from noisyir.commands import Model, StoreUrl, open_store, option
from noisyir.errors import StoreError

if TYPE_CHECKING:
    from noisyir.engine.store import Store

_LAYOUT = "a retriever's folder, or, of a reader, each question with the passage of most confidence (jsonl)"


def run(
    model: Model,
    to: Annotated[str, option("PATH", "a folder or file that does not exist yet")],
    layout: Annotated[
        Literal["sentence-transformers", "pairs"],
        option("sentence-transformers|pairs", _LAYOUT, "--format"),
    ] = "sentence-transformers",
    store: StoreUrl = None,
) -> int:
    """Copy a model, or the pairs that a reader believes in, out of the store.

    example: noisyir export demo --to my-model
    """
    target = Path(to)
    if target.exists():
        raise StoreError(f"{target} exists already: name a new path")
    export = {"sentence-transformers": _model, "pairs": _pairs}[layout]
    try:
        print(export(open_store(store), model, target))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error}") from error
    return 0


def _model(store: Store, name: str, target: Path) -> str:
    """A model in the store already has sentence-transformers' layout."""
    from noisyir.app.lookup import find_model

    shutil.copytree(store.folder(find_model(store, name)), target)
    return f'{target}\nfrom sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")'


def _pairs(store: Store, name: str, target: Path) -> str:
    """Each question with the passage that a reader's confidences favour, as a file of pairs."""
    from noisyir.app.lookup import find_confidences
    from noisyir.engine.tables import read_parts, stream_parts
    from noisyir.reading.positives import most_believed
    from noisyir.verdicts.files import write_pairs
    from noisyir.verdicts.texts import read_texts

    meta = find_confidences(store, name)
    given = dict(meta.input_refs())
    believed = ("query_id", "doc_id", "update", "value")
    pairs = most_believed(read_parts(store.fs, store.parts(meta.ref("confidences")), believed))
    queries = read_parts(store.fs, store.parts(given["queries"]), ("query_id", "text"))
    pairs = pairs.join(queries.rename_columns(["query_id", "query"]), "query_id")
    corpus = stream_parts(store.fs, store.parts(given["corpus"]), ("doc_id", "title", "text"), 65536)
    texts = read_texts(corpus, pairs["doc_id"].unique(), ())
    write_pairs(pairs.sort_by("query_id"), texts, target)
    return f"{target}: {pairs.num_rows:,} pairs\nnoisyir audit {target}"
