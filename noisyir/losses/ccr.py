"""The contrastive confidence regulariser (Wang et al., AAAI 2024, Eq. 6 to 8).

The loss is Eq. 8's NCE - beta * CCR; section 5 of the paper once prints a plus, its code and Algorithm 1 subtract.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def ccr(log_probs: Float[Tensor, "query passage"], ignored: Bool[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """The mean of -log f(p, q) over all passages p of each query's pool, its positive included, in nats (Eq. 6 and 8).

    log_probs: as `masked_log_probs` gives them, -inf where ignored; what is ignored counts neither in the sum nor in
    the number.  Summed in float32.
    """
    counted = log_probs.float().masked_fill(ignored, 0.0)  # a -inf left in would make the mean -inf
    return -counted.sum(dim=1) / (~ignored).sum(dim=1)


def robust_loss(
    nce: Float[Tensor, "*query"], regulariser: Float[Tensor, "*query"], beta: float
) -> Float[Tensor, "*query"]:
    """NCE - beta * CCR (Eq. 8), of each query or of the means over queries."""
    return torch.sub(nce, regulariser, alpha=beta)
