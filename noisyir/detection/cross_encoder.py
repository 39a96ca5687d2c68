"""A cross-encoder as detector: how relevant it finds the document of each pair, and synthetic ones."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from noisyir.models.at_once import Auto
from noisyir.models.cross_encoder import CrossEncoder, Texts
from noisyir.training.batches import Rows, TrainingPairs


def score_together(
    judge: CrossEncoder,
    pairs: TrainingPairs,
    texts: Texts,
    tried: Sequence[Rows],
    batch_tokens: int | Auto | None,
    progress: Callable[[int, int], None],
) -> list[Float[np.ndarray, " pair"]]:
    """For each array of `tried`, a passage for each pair: minus the logits of the pairs' queries with these.

    Equal texts are read once, so that they score alike to the bit.  `progress` is told how many of how many are read.
    """
    of_text = np.unique(pairs.text, return_index=True)[1]  # a query for each number of a text
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
        read = Texts([texts.queries[row] for row in of_text[text]], [texts.documents[row] for row in passage])
        scores.append(-judge.logits(read, batch_tokens, finished)[place])
    return scores
