"""Models that did not see the pairs that they score: each is trained without one fold of the pairs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from noisyir.errors import DataError
from noisyir.models.bi_encoder import BiEncoder
from noisyir.training.batches import Rows, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.objective import Contrastive
from noisyir.training.run import TrainingContext
from noisyir.training.settings import TrainDprParams


@dataclass(frozen=True)
class Scorer:
    """A model, and the pairs that it is to score."""

    encoder: BiEncoder
    chosen: Rows


def cross_fitted(
    start: BiEncoder, pairs: TrainingPairs, folds: int, params: TrainDprParams, context: TrainingContext
) -> Iterator[Scorer]:
    """Train a copy of `start` on all folds but one, for each fold in turn.

    Queries that read the same are in one fold, so that no model has met a query that it scores.
    """
    import copy

    texts = int(pairs.text.max(initial=-1)) + 1
    if texts < folds:
        raise DataError(
            f"score_pairs.folds={folds} needs as many different training queries; there are {texts}: give a trained "
            "model (--model of noisyir audit), or set folds: 0 of the detectors"
        )
    fold = np.arange(texts) % folds
    fold_of_pair = context.rng("folds").permutation(fold)[pairs.text[pairs.query]]
    for number in range(folds):
        rows = np.flatnonzero(fold_of_pair != number)
        rest = replace(pairs, query=pairs.query[rows], passage=pairs.passage[rows])
        work = context.work / f"fold{number}"
        work.mkdir(parents=True, exist_ok=True)
        encoder = copy.deepcopy(start)
        train(encoder, rest, None, params, Contrastive(), replace(context, work=work))
        yield Scorer(encoder, np.flatnonzero(fold_of_pair == number))
        del encoder  # before its successor is trained
