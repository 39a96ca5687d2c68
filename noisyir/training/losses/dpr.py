"""The loss of dense passage retrieval (Karpukhin et al., EMNLP 2020, Eq. 2): one right passage among a batch's.

Scores are scaled similarities.  Columns are all passages of the batch; `ignored` marks, in a query's row, passages
that are known to be right but are not the pair at hand: they count neither for nor against the query.

The contrastive confidence regulariser (Wang et al., AAAI 2024, Eq. 6 to 8).

The loss is Eq. 8's NCE - beta * CCR; section 5 of the paper once prints a plus, its code and Algorithm 1 subtract.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional


def masked_log_probs(
    scores: Float[Tensor, "query passage"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, "query passage"]:
    """Log-softmax over each query's passages that are not ignored, in float32; -inf at the ignored ones."""
    return scores.float().masked_fill(ignored, float("-inf")).log_softmax(dim=1)


def pair_nll(
    scores: Float[Tensor, "query passage"], positive: Int[Tensor, " query"], ignored: Bool[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """-log p(positive | query) of every pair, in nats.

    positive: the column of each query's own passage, which must not be ignored.
    """
    log_probs = masked_log_probs(scores, ignored)
    return -log_probs.gather(1, positive.unsqueeze(1)).squeeze(1)


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


def pointwise_loss(ranker: Float[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """The mean binary cross-entropy of each list, in nats: 1 in column 0, 0 in the others.

    ranker: log odds.  At the minimum sigmoid(score) is the share of relevant passages among those that score alike in
    the lists, so that it can be held against a bound; of a loss that compares a list's passages only differences mean
    something.
    """
    ranker = ranker.float()
    right, wrong = functional.softplus(-ranker[:, 0]), functional.softplus(ranker[:, 1:])
    return (right + wrong.sum(dim=1)) / ranker.shape[1]
