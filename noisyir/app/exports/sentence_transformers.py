"""A retriever's folder as sentence-transformers loads it, with a card."""

import shutil
from pathlib import Path

from noisyir.app.lookup import find_model, finished_run
from noisyir.app.model_card import model_card
from noisyir.engine.store import Store

SUFFIX = "-model"


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """A model in the store already has this layout; the card is written beside it."""
    write_model(store, name, target, licence)
    return f'{target}\nfrom sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")'


def write_model(store: Store, name: str, target: Path, licence: str | None) -> None:
    """The model's folder and its README.md."""
    model = find_model(store, name)
    runs = [finished_run(store, name, result) for result in ("comparison", "model")]  # rather one that measured it
    run = next((run for run in runs if run and run.results.get("model") == model), None)
    shutil.copytree(store.builds.folder(model), target)
    (target / "README.md").write_text(model_card(store, model, run, target, licence), encoding="utf-8")
