"""A retriever's folder as sentence-transformers loads it, with a card, and with how to combine it with BM25."""

import json
import shutil
from pathlib import Path

from noisyir.app.lookup import Finished
from noisyir.app.model_card import model_card
from noisyir.app.systems import model_to_export
from noisyir.engine.meta import Ref
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import recorded_experiment
from noisyir.registry.card import HYBRID_FILE, combination

SUFFIX, OF_MODEL = "-model", True


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """A model in the store already has this layout; the card is written beside it."""
    write_model(store, name, target, licence)
    return how_to_load(target)


def how_to_load(target: Path) -> str:
    """The place of an exported model, and the line of Python that loads it."""
    load = f'from sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")'
    return f"written   {target}\nload it   {load}"


def write_model(store: Store, name: str, target: Path, licence: str | None) -> Ref:
    """Write the folder of the model of this name; the model."""
    model, run = model_to_export(store, name)
    write_folder(store, model, run, target, licence)
    return model


def write_folder(store: Store, model: Ref, run: Finished | None, target: Path, licence: str | None) -> None:
    """The model, its README.md and, where its run measured it with BM25, how to combine the two."""
    shutil.copytree(store.builds.folder(model), target)
    (target / "README.md").write_text(model_card(store, model, run, target, licence), encoding="utf-8")
    exp = recorded_experiment(run.settings) if run else None
    if exp and run and (hybrid := combination(exp, store, run.results)):
        (target / HYBRID_FILE).write_text(json.dumps(hybrid, indent=1) + "\n", encoding="utf-8")
