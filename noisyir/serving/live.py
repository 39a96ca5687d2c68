"""A served model: queues that batch the texts of many clients, and checks that reject requests beforehand."""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy.special import expit

from noisyir.models.text_tokenizer import Side
from noisyir.serving.batching import Batcher
from noisyir.serving.index import Embedded, Ranking
from noisyir.serving.loading import ServedModel
from noisyir.serving.options import ServeOptions
from noisyir.serving.protocols import RefusedError
from noisyir.serving.traffic import Metrics

_STATIC_AT_ONCE, _TRANSFORMER_AT_ONCE, _QUERIES_AT_ONCE = 256, 32, 64


class LiveModel:
    """A model and its request queues."""

    def __init__(self, model: ServedModel, options: ServeOptions, metrics: Metrics) -> None:
        self.model, self.options = model, options
        wait = options.wait_ms / 1000
        self.at_once = _TRANSFORMER_AT_ONCE if model.model.transformers else _STATIC_AT_ONCE

        def queue(name: str, compute: Any, most: int) -> Batcher[Any, Any]:
            def tell(size: int) -> None:
                metrics.batch(name, size)

            return Batcher(compute, most=most, wait=wait, longest=options.waiting, tell=tell)

        self._embed = queue("embed", model.embed, self.at_once)
        self._rank = queue("rerank", model.relevance, self.at_once) if model.ranker else None
        self._search: dict[str, Batcher[Any, Ranking]] = {
            name: queue(name, partial(model.search, name), _QUERIES_AT_ONCE)
            for name in (model.index.systems if model.index else [])
        }

    async def embed(self, texts: Sequence[str], side: Side | None) -> Embedded:
        """Return the vectors of texts; without a side, as passages."""
        self.check_count(texts)
        whole, side = [], side or "passage"
        for start in range(0, len(texts), self.at_once):  # sequential, so other requests can interleave
            some = texts[start : start + self.at_once]
            whole.append(await self._embed((some, side), len(some)))
            if (tokens := sum(found.tokens for found in whole)) > self.options.tokens:
                raise RefusedError(f"more than {self.options.tokens:,} tokens in one request", 413)
        return whole[0] if len(whole) == 1 else Embedded(np.concatenate([found.vectors for found in whole]), tokens)

    async def relevance(self, query: str, texts: Sequence[str], *, raw: bool = False) -> list[float]:
        """Score the relevance of each text.

        With a ranker this is a probability or, if `raw` is set, its logit; otherwise the similarity.
        """
        self.check_count(texts)
        if self._rank is None:
            asked, passages = await asyncio.gather(self.embed([query], "query"), self.embed(texts, "passage"))
            similar: list[float] = (passages.vectors @ asked.vectors[0]).tolist()
            return similar
        logits: list[float] = []
        for start in range(0, len(texts), self.at_once):
            some = texts[start : start + self.at_once]
            logits += await self._rank((query, some), len(some))
        likely: list[float] = expit(np.array(logits)).tolist()
        return logits if raw else likely

    async def search(self, query: str, system: str, k: int) -> Ranking:
        """Return the k best documents."""
        return await self._search[system]((query, k))

    def check_count(self, texts: Sequence[str]) -> None:
        """Check the number of texts.

        Raises:
            RefusedError: If there are none, or more than one request allows.
        """
        if not texts:
            raise RefusedError("there is no text in it")
        if len(texts) > self.options.items:
            raise RefusedError(f"{len(texts):,} texts in one request: at most {self.options.items:,} are taken", 413)
