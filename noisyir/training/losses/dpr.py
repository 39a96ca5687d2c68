"""The loss of dense passage retrieval (Karpukhin et al., EMNLP 2020, Eq. 2), and its regulariser.

Scores are scaled similarities, columns all passages of a batch; `ignored` marks known positives of other pairs, which
do not count.  The contrastive confidence regulariser (Wang et al., AAAI 2024, Eq. 6 to 8) makes the loss NCE - beta *
CCR; section 5 of the paper once prints a plus, its code and Algorithm 1 subtract.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


def masked_log_probs(
    scores: Float[Tensor, "query passage"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, "query passage"]:
    """Log-softmax over each query's passages in float32; -inf at the ignored ones."""
    return scores.float().masked_fill(ignored, float("-inf")).log_softmax(dim=1)


def pair_nll(
    scores: Float[Tensor, "query passage"], positive: Int[Tensor, " query"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """-log p(positive | query) of every pair, in nats; the positive column must not be ignored."""
    log_probs = masked_log_probs(scores, ignored)
    return -log_probs.gather(1, positive.unsqueeze(1)).squeeze(1)


def ccr(log_probs: Float[Tensor, "query passage"], ignored: Bool[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """Mean of -log f(p, q) over each query's pool, its positive included, in nats (Eq. 6 and 8).

    `log_probs` are from `masked_log_probs`; ignored passages count neither in the sum nor in the number.
    """
    counted = log_probs.float().masked_fill(ignored, 0.0)  # a -inf left in would make the mean -inf
    return -counted.sum(dim=1) / (~ignored).sum(dim=1)


def robust_loss(
    nce: Float[Tensor, "*query"], regulariser: Float[Tensor, "*query"], beta: float
) -> Float[Tensor, "*query"]:
    """NCE - beta * CCR (Eq. 8), of each query or of the means over queries."""
    return torch.sub(nce, regulariser, alpha=beta)


def pointwise_loss(ranker: Float[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """Mean binary cross-entropy of each list's log odds, in nats: 1 in column 0, 0 in the others.

    At the minimum, sigmoid(score) is the share of relevant passages among equally scored ones, so it can be compared
    with a bound; under a listwise loss only score differences mean something.
    """
    ranker = ranker.float()
    right, wrong = functional.softplus(-ranker[:, 0]), functional.softplus(ranker[:, 1:])
    return (right + wrong.sum(dim=1)) / ranker.shape[1]
