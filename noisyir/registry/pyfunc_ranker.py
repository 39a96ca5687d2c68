"""The registered ranker's code, which MLflow stores with the weights; it needs no noisyir and unpickles nothing."""

import json
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import BaseModel


class PairToRank(BaseModel):
    """A query, and a passage with its title before it."""

    query: str
    passage: str


class PyfuncRanker(PythonModel):
    """A cross-encoder; the higher the logit, the more relevant the passage."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read tokenizer, weights and how many tokens of a pair are read."""
        import torch
        from sentence_transformers import CrossEncoder

        folder = Path(context.artifacts["ranker"])
        self.model = CrossEncoder(
            str(folder), device="cpu", local_files_only=True, trust_remote_code=False,
            max_length=json.loads((folder / "ranker.json").read_text())["max_len"],
            model_kwargs={"dtype": torch.float32, "use_safetensors": True}, activation_fn=torch.nn.Identity(),
        )  # fmt: skip

    def predict(
        self, context: PythonModelContext, model_input: list[PairToRank], params: dict[str, Any] | None = None
    ) -> list[float]:
        """One logit a pair, in their order; pairs of like length are read together."""
        pairs = [(pair.query, pair.passage) for pair in model_input]
        scores: list[float] = self.model.predict(pairs, show_progress_bar=False).tolist()
        return scores


set_model(PyfuncRanker())
