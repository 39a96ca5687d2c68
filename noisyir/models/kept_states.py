"""Outputs of a transformer's lower layers, computed once and kept as float16 in a file.

A text with kept states is a `Tokens` with the rows of its states in the place of ids, so that batches are drawn, sorted
and divided as always.
"""

import copy
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn, Self

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from noisyir.base.errors import DataError
from noisyir.models.layout import write_json
from noisyir.models.text_tokenizer import Side, Tokens, take_ragged, token_batches
from noisyir.models.trainable import frozen_parts, layers_of

STATES = "states.f16"
_ABOUT, _KEYS, _STARTS = "about.json", "keys.npy", "starts.npy"
_PROBED = 8  # texts that a model is tried on
_CLOSE = 1e-3  # of two float32 passes in batches of other shapes, as a share of the largest number


class KeptStates:
    """States in a folder: `keys` of the texts, ascending, and where in the file the states of each begin."""

    def __init__(self, folder: Path) -> None:
        about = json.loads((folder / _ABOUT).read_text())
        self.layers, self.model = int(about["layers"]), about["model"]
        self._keys, self._starts = np.load(folder / _KEYS), np.load(folder / _STARTS)
        self._dim = int(about["dim"])
        self._file = (folder / STATES).open("rb", buffering=0)  # mapped, its pages would count as this process's memory

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # teachers are copies of models, and share the file

    def find(self, tokens: Tokens, side: Side) -> Tokens:
        """Return the rows of the texts' states in the place of ids.

        Raises:
            DataError: If a text has none.
        """
        keys = keys_of(tokens, side)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        if missing := int((self._keys[place] != keys).sum()):
            raise DataError("models.text_without_states", side=side, missing=missing)
        rows = np.repeat(self._starts[place] - tokens.offsets[:-1], tokens.lengths) + np.arange(len(tokens.ids))
        return Tokens(rows.astype(np.int32), tokens.offsets)

    def read(self, tokens: Tokens, width: int) -> Float[Tensor, "text position dim"]:
        """Return the states of texts, float32, padded on the right with zeros up to `width`."""
        lengths = tokens.lengths
        states = np.zeros((len(tokens), width, self._dim), np.float16)
        width = states[0, 0].nbytes
        for place in np.flatnonzero(lengths):
            first = int(tokens.ids[tokens.offsets[place]])
            os.preadv(self._file.fileno(), [states[place, : lengths[place]].data], first * width)
        return torch.from_numpy(states).float()


def keys_of(tokens: Tokens, side: Side) -> np.ndarray:
    """Return a number of 64 bits for each text, which follows from its side and tokens."""
    ids = np.ascontiguousarray(tokens.ids, np.int32).tobytes()
    cut = tokens.offsets * np.int32().itemsize
    found = (
        hashlib.blake2b(ids[start:end], digest_size=8, person=side.encode()).digest() for start, end in pairwise(cut)
    )
    return np.frombuffer(b"".join(found), np.uint64)


def write_about(folder: Path, layers: int, model: str, dim: int, keys: np.ndarray, lengths: np.ndarray) -> None:
    """Write everything but the states, which follow one another in the order of `keys`."""
    order = np.argsort(keys, kind="stable")
    write_json(folder / _ABOUT, {"layers": layers, "model": model, "dim": dim})
    np.save(folder / _KEYS, keys[order])
    np.save(folder / _STARTS, (np.cumsum(lengths) - lengths)[order])


def digest_of(encoders: Sequence[Any], layers: int) -> str:
    """Return a digest of the embeddings and the lower `layers` of these models."""
    found = hashlib.sha256()
    for part in (part for encoder in encoders for part in frozen_parts(encoder, layers)):
        for name, weight in part.state_dict().items():
            found.update(f"{name} {tuple(weight.shape)} {weight.dtype}".encode())
            found.update(weight.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


class _ReachedError(Exception):
    """Not a fault: the layer is reached, and the upper ones need not be computed."""


@torch.inference_mode()
def states_after(
    encoder: Any, layers: int, ids: Int[Tensor, "text position"], mask: Bool[Tensor, "text position"]
) -> Float[Tensor, "text position dim"]:
    """Return the input of the layer above the lower `layers`."""
    stack, name = layers_of(encoder, type(encoder).__name__, "train.keep_states")
    found: list[Tensor] = []

    def stop(_: nn.Module, given: Sequence[Tensor], named: Mapping[str, Tensor]) -> NoReturn:
        found.append(given[0] if given else named["hidden_states"])
        raise _ReachedError

    hook = getattr(stack, name)[layers].register_forward_pre_hook(stop, with_kwargs=True)
    try:
        encoder(input_ids=ids.to(encoder.device), attention_mask=mask.to(encoder.device))
    except _ReachedError:
        pass
    finally:
        hook.remove()
    return found[0]


def lower_states(tower: Any, layers: int, tokens: Tokens, batch_tokens: int) -> Float[np.ndarray, "token dim"]:
    """Return the states of all texts, one after another, in float16.

    Raises:
        DataError: If a state is too large for float16.
    """
    states = np.empty((len(tokens.ids), tower.dim), np.float16)
    for rows in token_batches(tokens.lengths, batch_tokens):
        ids, mask = tower.padded(tokens.take(rows))
        with np.errstate(over="ignore"):
            found = states_after(tower.encoder, layers, ids, mask)[mask].float().cpu().numpy().astype(np.float16)
        if not np.isfinite(found).all():
            raise DataError("models.states_too_large", model=type(tower.encoder).__name__)
        states[take_ragged(tokens.offsets, rows)[1]] = found
    return states


class _AsGiven(nn.Module):
    """Stands for embeddings if states are given."""

    def forward(self, *given: Any, **named: Any) -> Tensor:
        return next(one for one in (*given, *named.values()) if isinstance(one, Tensor) and one.is_floating_point())


def upper_part(encoder: Any, layers: int) -> Any:
    """Return a view of a model without its embeddings and lower `layers`, which reads states as `inputs_embeds`.

    It shares all modules with the model.
    """
    view = _view(encoder)
    stack, name = layers_of(view, type(encoder).__name__, "train.keep_states")
    if stack is not view:
        inner = next(key for key, module in view._modules.items() if module is stack)
        stack = view._modules[inner] = _view(stack)
    stack._modules[name] = getattr(stack, name)[layers:]
    if "embeddings" in view._modules:
        view._modules["embeddings"] = _AsGiven()
    return view


def _view(module: Any) -> Any:
    found = copy.copy(module)
    found._modules = dict(module._modules)
    return found


def refuse_unsplit(tower: Any, layers: int, tokens: Tokens) -> None:
    """Refuse, with a DataError, a model that gives other vectors from kept states."""
    encoder, once = tower.encoder, tower.once
    ids, mask = (part.to(encoder.device) for part in tower.padded(tokens.take(np.arange(min(_PROBED, len(tokens))))))
    try:
        with torch.inference_mode():
            whole = encoder(input_ids=ids, attention_mask=mask, **once).last_hidden_state[mask]
            states = states_after(encoder, layers, ids, mask)
            found = upper_part(encoder, layers)(inputs_embeds=states, attention_mask=mask, **once)
            fits = torch.allclose(found.last_hidden_state[mask], whole, rtol=0, atol=_CLOSE * float(whole.abs().max()))
    except (TypeError, ValueError, AttributeError, RuntimeError, KeyError, IndexError, StopIteration) as error:
        raise DataError("models.states_not_kept", model=type(encoder).__name__) from error
    if not fits:
        raise DataError("models.states_not_kept", model=type(encoder).__name__)
