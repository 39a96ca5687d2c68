"""The loss of RocketQA's cross-encoder (Qu et al., NAACL 2021): is this passage relevant, yes or no."""

from jaxtyping import Float
from torch import Tensor
from torch.nn import functional


def pointwise_loss(ranker: Float[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """The mean binary cross-entropy of each list, in nats: 1 in column 0, 0 in the others.

    ranker: log odds.  At the minimum sigmoid(score) is the share of relevant passages among those that score alike in
    the lists, so that it can be held against a bound; of a loss that compares a list's passages only differences mean
    something.
    """
    ranker = ranker.float()
    right, wrong = functional.softplus(-ranker[:, 0]), functional.softplus(ranker[:, 1:])
    return (right + wrong.sum(dim=1)) / ranker.shape[1]
