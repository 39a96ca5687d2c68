"""Export of a LoRA model's adapters, in a folder that sentence-transformers and peft load."""

import json
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

from noisyir.app.exports.sentence_transformers import how_to_load, write_model
from noisyir.base.errors import ConfigError
from noisyir.engine.meta import Meta
from noisyir.engine.store import Store
from noisyir.models.layout import read_layout, write_json
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.models.trainable import ADAPTER
from noisyir.models.weights import MINILM, locate_weights

SUFFIX, OF_MODEL = "-lora", True


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write the model's layout with adapters instead of weights, to be added to the start model's weights.

    Raises:
        ConfigError: If the model has no adapters, or its start model is not publicly available as a whole.
    """
    with TemporaryDirectory(dir=target.parent) as temporary:
        made = Path(temporary) / "model"
        model = store.builds.meta(write_model(store, name, made, licence))
        start = _start(store, model)
        towers = {*read_layout(made).towers.values()}
        if not all((tower / ADAPTER).is_dir() for tower in towers):
            raise ConfigError("app.no_adapters", name=name)
        for tower in towers:
            about = json.loads((tower / ADAPTER / "adapter_config.json").read_text(encoding="utf-8"))
            write_json(tower / "adapter_config.json", {**about, "base_model_name_or_path": start})
            (tower / ADAPTER / "adapter_model.safetensors").rename(tower / "adapter_model.safetensors")
            shutil.rmtree(tower / ADAPTER)
            for whole in (*tower.glob("model*.safetensors*"), tower / "config.json"):
                whole.unlink()  # otherwise transformers would not load the start model
        made.rename(target)
    return f"{how_to_load(target)}\nIt is added to the weights of {start}, which must be there."


def _start(store: Store, model: Meta) -> str:
    """Return the public name of the weights that the adapters extend."""
    before = dict(model.input_refs()).get("model")
    first = store.builds.meta(before) if before else model
    if first.stage != INIT_MODEL.name or first.params["layers"] is not None:
        raise ConfigError("app.adapters_of_own_model")
    weights = str(first.params["weights"])
    if weights == MINILM:
        return "sentence-transformers/all-MiniLM-L6-v2"
    return str(locate_weights(weights).resolve()) if Path(weights).expanduser().is_dir() else weights
