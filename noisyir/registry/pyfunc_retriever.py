"""The registered model's code, stored by MLflow beside the weights: texts in, one vector a text out.

The model's folder has sentence-transformers' layout and that package reads it, so whoever loads the model from a
registry needs the pinned requirements alone and no noisyir.  Nothing is unpickled: the weights are safetensors.
"""

from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext


class Retriever(PythonModel):
    """A bi-encoder; the inner product of a query's vector and a passage's is their score."""

    def load_context(self, context: PythonModelContext) -> None:
        """Read tokenizer and weights."""
        from sentence_transformers import SentenceTransformer

        self.encoder = SentenceTransformer(context.artifacts["encoder"], local_files_only=True, trust_remote_code=False)

    def predict(
        self, context: PythonModelContext, model_input: list[str], params: dict[str, Any] | None = None
    ) -> list[list[float]]:
        """One vector a text, all of one length: of queries, or of passages with `params={"side": "passage"}`."""
        side = (params or {}).get("side", "query")
        if side not in ("query", "passage"):
            raise ValueError(f"side is query or passage, not {side!r}")
        encode = self.encoder.encode_query if side == "query" else self.encoder.encode_document
        vectors: list[list[float]] = encode(model_input, show_progress_bar=False).tolist()
        return vectors


set_model(Retriever())
