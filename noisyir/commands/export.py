"""`noisyir export`: copy out of the store what other tools load: a model, or the pairs that a reader believes in."""

import shutil
from argparse import Namespace
from pathlib import Path

from noisyir.app.lookup import find_confidences, find_model
from noisyir.commands import open_store
from noisyir.engine.store import Store
from noisyir.errors import StoreError


def run(args: Namespace) -> int:
    """Write to a path that does not exist yet, and say how to go on."""
    store, target = open_store(args), Path(args.to)
    if target.exists():
        raise StoreError(f"{target} exists already: name a new path")
    export = {"sentence-transformers": _model, "pairs": _pairs}[args.format]
    try:
        print(export(store, args.model, target))
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error}") from error
    return 0


def _model(store: Store, name: str, target: Path) -> str:
    """A model in the store already has sentence-transformers' layout."""
    shutil.copytree(store.folder(find_model(store, name)), target)
    return f'{target}\nfrom sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")'


def _pairs(store: Store, name: str, target: Path) -> str:
    """Each question with the passage that a reader's confidences favour, as a file of pairs."""
    from noisyir.engine.tables import read_parts, stream_parts
    from noisyir.reading.positives import most_believed
    from noisyir.verdicts.jsonl_files import write_pairs
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
