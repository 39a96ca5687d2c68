"""The registered ranker's code, which MLflow stores with the weights; it needs no noisyir and unpickles nothing."""

import json
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import BaseModel

_PAIRS_AT_ONCE = 32


class PairToRank(BaseModel):
    """A query, and a passage with its title before it."""

    query: str
    passage: str


class PyfuncRanker(PythonModel):
    """A cross-encoder; the higher the logit, the more relevant the passage."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read tokenizer, weights and how many tokens of a pair are read."""
        import torch
        from transformers import AutoModelForSequenceClassification, AutoTokenizer

        folder = Path(context.artifacts["ranker"])
        self.max_len = int(json.loads((folder / "ranker.json").read_text())["max_len"])
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        self.model = AutoModelForSequenceClassification.from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, local_files_only=True, trust_remote_code=False
        ).eval()

    def predict(
        self, context: PythonModelContext, model_input: list[PairToRank], params: dict[str, Any] | None = None
    ) -> list[float]:
        """One logit a pair, in their order; pairs of like length are read together."""
        import torch

        scores = [0.0] * len(model_input)
        order = sorted(range(len(model_input)), key=lambda row: -len(model_input[row].query + model_input[row].passage))
        for start in range(0, len(order), _PAIRS_AT_ONCE):
            rows = order[start : start + _PAIRS_AT_ONCE]
            inputs = self.tokenizer(
                [model_input[row].query for row in rows],
                [model_input[row].passage for row in rows],
                truncation="longest_first", max_length=self.max_len, padding=True, return_tensors="pt",
            )  # fmt: skip
            with torch.inference_mode():
                logits = self.model(**inputs).logits[:, 0].tolist()
            for row, logit in zip(rows, logits, strict=True):
                scores[row] = logit
        return scores


set_model(PyfuncRanker())
