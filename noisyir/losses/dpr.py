"""The loss of dense passage retrieval (Karpukhin et al., EMNLP 2020, Eq. 2): one right passage among a batch's.

Scores are scaled similarities.  Columns are all passages of the batch; `ignored` marks, in a query's row, passages
that are known to be right but are not the pair at hand: they count neither for nor against the query.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor


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
