"""The static backbone: a text's vector is the mean of its tokens' vectors."""

from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from noisyir.models.text_tokenizer import Tokens


class StaticTower(nn.Module):
    """A token-embedding bag: sentence-transformers' StaticEmbedding.

    The gradient of `weight` is sparse, with only the rows of the batch's tokens, each once.
    """

    def __init__(self, weight: Float[Tensor, "token dim"], tokenizer_json: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(weight)
        self.tokenizer_json = tokenizer_json

    @property
    def dim(self) -> int:
        """Length of a vector."""
        return self.weight.shape[1]

    def forward(self, tokens: Tokens) -> Float[Tensor, "text dim"]:
        """Return the mean token vector of every text; zero for a text without tokens."""
        mean: Float[Tensor, "text dim"] = _BagMean.apply(self.weight, tokens)  # type: ignore[no-untyped-call]
        return mean

    def save(self, folder: Path, tokenizer_json: str) -> None:
        """Write StaticEmbedding's two files; sentence-transformers truncates as `tokenizer_json` says."""
        from safetensors.torch import save_file

        folder.mkdir(parents=True, exist_ok=True)
        save_file({"embedding.weight": self.weight.detach().cpu().contiguous()}, folder / "model.safetensors")
        (folder / "tokenizer.json").write_text(tokenizer_json, encoding="utf-8")


def load_static(folder: Path) -> StaticTower:
    """Load a StaticEmbedding of sentence-transformers or model2vec; raises KeyError, OSError or ValueError."""
    from safetensors.torch import load_file

    tensors = load_file(folder / "model.safetensors")
    weight = tensors["embedding.weight" if "embedding.weight" in tensors else "embeddings"]
    if weight.ndim != 2 or not weight.is_floating_point():
        raise ValueError(
            f"its embeddings are {weight.dtype} of shape {tuple(weight.shape)}: they must be a real matrix"
        )
    return StaticTower(weight.float(), (folder / "tokenizer.json").read_text(encoding="utf-8"))


class _BagMean(torch.autograd.Function):
    """bags = S W with the sparse (text, token) matrix S of shares; so dW = S' dbags, nonzero in S's columns only.

    Both products are weighted sums of rows by torch's embedding_bag, which was faster than CSR products of scipy or
    torch (docs/reference/training.md), and needs neither a dense (token, dim) gradient nor coalescing.
    """

    @staticmethod
    def forward(ctx: "torch.autograd.function.FunctionCtx", weight: Tensor, tokens: Tokens) -> Tensor:
        assert tokens.shares is not None, "a static tower reads tokens with shares"
        ctx.tokens = tokens  # type: ignore[attr-defined]
        ctx.size = weight.shape  # type: ignore[attr-defined]
        return _sum_rows(weight, tokens.ids, tokens.offsets[:-1], tokens.shares)

    @staticmethod
    def backward(ctx: "torch.autograd.function.FunctionCtx", gradient: Tensor) -> tuple[Tensor, None]:
        ids, starts, texts, shares = _transposed(ctx.tokens)  # type: ignore[attr-defined]
        values = _sum_rows(gradient.contiguous(), texts, starts, shares)
        rows = torch.from_numpy(ids)[None].to(gradient.device)
        size = ctx.size  # type: ignore[attr-defined]
        return torch.sparse_coo_tensor(rows, values, size, is_coalesced=True, check_invariants=False), None


def _sum_rows(matrix: Tensor, rows: np.ndarray, starts: np.ndarray, shares: np.ndarray) -> Tensor:
    """Return in row i the sum over j in starts[i]..starts[i + 1] of shares[j] * matrix[rows[j]]."""
    device = matrix.device
    index, begin = torch.from_numpy(rows).to(device), torch.from_numpy(starts.astype(rows.dtype)).to(device)
    weights = torch.from_numpy(shares).to(device, matrix.dtype)
    return functional.embedding_bag(index, matrix, begin, mode="sum", per_sample_weights=weights)


def _transposed(tokens: Tokens) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the distinct ids, ascending (int64), and for each the texts that hold it: (ids, starts, texts, shares)."""
    from scipy.sparse import csr_array

    width = int(tokens.ids.max(initial=0)) + 1
    by_text = csr_array((tokens.shares, tokens.ids, tokens.offsets), shape=(len(tokens), width))
    by_token = by_text.tocsc()
    ids = np.flatnonzero(np.diff(by_token.indptr))
    return ids, by_token.indptr[ids], by_token.indices.astype(np.int32), by_token.data
