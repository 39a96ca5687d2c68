"""Scoring of pairs by trained models: cross-fitted, or with a cross-encoder."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int

from noisyir.base.errors import DataError
from noisyir.models.at_once import Auto
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.cross_encoder import CrossEncoder, TextPairs
from noisyir.training.batches import NumberedPairs, Ragged, Rows, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.learner import Contrastive
from noisyir.training.lists import Lists
from noisyir.training.run import TrainingContext
from noisyir.training.settings import TrainDprParams


@dataclass(frozen=True)
class Scorer:
    """A model and the pairs it scores."""

    encoder: BiEncoder
    chosen: Rows


def cross_fitted(
    start: BiEncoder, pairs: TrainingPairs, folds: int, params: TrainDprParams, context: TrainingContext
) -> Iterator[Scorer]:
    """For each fold in turn, train a copy of `start` on all other folds.

    Queries with identical text share a fold, so no model is trained on a query that it scores.
    """
    import copy

    texts = int(pairs.text.max(initial=-1)) + 1
    if texts < folds:
        raise DataError("detection.score_pairs_folds_needs", folds=folds, texts=texts)
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


def lists_of(pairs: NumberedPairs, texts: TextPairs, others: Int[np.ndarray, "pair k"], chosen: Rows) -> Lists:
    """Build training lists for a ranker from the pairs `chosen`.

    Args:
        others: Negatives of each pair; -1 means none.
    """
    asked, place = np.unique(pairs.query[chosen], return_inverse=True)
    row, column = np.nonzero(others[chosen] >= 0)
    negatives = np.unique(np.stack([place[row], others[chosen][row, column]], axis=1), axis=0)
    nothing = np.zeros(0, np.int64)
    return Lists(
        pa.array([texts.queries[query] for query in asked], pa.large_string()),
        pa.array(texts.documents, pa.large_string()),
        Ragged.grouped(place, pairs.passage[chosen], len(asked)),
        Ragged.grouped(negatives[:, 0], negatives[:, 1], len(asked)),
        pairs.text[asked],
        pairs.known,
        Ragged.grouped(nothing, nothing, len(asked)),
    )


def score_together(
    judge: CrossEncoder,
    pairs: NumberedPairs,
    texts: TextPairs,
    tried: Sequence[Rows],
    batch_tokens: int | Auto | None,
    progress: Callable[[int, int], None],
) -> list[Float[np.ndarray, " pair"]]:
    """Score pairs jointly: minus the logit of each pair's query with each passage in `tried`.

    Equal texts are read once, so their scores are bitwise identical.

    Args:
        tried: Arrays that hold one passage per pair.
        progress: Called with the number read so far and the total.
    """
    of_text = np.unique(pairs.text, return_index=True)[1]  # one query per text number
    size = len(texts.documents)
    distinct = [np.unique(pairs.text[pairs.query] * size + passages, return_inverse=True) for passages in tried]
    done, total = 0, sum(len(keys) for keys, _ in distinct)

    def finished(count: int) -> None:
        nonlocal done
        done += count
        progress(done, total)

    scores = []
    for keys, place in distinct:
        text, passage = np.divmod(keys, size)
        read = TextPairs([texts.queries[row] for row in of_text[text]], [texts.documents[row] for row in passage])
        scores.append(-judge.logits(read, batch_tokens, finished)[place])
    return scores
