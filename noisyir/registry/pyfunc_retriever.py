"""The registered retriever's code, which MLflow stores with the weights; it needs no noisyir and unpickles nothing."""

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
