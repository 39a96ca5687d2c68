"""The gradient of a batch, whole or, if memory is short, in chunks with the batch's full softmax."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial

import numpy as np
import torch
from torch import Tensor

from noisyir.models.at_once import DEFAULT_TOKENS, AtOnce, keep_fewer_activations
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.text_tokenizer import SIDES, Side, Tokens, token_batches
from noisyir.training.batches import Batch, Rows
from noisyir.training.distributed import Division, world
from noisyir.training.settings import TrainAr2Params, TrainDprParams

Loss = Callable[[Tensor, Tensor], Tensor]  # (query vectors, passage vectors) -> the batch's loss, a scalar
_TOKENS_AT_ONCE = {"cpu": 1024}  # of a group, padding included: a layer's output stays in the caches


class BatchGradient:
    """Computes a bi-encoder's batch gradients within the available memory.

    `params.chunk_size` of a step's `texts` pass through a tower at once, or, with auto, as many of the longest as fit.
    A static tower takes all.
    """

    def __init__(
        self, encoder: BiEncoder, passages: Tokens, params: TrainDprParams | TrainAr2Params, texts: int
    ) -> None:
        self.encoder, self.bf16 = encoder, params.precision == "bf16"
        if params.gradient_checkpointing:
            keep_fewer_activations(encoder.transformers)
        self.chunks = AtOnce(params.chunk_size, texts, again=world().alone)
        if encoder.transformers and len(passages):
            self.chunks.fit(encoder, partial(self._probe, passages.take(np.array([passages.lengths.argmax()]))))

    def compute(self, batch: Batch, loss: Loss, seed: int) -> float:
        """Leave the gradient of the loss in the weights and return the loss; dropout follows from `seed`."""
        bf16, size = self.bf16, self.chunks.size
        while True:
            try:
                if size is None:
                    return backward(self.encoder, batch, loss, seed=seed, bf16=bf16)
                return cached_backward(self.encoder, batch, loss, seed=seed, bf16=bf16, chunk_size=size)
            except torch.OutOfMemoryError:
                if not self.chunks.can_shrink:
                    raise
            self.drop()
            size = self.chunks.shrink()

    def drop(self) -> None:
        """Drop all gradients."""
        self.encoder.zero_grad(set_to_none=True)

    def _probe(self, longest: Tokens, texts: int) -> None:
        """Pass `texts` copies of the longest text forward and back."""
        with seeded(self.encoder.device, 0), _autocast(self.encoder, self.bf16):
            vectors = self.encoder.embed(longest.take(np.zeros(texts, np.int64)), "passage")
        vectors.sum().backward()  # type: ignore[no-untyped-call]


def backward(encoder: BiEncoder, batch: Batch, loss: Loss, *, seed: int, bf16: bool) -> float:
    """Leave the gradient of the loss in the weights and return the loss; dropout follows from `seed`.

    Of several processes each embeds only its own texts; all get the whole loss and gradient.
    """
    divided = _divided(batch)
    queries, passages = (divided[side].tokens(texts) for side, texts in _texts(batch).items())
    with seeded(encoder.device, seed, *world().stream), _autocast(encoder, bf16):
        own = dict(zip(SIDES, embed_in_pieces(encoder, queries, passages), strict=True))
    vectors = {side: divided[side].gather(own[side]).requires_grad_() for side in SIDES}
    value = loss(vectors["query"], vectors["passage"])
    gradients = _derivatives(value, vectors)
    some = [side for side in SIDES if len(own[side])]  # a process may have no query of a small batch
    # the gradient of a sum of products is the other factor; backward, given one, loads sympy, which takes a second
    torch.autograd.backward([(own[side] * divided[side].part(gradients[side])).sum() for side in some])
    world().sum_gradients(encoder.parameters())
    return float(value.detach())


def cached_backward(encoder: BiEncoder, batch: Batch, loss: Loss, *, seed: int, bf16: bool, chunk_size: int) -> float:
    """Like `backward`, holding the activations of `chunk_size` texts at a time (Gao et al., RepL4NLP 2021).

    All vectors without a graph, then the loss and its gradient by them, then each chunk again with a graph and the same
    dropout, to carry that gradient into the weights.  By the chain rule the result is exact.
    """
    divided, texts = _divided(batch), _texts(batch)
    chunks = [(side, rows) for side in SIDES for rows in _by_length(texts[side], divided[side].own, chunk_size)]

    def embed(number: int) -> Tensor:
        side, rows = chunks[number]
        with seeded(encoder.device, seed, number, *world().stream), _autocast(encoder, bf16):
            return encoder.embed(texts[side].take(rows), side)

    vectors = {side: torch.zeros(len(texts[side]), encoder.dim, device=encoder.device) for side in SIDES}
    with torch.no_grad():
        for number, (side, rows) in enumerate(chunks):
            vectors[side][rows] = embed(number)
    vectors = {side: divided[side].gather(divided[side].part(vectors[side])).requires_grad_() for side in SIDES}
    value = loss(vectors["query"], vectors["passage"])
    gradients = _derivatives(value, vectors)
    for number, (side, rows) in enumerate(chunks):
        (embed(number) * gradients[side][rows]).sum().backward()  # type: ignore[no-untyped-call]
    world().sum_gradients(encoder.parameters())
    return float(value.detach())


def embed_in_pieces(encoder: BiEncoder, queries: Tokens, passages: Tokens) -> tuple[Tensor, Tensor]:
    """Like `BiEncoder.embed_both`; a transformer reads texts of similar length together: less padding, same vectors."""
    if not encoder.transformers:
        return encoder.embed_both(queries, passages)
    most = encoder.at_once or _TOKENS_AT_ONCE.get(encoder.device.type, DEFAULT_TOKENS)

    def embed(tokens: Tokens, side: Side) -> Tensor:
        groups = list(token_batches(tokens.lengths, most))
        vectors = [encoder.embed(tokens.take(rows), side) for rows in groups] or [encoder.embed(tokens, side)]
        order = np.concatenate([*groups, np.empty(0, np.int64)])
        return torch.cat(vectors)[torch.from_numpy(np.argsort(order)).to(encoder.device)]

    return embed(queries, "query"), embed(passages, "passage")


def _texts(batch: Batch) -> dict[Side, Tokens]:
    return {"query": batch.queries, "passage": batch.passages}


def _divided(batch: Batch) -> dict[Side, Division]:
    return {side: world().divide(texts.lengths) for side, texts in _texts(batch).items()}


def _derivatives(value: Tensor, vectors: Mapping[Side, Tensor]) -> dict[Side, Tensor]:
    """Return the gradient of the loss by each vector that it depends on."""
    value.backward()  # type: ignore[no-untyped-call]
    gradients = {side: vectors[side].grad for side in SIDES}
    return {side: found for side, found in gradients.items() if found is not None}


@contextmanager
def seeded(device: torch.device, *seed: int) -> Iterator[None]:
    """Seed torch's generators inside and restore them outside: dropout has no generator argument."""
    number = int(np.random.default_rng(seed).integers(2**63))
    gpus = [torch.cuda.current_device() if device.index is None else device.index] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=gpus):
        # not torch.manual_seed: without a GPU it queues calls with their stack traces for ever
        for generator in (torch.default_generator, *(torch.cuda.default_generators[gpu] for gpu in gpus)):
            generator.manual_seed(number)
        yield


def _autocast(encoder: BiEncoder, bf16: bool) -> AbstractContextManager[None]:
    return torch.autocast(encoder.device.type, torch.bfloat16, enabled=bf16)


def _by_length(tokens: Tokens, rows: Rows, chunk_size: int) -> list[Rows]:
    """Chunk texts of similar length together, which pads them little."""
    order = rows[np.argsort(-tokens.lengths[rows], kind="stable")]
    return [order[start : start + chunk_size] for start in range(0, len(order), chunk_size)]
