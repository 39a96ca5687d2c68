"""Export of a retriever's sentence-transformers folder, with a card and the parameters to combine it with BM25."""

import json
import shutil
from pathlib import Path

from noisyir.app.lookup import Finished
from noisyir.app.model_card import model_card
from noisyir.app.systems import model_to_export
from noisyir.engine.meta import Ref
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import recorded_experiment
from noisyir.models.layout import read_layout
from noisyir.registry.card import HYBRID_FILE, combination

SUFFIX, OF_MODEL = "-model", True


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Copy the model, which the store already keeps in this layout, and add the card."""
    write_model(store, name, target, licence)
    return how_to_load(target)


def how_to_load(target: Path) -> str:
    """Return the path of an exported model, and the line of Python that loads it."""
    load = f'from sentence_transformers import SentenceTransformer; model = SentenceTransformer("{target}")'
    transformer = read_layout(target).shape.backbone == "transformer"
    pooler = "\n          transformers may report a missing pooler: the vectors need none" if transformer else ""
    return f"written   {target}\nload it   {load}{pooler}"


def write_model(store: Store, name: str, target: Path, licence: str | None) -> Ref:
    """Write the folder of the model with this name; return the model."""
    model, run = model_to_export(store, name)
    write_folder(store, model, run, target, licence)
    return model


def write_folder(store: Store, model: Ref, run: Finished | None, target: Path, licence: str | None) -> None:
    """Write the model, its README.md and, if its run evaluated it with BM25, the parameters to combine both."""
    shutil.copytree(store.builds.folder(model), target)
    (target / "README.md").write_text(model_card(store, model, run, target, licence), encoding="utf-8")
    exp = recorded_experiment(run.settings) if run else None
    if exp and run and (hybrid := combination(exp, store, run.results)):
        (target / HYBRID_FILE).write_text(json.dumps(hybrid, indent=1) + "\n", encoding="utf-8")
