"""A cross-encoder: a sequence classifier that reads query and document together.

Source: Nogueira and Cho, 2019, arXiv:1901.04085.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.models.at_once import Auto, inference_tokens
from noisyir.models.bi_encoder import choose_device
from noisyir.models.soundness import opening, refuse_broken, refuse_missing
from noisyir.models.text_tokenizer import Rows, token_batches
from noisyir.models.transformer_tower import load_with_head, quietly

_TEXTS_AT_ONCE = 8192  # bounds the token ids that are Python objects at once


@dataclass(frozen=True)
class TextPairs:
    """Texts to read: queries, and documents with their titles."""

    queries: Sequence[str]
    documents: Sequence[str]

    def __getitem__(self, some: slice) -> "TextPairs":
        return TextPairs(self.queries[some], self.documents[some])


@dataclass(frozen=True)
class CrossEncoder:
    """A Hugging Face sequence classifier and its tokenizer.

    max_len: Tokens of query and document together, special ones included; the longer one is cut first.
    """

    model: Any
    tokenizer: Any
    max_len: int

    @torch.inference_mode()
    def logits(
        self, texts: TextPairs, batch_tokens: int | Auto | None, progress: Callable[[int], None] | None = None
    ) -> Float[np.ndarray, " pair"]:
        """Return each document's `relevance` to its query; the longest pairs are read first.

        `batch_tokens` are one batch's, padding included (auto: what fits into a GPU); `progress` gets each batch's
        size.

        Raises:
            DataError: If a logit is not finite.
        """
        found = np.empty(len(texts.queries), np.float32)
        tokens = inference_tokens(batch_tokens, self.model.device, self.max_len, self._read)
        for rows in token_batches(self._lengths(texts), tokens):
            inputs = self._tokens(texts, rows, padding=True, return_tensors="pt").to(self.model.device)
            found[rows] = relevance(self.model(**inputs).logits).float().cpu().numpy()
            if progress:
                progress(len(rows))
        if bad := int((~np.isfinite(found)).sum()):
            raise DataError("models.logits_not_finite", bad=bad, pairs=len(found))
        return found

    def _read(self, count: int) -> None:
        """Pass `count` pairs of the greatest length through the classifier."""
        self.model(input_ids=torch.zeros(count, self.max_len, dtype=torch.long, device=self.model.device))

    def _lengths(self, texts: TextPairs) -> Int[np.ndarray, " pair"]:
        """Count the tokens of each pair; the ids are not kept, because they are cheap to compute again."""
        lengths = [np.empty(0, np.int64)]
        for start in range(0, len(texts.queries), _TEXTS_AT_ONCE):
            rows = np.arange(start, min(start + _TEXTS_AT_ONCE, len(texts.queries)))
            lengths.append(np.array([len(ids) for ids in self._tokens(texts, rows)["input_ids"]]))
        return np.concatenate(lengths)

    def _tokens(self, texts: TextPairs, rows: Rows, **how: Any) -> Any:
        queries, documents = [texts.queries[row] for row in rows], [texts.documents[row] for row in rows]
        return self.tokenizer(queries, documents, truncation="longest_first", max_length=self.max_len, **how)


def relevance(logits: Float[Tensor, "pair label"]) -> Float[Tensor, " pair"]:
    """Return the logit of the one label; of two, label 1's minus label 0's: log odds in nats."""
    return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]


def load_cross_encoder(folder: Path, max_len: int, device: str = "auto") -> CrossEncoder:
    """Load a saved sequence classifier, float32, in evaluation mode, onto `device` (auto: a GPU if there is one).

    Weights are read from safetensors alone, and the folder's code is not run.

    Raises:
        DataError: If it is no classifier of one or two labels with a fast tokenizer and `max_len` tokens.
    """
    from transformers import AutoTokenizer

    device = choose_device(device)
    if not (folder / "tokenizer.json").exists():  # transformers would convert other files, or need a package
        raise DataError("models.no_tokenizer", folder=folder)
    with opening(folder, "is not a sequence classifier"):
        with quietly():
            tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        model, missing = load_with_head("AutoModelForSequenceClassification", folder)
        refuse_missing(folder, "is not a sequence classifier", missing)
        words = (folder / "tokenizer.json").read_text(encoding="utf-8")
        refuse_broken(folder, model, len(model.get_input_embeddings().weight), words)
    _refuse_unfit(folder, model.config, tokenizer, max_len)
    return CrossEncoder(model.to(device).eval(), tokenizer, max_len)


def _refuse_unfit(folder: Path, config: Any, tokenizer: Any, max_len: int) -> None:
    if config.num_labels > 2:
        raise DataError("models.too_many_labels", folder=folder, labels=config.num_labels)
    if tokenizer.pad_token is None:
        raise DataError("models.no_padding_token", folder=folder)
    limit = min(tokenizer.model_max_length, getattr(config, "max_position_embeddings", max_len))
    if max_len > limit:
        raise DataError("models.reads_too_little", folder=folder, limit=limit, setting="max_len", wanted=max_len)
