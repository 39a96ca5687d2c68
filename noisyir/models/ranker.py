"""The ranker: a cross-encoder that is trained, from the weights of an encoder or of another cross-encoder."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.models.cross_encoder import load_cross_encoder, relevance
from noisyir.models.heads import OneTransformer, with_head
from noisyir.models.layout import checked_length, write_json
from noisyir.models.settings import InitRankerParams
from noisyir.models.soundness import opening
from noisyir.models.transformer_tower import read_tokenizer, save_transformer

_SETTINGS = "ranker.json"


class Ranker(OneTransformer):
    """A Hugging Face sequence classifier of one label, and its tokenizer.

    max_len: Tokens of query and document together, special ones included; the longer one is cut first.
    """

    at_once = 64  # pairs padded together: few enough for similar lengths, many enough to keep a GPU busy

    def __init__(self, model: Any, tokenizer: Any, tokenizer_files: Mapping[str, str], max_len: int) -> None:
        super().__init__(model, tokenizer_files)
        self.tokenizer, self.max_len = tokenizer, max_len

    def forward(self, queries: Sequence[str], documents: Sequence[str]) -> Float[Tensor, " pair"]:
        """Return how relevant document i is to query i, a float32 logit, differentiable.

        Pairs of similar length are padded together, all in one graph.
        """
        lengths = [len(query) + len(document) for query, document in zip(queries, documents, strict=True)]
        order = np.argsort(-np.array(lengths), kind="stable")
        parts = [
            self._logits([queries[row] for row in rows], [documents[row] for row in rows])
            for rows in np.split(order, range(self.at_once, len(order), self.at_once))
        ]
        self.lengths = np.concatenate([read for _, read in parts])
        return torch.cat([logits for logits, _ in parts])[torch.from_numpy(np.argsort(order)).to(self.device)]

    def _logits(
        self, queries: Sequence[str], documents: Sequence[str]
    ) -> tuple[Float[Tensor, " pair"], Int[np.ndarray, " pair"]]:
        inputs = self.tokenizer(
            queries, documents, truncation="longest_first", max_length=self.max_len, padding=True, return_tensors="pt"
        )
        lengths = inputs["attention_mask"].sum(dim=1).numpy()
        return relevance(self.model(**inputs.to(self.device)).logits).float(), lengths

    def save(self, folder: Path) -> None:
        """Write a folder for `load_ranker` and `load_cross_encoder`; equal weights give equal bytes."""
        save_transformer(folder, self.model, self.tokenizer_files)
        write_json(folder / _SETTINGS, {"max_len": self.max_len})


def load_ranker(folder: Path, device: str = "auto") -> Ranker:
    """Load a saved ranker in evaluation mode onto `device` (auto: a GPU if there is one)."""
    judge = load_cross_encoder(folder, ranker_max_len(folder), device)
    return Ranker(judge.model, judge.tokenizer, read_tokenizer(folder), judge.max_len).eval()


def ranker_max_len(folder: Path) -> int:
    """Return how many tokens of a pair a saved ranker reads.

    Raises:
        DataError: If the folder is no ranker.
    """
    with opening(folder, f"is not a ranker: {_SETTINGS}"):
        return checked_length(json.loads((folder / _SETTINGS).read_text()), "max_len")


def initial_ranker(folder: Path, params: InitRankerParams, seed: int) -> tuple[Ranker, list[str]]:
    """Build the ranker that `params` describe from the weights in `folder`, and name its new weights.

    A head is new, and random from `seed`, if the folder holds no classifier of one label.
    """
    made = with_head(
        folder, params, seed, kind="ranker", auto="AutoModelForSequenceClassification", refuse=_refuse, num_labels=1
    )
    return Ranker(made.model, made.tokenizer, made.tokenizer_files, params.max_len).eval(), made.new


def _refuse(source: Path, config: Any) -> None:
    classifies = any("SequenceClassification" in name for name in config.architectures or ())
    if classifies and config.num_labels != 1:
        raise DataError("models.ranker_of_many_labels", source=source, labels=config.num_labels)
