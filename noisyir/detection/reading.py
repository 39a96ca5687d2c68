"""Vectors of many texts by an encoder that may be slow, with progress, a few at a time."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Bool, Float32

from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.openvino_encoder import OpenVinoEncoder
from noisyir.models.tokens import Side, Tokens, token_batches
from noisyir.training.validation import embed_all

Array = np.ndarray

_TOKENS_AT_ONCE = 8192  # on a CPU larger batches are no faster, and take memory


@torch.no_grad()
def read_texts(
    encoder: BiEncoder | OpenVinoEncoder,
    tokens: Tokens,
    side: Side,
    wanted: Bool[Array, " text"],
    progress: Callable[[int, int | None, str], None],
) -> Float32[Array, "text dim"]:
    """Vectors of the texts that are wanted, zero for the others; long texts first, so that little is padded."""
    vectors = np.zeros((len(tokens), encoder.dim), np.float32)
    rows = np.flatnonzero(wanted)
    if isinstance(encoder, BiEncoder):
        encoder.eval()
        if not encoder.transformers:
            vectors[rows] = embed_all(encoder, tokens.take(rows), side).cpu().numpy()
            return vectors
    done = 0
    for batch in token_batches(tokens.lengths[rows], _TOKENS_AT_ONCE):
        some = rows[batch]
        vectors[some] = encoder.embed(tokens.take(some), side).cpu().numpy()
        done += len(some)
        progress(done, len(rows), "queries read" if side == "query" else "documents read")
    return vectors
