"""The part of a transformer that training moves: all, the upper layers, or low-rank adapters (LoRA).

For a linear layer W x the model computes W x + (alpha / rank) B A x; A and B learn, and B starts at 0 (Hu et al.,
ICLR 2022).  A model is saved with the adapters merged into W, and with them alone in `adapter`, as peft reads them.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from noisyir.base.errors import ConfigError, DataError, MissingPackageError, install_hint
from noisyir.models.layout import write_json
from noisyir.models.settings import LoraParams
from noisyir.models.weights import refuse_targets

ADAPTER = "adapter"


def layers_of(encoder: Any, folder: Path | str, setting: str) -> tuple[Any, str]:
    """Return the module that holds an encoder's layers, and the name of its list of them.

    Raises:
        DataError: If there is no such list; names the `setting` that needs it.
    """
    stack = getattr(encoder, "encoder", None) or getattr(encoder, "transformer", None) or encoder
    name = next((name for name in ("layer", "layers") if hasattr(stack, name)), None)
    if name is None:
        raise DataError("models.unknown_layers", folder=folder, setting=setting, model=type(encoder).__name__)
    return stack, name


def freeze(encoder: Any, layers: int) -> None:
    """Freeze the embeddings and the first `layers` layers; at least one layer must learn."""
    stack, name = layers_of(encoder, "the model", "train.freeze")
    held = getattr(stack, name)
    if layers >= len(held):
        raise ConfigError("models.freeze_leaves_none", layers=layers, there=len(held), most=len(held) - 1)
    for part in frozen_parts(encoder, layers):
        part.requires_grad_(False)


def frozen_parts(encoder: Any, layers: int) -> list[Any]:
    """Return the embeddings and the first `layers` layers of an encoder."""
    stack, name = layers_of(encoder, "the model", "train.freeze")
    embeddings = [inner for part, inner in encoder.named_modules() if "embed" in part.rsplit(".", 1)[-1]]
    return [*embeddings, *getattr(stack, name)[:layers]]


def add_adapters(encoder: Any, params: LoraParams, seed: int) -> None:
    """Add adapters to an encoder, in place, and freeze all its other weights.

    Raises:
        ConfigError: If the encoder lacks a target.
    """
    with MissingPackageError.wrapping("models.no_peft", ImportError, hint=install_hint("lora")):
        from peft import LoraConfig, inject_adapter_in_model
    linear = sorted({name.rsplit(".", 1)[-1] for name, one in encoder.named_modules() if isinstance(one, nn.Linear)})
    refuse_targets(params.targets, linear)
    config = LoraConfig(
        r=params.rank, lora_alpha=params.scaled_by, lora_dropout=params.dropout,
        target_modules=list(params.targets or linear),
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        inject_adapter_in_model(config, encoder)


def has_adapters(encoder: Any) -> bool:
    """Whether adapters were added."""
    return any(".lora_A." in name for name, _ in encoder.named_parameters())


def save_adapters(encoder: Any, folder: Path) -> None:
    """Write the adapters for peft's `PeftModel.from_pretrained`; equal weights give equal bytes."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    (config,) = encoder.peft_config.values()
    about = {
        "peft_type": "LORA", "task_type": "FEATURE_EXTRACTION", "bias": "none", "inference_mode": True,
        "base_model_name_or_path": None, "r": config.r, "lora_alpha": config.lora_alpha,
        "lora_dropout": config.lora_dropout, "target_modules": sorted(config.target_modules),
    }  # fmt: skip
    write_json(folder / "adapter_config.json", about)
    named = {
        f"base_model.model.{name.replace('.default', '')}": weight.detach().cpu().contiguous()
        for name, weight in encoder.named_parameters()
        if ".lora_" in name
    }
    save_file(named, folder / "adapter_model.safetensors", {"format": "pt"})


def merged_weights(encoder: Any) -> dict[str, Tensor]:
    """Return the encoder's weights with each adapter added to its layer."""
    layers = {name: one for name, one in encoder.named_modules() if hasattr(one, "lora_A")}
    found = {}
    for name, value in encoder.state_dict().items():
        if ".lora_" in name:
            continue
        owner = name.removesuffix(".base_layer.weight")
        moved = layers[owner].get_delta_weight("default") if owner in layers else 0.0
        found[name.replace(".base_layer.", ".")] = value + moved
    return found
