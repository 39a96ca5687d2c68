"""Encoders with a head for a task, built from existing weights; the head may be new."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from noisyir.base.errors import DataError
from noisyir.models.layout import read_layout
from noisyir.models.settings import HeadedParams
from noisyir.models.soundness import opening, refuse_broken, refuse_missing
from noisyir.models.text_tokenizer import Rows
from noisyir.models.transformer_tower import load_with_head, quietly, read_tokenizer, set_dropout


@dataclass(frozen=True)
class Headed:
    """A Hugging Face model with a head, its tokenizer and the tokenizer's files.

    new: Names of weights that its folder lacks, the head's and pooler's only.
    """

    model: Any
    tokenizer: Any
    tokenizer_files: dict[str, str]
    new: list[str]


class OneTransformer(nn.Module):
    """A Hugging Face model with a head, as a module that is trained.

    tokenizer_files: The tokenizer's files by name, written back unchanged.
    lengths: Tokens of each item of the last call, special ones included, in any order.
    """

    def __init__(self, model: Any, tokenizer_files: Mapping[str, str]) -> None:
        super().__init__()
        self.model, self.tokenizer_files = model, tokenizer_files
        self.lengths: Rows = np.empty(0, np.int64)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def transformers(self) -> list[Any]:
        """The Hugging Face model, as a list of one."""
        return [self.model]


def with_head(
    folder: Path,
    params: HeadedParams,
    seed: int,
    *,
    kind: str,
    auto: str,
    refuse: Callable[[Path, Any], None] = lambda source, config: None,
    **changes: Any,
) -> Headed:
    """Build the model that `params` describe from the weights in `folder`; missing weights follow from `seed`.

    `kind`, such as ranker, names it in messages; `auto` is the class of transformers that loads it; `refuse` raises
    for an unfit config; `changes` are settings of the config.

    Raises:
        DataError: If the folder cannot give that.
    """
    import transformers

    layout = read_layout(folder)
    if layout.shape.backbone == "static":
        raise DataError("models.static_cannot_get_head", folder=folder, setting=f"{kind}.init.weights")
    source = layout.towers["passage"]
    local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    changes |= {} if params.layers is None else {"num_hidden_layers": params.layers}
    with opening(folder, f"cannot become a {kind}"):
        files = read_tokenizer(source)
        config = transformers.AutoConfig.from_pretrained(source, **local)
        _refuse_small(source, config, params, kind)
        refuse(source, config)
        with quietly(), torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            tokenizer = transformers.AutoTokenizer.from_pretrained(source, **local)
            model, missing = load_with_head(auto, source, **changes)
        refuse_broken(folder, model, len(model.get_input_embeddings().weight), files["tokenizer.json"])
    if tokenizer.pad_token is None:
        raise DataError("models.no_padding_token", folder=folder)
    set_dropout(model, params.dropout, folder)
    encoder = f"{model.base_model_prefix}."
    lacking = [name for name in missing if name.startswith(encoder) and ".pooler." not in name]
    refuse_missing(folder, f"cannot become a {kind}", lacking)
    return Headed(model, tokenizer, files, missing)


def _refuse_small(source: Path, config: Any, params: HeadedParams, kind: str) -> None:
    """Refuse, with a DataError, weights with too few layers or positions."""
    limit, found = getattr(config, "max_position_embeddings", params.max_len), config.num_hidden_layers
    if params.max_len > limit:
        setting = f"{kind}.init.max_len"
        raise DataError("models.reads_too_little", folder=source, limit=limit, setting=setting, wanted=params.max_len)
    if params.layers is not None and params.layers > found:
        setting = f"{kind}.init.layers"
        raise DataError("models.too_few_layers", folder=source, found=found, setting=setting, wanted=params.layers)
