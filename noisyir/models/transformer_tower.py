"""The transformer backbone: any Hugging Face encoder, pooled to one vector a text."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from noisyir.base.errors import DataError
from noisyir.models.kept_states import KeptStates, upper_part
from noisyir.models.layout import write_json
from noisyir.models.soundness import refuse_missing
from noisyir.models.text_tokenizer import Tokens
from noisyir.models.trainable import ADAPTER, has_adapters, merged_weights, save_adapters

Pooling = Literal["mean", "cls", "last"]
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
_SHAPED = 32  # positions: a processor compiles a product in bf16 for each new shape, so there are few
_WORD_EMBEDDINGS = "embeddings.word_embeddings.weight"  # after the prefix of a head, if there is one


class TransformerTower(nn.Module):
    """An encoder and its pooling.

    tokenizer_files: The tokenizer's files by name, written back unchanged.
    """

    def __init__(self, encoder: Any, pooling: Pooling, tokenizer_files: Mapping[str, str]) -> None:
        super().__init__()
        self.encoder, self.pooling, self.tokenizer_files = encoder, pooling, tokenizer_files
        self.kept: KeptStates | None = None
        self._upper: tuple[Any, ...] = ()  # a tuple, for its modules are the encoder's
        # a decoder would cache every layer's keys and values for a next token that never comes
        self.once = {"use_cache": False} if "use_cache" in signature(encoder.forward).parameters else {}

    @property
    def dim(self) -> int:
        """Length of a vector: the encoder's hidden size."""
        size: int = self.encoder.config.hidden_size
        return size

    @property
    def tokenizer_json(self) -> str:
        """Content of `tokenizer.json`."""
        return self.tokenizer_files["tokenizer.json"]

    def forward(self, tokens: Tokens) -> Float[Tensor, "text dim"]:
        """Return the pooled last hidden states; texts are padded to the longest, segment ids are zero.

        With `kept` states tokens are their rows, and the upper layers alone are computed.
        """
        if not len(tokens):
            return torch.zeros(0, self.dim, device=self.encoder.device)
        ids, mask = self.padded(tokens)
        device, mask = self.encoder.device, mask.to(self.encoder.device)
        if self.kept is None:
            read = self.encoder(input_ids=ids.to(device), attention_mask=mask, **self.once)
        else:
            (upper,) = self._upper
            lower = self.kept.read(tokens, mask.shape[1]).to(device)
            read = upper(inputs_embeds=lower, attention_mask=mask, **self.once)
        states: Tensor = read.last_hidden_state
        if self.pooling == "cls":
            return states[:, 0]
        return last_of(states, mask) if self.pooling == "last" else masked_mean(states, mask)

    def padded(self, tokens: Tokens) -> tuple[Int[Tensor, "text position"], Bool[Tensor, "text position"]]:
        """Return ids as a rectangle, padded on the right, and the mask of real ones."""
        width = max(1, int(tokens.lengths.max()))
        if self.encoder.device.type == "cpu" and torch.is_autocast_enabled("cpu"):
            most = getattr(self.encoder.config, "max_position_embeddings", width)
            width = max(width, min(-(-width // _SHAPED) * _SHAPED, most))
        ids, mask = tokens.rectangle(width, 0 if self.kept else self.encoder.config.pad_token_id or 0)
        return torch.from_numpy(ids), torch.from_numpy(mask)

    def read_kept(self, kept: KeptStates) -> None:
        """Read kept states from now on, and compute the layers above them."""
        self.kept, self._upper = kept, (upper_part(self.encoder, kept.layers),)

    def save(self, folder: Path, tokenizer_json: str) -> None:
        """Write Hugging Face's config, safetensors and tokenizer, with adapters merged, and also apart."""
        if has_adapters(self.encoder):
            save_adapters(self.encoder, folder / ADAPTER)
        save_transformer(folder, self.encoder, {**self.tokenizer_files, "tokenizer.json": tokenizer_json})


def load_transformer(folder: Path, pooling: Pooling) -> TransformerTower:
    """Load a saved encoder in float32 with its tokenizer's files; raises OSError or ValueError."""
    return TransformerTower(read_encoder(folder), pooling, read_tokenizer(folder))


def save_transformer(folder: Path, model: Any, tokenizer_files: Mapping[str, str]) -> None:
    """Write a Hugging Face model and its tokenizer's files; equal weights give equal bytes."""
    merged = {"state_dict": merged_weights(model)} if has_adapters(model) else {}
    with quietly():
        model.save_pretrained(folder, **merged)
    config = json.loads((folder / "config.json").read_text())
    config.pop("_name_or_path", None)  # the origin must not change the bytes
    write_json(folder / "config.json", config)
    for name, text in tokenizer_files.items():
        (folder / name).write_text(text, encoding="utf-8")


def load_with_head(auto: str, folder: Path, **changes: Any) -> tuple[Any, list[str]]:
    """Load a Hugging Face model with a head, in float32, and name its missing weights, which are random.

    `auto` is the class of transformers, `changes` are settings of its config.  Weights are read from safetensors
    alone, and the folder's code is not run.
    """
    import transformers

    with quietly():
        model, loaded = getattr(transformers, auto).from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True,
            local_files_only=True, trust_remote_code=False, **changes,
        )  # fmt: skip
    return model, sorted(loaded["missing_keys"])


def read_encoder(folder: Path) -> Any:
    """Load the Hugging Face encoder in a folder, float32, without a pooler; weights only from safetensors."""
    from transformers import AutoModel

    with quietly():
        encoder, loaded = AutoModel.from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, output_loading_info=True,
            local_files_only=True, trust_remote_code=False,
        )  # fmt: skip
    refuse_missing(folder, "is not a model", sorted(name for name in loaded["missing_keys"] if "pooler." not in name))
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # an unused tanh layer, absent from many files
    return encoder


def read_word_embeddings(folder: Path) -> Float[Tensor, "token dim"]:
    """Read word embeddings, float32; a BERT's from the file alone, because loading transformers takes seconds."""
    from safetensors import safe_open

    if (path := folder / "model.safetensors").exists():
        with safe_open(path, framework="pt") as weights:
            names = [name for name in weights.keys() if name.endswith(_WORD_EMBEDDINGS)]
            if len(names) == 1:
                found: Tensor = weights.get_tensor(names[0])
                return found.float()
    words: Tensor = read_encoder(folder).get_input_embeddings().weight
    return words.detach().clone()


def set_dropout(model: Any, rate: float | None, folder: Path) -> None:
    """Write a dropout rate into a model's config; None changes nothing.

    Raises:
        DataError: If the config has no setting that ends in dropout or dropout_prob.
    """
    if rate is None:
        return
    names = [name for name, value in model.config.to_dict().items() if _is_dropout(name, value)]
    if not names:
        raise DataError("models.no_dropout", folder=folder, model=type(model).__name__)
    for name in names:
        setattr(model.config, name, rate)


def _is_dropout(name: str, value: Any) -> bool:
    return name.endswith(("dropout", "dropout_prob")) and isinstance(value, float | int)


def read_tokenizer(folder: Path) -> dict[str, str]:
    """Read the tokenizer's files in a folder, by name; raises ValueError without a fast tokenizer's."""
    if not (folder / "tokenizer.json").exists():
        raise ValueError("it has no tokenizer.json; write one with AutoTokenizer.from_pretrained(...).save_pretrained")
    return {name: (folder / name).read_text("utf-8") for name in _TOKENIZER_FILES if (folder / name).exists()}


@contextmanager
def quietly() -> Iterator[None]:
    """Silence transformers' loading report and progress bar."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]


def masked_mean(
    states: Float[Tensor, "text position dim"], mask: Bool[Tensor, "text position"]
) -> Float[Tensor, "text dim"]:
    """Return the mean of each text's own positions, summed in float32; zero for a text without any."""
    present = mask.unsqueeze(-1).float()
    return (states.float() * present).sum(dim=1) / present.sum(dim=1).clamp(min=1.0)


def last_of(
    states: Float[Tensor, "text position dim"], mask: Bool[Tensor, "text position"]
) -> Float[Tensor, "text dim"]:
    """Return each text's last own position, with padding on either side; zero for a text without any."""
    place = (mask.int().cumsum(dim=1) * mask).argmax(dim=1)  # the first of the greatest counts: the last own position
    found = states.float().gather(1, place[:, None, None].expand(-1, 1, states.shape[-1])).squeeze(1)
    return found * mask.any(dim=1, keepdim=True)
