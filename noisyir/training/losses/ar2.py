"""The losses of AR2, the adversarial retriever and ranker (Zhang et al., ICLR 2022, Eq. 5 to 14).

Column 0 of a query's list is the positive, then come negatives.  Variant "code", the official code, departs from Eq. 9
in four ways (docs/understand/ar2.md).
"""

from typing import Literal, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

Variant = Literal["paper", "code"]
_EPS = 1e-7  # which the code adds to a probability before the logarithm


class RetrieverLoss(NamedTuple):
    """The retriever's loss and its two unweighted parts without gradient; scalars."""

    total: Float[Tensor, ""]
    adversarial: Float[Tensor, ""]
    distillation: Float[Tensor, ""]


def ranker_loss(ranker: Float[Tensor, "query passage"]) -> Float[Tensor, " query"]:
    """-log p_phi(d | q; D_q), in nats, of the ranker's scores times tau (Eq. 5 to 7, negated)."""
    return -ranker.float().log_softmax(dim=1)[:, 0]


def rewards(ranker: Float[Tensor, "query passage"]) -> Float[Tensor, "query negative"]:
    """Log p_phi(d | q; {d, d_i}) of each negative d_i, at most 0; near 0 if it is easy for the ranker.

    Each is an upper bound of Eq. 8's log p_phi(d | q; D_q), as fewer passages compete; so is every mean of them.
    """
    ranker = ranker.float()
    return functional.logsigmoid(ranker[:, :1] - ranker[:, 1:])


def adversarial(
    retriever: Float[Tensor, "query passage"], ranker: Float[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """Expected reward of a negative that the retriever draws (Eq. 9), without gradient to the ranker.

    The retriever's distribution is its softmax over the negatives alone; the gradient is Eq. 10.
    """
    chances = retriever[:, 1:].float().softmax(dim=1)
    return (chances * rewards(ranker).detach()).sum(dim=1)


def distillation(
    retriever: Float[Tensor, "query passage"], ranker: Float[Tensor, "query passage"]
) -> Float[Tensor, " query"]:
    """H(p_phi, p_theta) over the whole list, in nats (Eq. 12), without gradient to the ranker.

    It is KL(p_phi || p_theta) plus the entropy of p_phi, a constant for the retriever.
    """
    return -(ranker.detach().float().softmax(dim=1) * retriever.float().log_softmax(dim=1)).sum(dim=1)


def retriever_loss(
    retriever: Float[Tensor, "query passage"],
    ranker: Float[Tensor, "query passage"],
    *,
    adv_lambda: float,
    variant: Variant = "paper",
    is_clean: Bool[Tensor, " query"] | None = None,
) -> RetrieverLoss:
    """adv_lambda * adversarial + (1 - adv_lambda) * distillation of a batch of lists with scaled scores.

    The adversarial part is a mean over queries in "paper", a sum in "code"; it is 0 for lists that are not `is_clean`,
    because rewards are measured against their positive.
    """
    if variant == "paper":
        game, distil = adversarial(retriever, ranker), distillation(retriever, ranker)
    else:
        game, distil = _as_in_code(retriever, ranker)
    if is_clean is not None:
        game = torch.where(is_clean, game, 0.0)
    parts = game.mean() if variant == "paper" else game.sum(), distil.mean()
    total = adv_lambda * parts[0] + (1.0 - adv_lambda) * parts[1]
    return RetrieverLoss(total, *(part.detach() for part in parts))


def _as_in_code(
    retriever: Float[Tensor, "query passage"], ranker: Float[Tensor, "query passage"]
) -> tuple[Float[Tensor, " query"], Float[Tensor, " query"]]:
    """Both parts; rewards times log p_theta, not p_theta, over the whole list: the positive's own reward is log 1/2."""
    ranker, chance = ranker.detach().float(), _log(retriever.float().softmax(dim=1))
    reward = _log(torch.sigmoid(ranker[:, :1] - ranker))
    return (reward * chance).sum(dim=1), -(ranker.softmax(dim=1) * chance).sum(dim=1)


def _log(probability: Float[Tensor, "*any"]) -> Float[Tensor, "*any"]:
    return torch.log(probability + _EPS)
