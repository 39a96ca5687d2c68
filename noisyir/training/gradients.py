"""One batch's gradient, in one piece or, where memory is short, text by text with the batch's full softmax."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import torch
from torch import Tensor

from noisyir.models.at_once import AtOnce, Auto
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.tokens import SIDES, Side, Tokens
from noisyir.training.batches import Batch, Rows

Loss = Callable[[Tensor, Tensor], Tensor]
"""(query vectors, passage vectors) -> the batch's loss, a scalar."""


def backward(encoder: BiEncoder, batch: Batch, loss: Loss, *, seed: int, bf16: bool) -> float:
    """Leave the gradient of the batch's loss in the weights and return the loss.  Dropout follows from `seed`."""
    with seeded(encoder.device, seed):
        with _autocast(encoder, bf16):
            queries, passages = encoder.embed_both(batch.queries, batch.passages)
        value = loss(queries, passages)
        value.backward()  # type: ignore[no-untyped-call]
    return float(value.detach())


def cached_backward(encoder: BiEncoder, batch: Batch, loss: Loss, *, seed: int, bf16: bool, chunk_size: int) -> float:
    """As `backward`, holding the activations of `chunk_size` texts at a time (Gao et al., RepL4NLP 2021).

    First all vectors without a graph; then the loss and its gradient by them; then each chunk once more, with a graph
    and the same dropout, to carry that gradient into the weights.  The result is exact: the chain rule in two parts.
    """
    texts: dict[Side, Tokens] = {"query": batch.queries, "passage": batch.passages}
    chunks = [(side, rows) for side in SIDES for rows in _by_length(texts[side], chunk_size)]

    def embed(number: int) -> Tensor:
        side, rows = chunks[number]
        with seeded(encoder.device, seed, number), _autocast(encoder, bf16):
            return encoder.embed(texts[side].take(rows), side)

    vectors = {side: torch.zeros(len(texts[side]), encoder.dim, device=encoder.device) for side in SIDES}
    with torch.no_grad():
        for number, (side, rows) in enumerate(chunks):
            vectors[side][rows] = embed(number)
    for side in SIDES:
        vectors[side].requires_grad_()
    value = loss(vectors["query"], vectors["passage"])
    value.backward()  # type: ignore[no-untyped-call]
    for number, (side, rows) in enumerate(chunks):
        gradient = vectors[side].grad
        assert gradient is not None
        embed(number).backward(gradient[rows])  # type: ignore[no-untyped-call]
    return float(value.detach())


@contextmanager
def seeded(device: torch.device, *seed: int) -> Iterator[None]:
    """Torch's generators start from `seed` inside and are as before outside: dropout knows no other way."""
    number = int(np.random.default_rng(seed).integers(2**63))
    gpus = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # not torch.manual_seed: without a GPU it queues a call, with its stack trace, for ever
        for generator in (torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in gpus)):
            generator.manual_seed(number)
        yield


def chunks_for(encoder: BiEncoder, passages: Tokens, wanted: int | Auto | None, most: int, *, bf16: bool) -> AtOnce:
    """How many texts pass through a tower at once: `wanted`, or, with auto, as many of the longest as fit.

    most: texts of one step.  A static tower keeps next to nothing, and takes all.
    """

    def probe(texts: int) -> None:
        with seeded(encoder.device, 0), _autocast(encoder, bf16):
            vectors = encoder.embed(longest.take(np.zeros(texts, np.int64)), "passage")
        vectors.sum().backward()  # type: ignore[no-untyped-call]

    chunks = AtOnce(wanted, most)
    if encoder.transformers and len(passages):
        longest = passages.take(np.array([passages.lengths.argmax()]))
        chunks.fit(encoder, probe)
    return chunks


def _autocast(encoder: BiEncoder, bf16: bool) -> AbstractContextManager[None]:
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=bf16)


def _by_length(tokens: Tokens, chunk_size: int) -> list[Rows]:
    """Row numbers in chunks of at most `chunk_size`, texts of like length together: little padding."""
    order = np.argsort(-tokens.lengths, kind="stable")
    return [order[start : start + chunk_size] for start in range(0, len(order), chunk_size)]
