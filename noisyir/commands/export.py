"""`noisyir export`: copy a model out of the store, in a layout that other tools load."""

import shutil
from argparse import Namespace
from pathlib import Path

from noisyir.commands import open_store
from noisyir.errors import StoreError
from noisyir.lookup import find_model


def run(args: Namespace) -> int:
    """Copy; a model in the store already has sentence-transformers' layout."""
    store = open_store(args)
    folder = store.folder(find_model(store, args.model))
    target = Path(args.to)
    if target.exists():
        raise StoreError(f"{target} exists already: name a new folder")
    try:
        shutil.copytree(folder, target)
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error}") from error
    print(f'{target}\nfrom sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")')
    return 0
