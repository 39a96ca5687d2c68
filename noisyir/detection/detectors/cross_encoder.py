"""How relevant a cross-encoder finds the document."""

from collections.abc import Callable, Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from noisyir.detection.combine import Scores
from noisyir.detection.detectors import Detector, PairsToScore
from noisyir.models.at_once import Auto
from noisyir.models.cross_encoder import CrossEncoder, Texts
from noisyir.settings import Location
from noisyir.training.batches import Rows, TrainingPairs

_SETTING = "detectors.NAME.weights"


class CrossEncoderDetector(Detector):
    """Minus the logit of a sequence classifier that reads query and document together."""

    kind: Literal["cross_encoder"] = "cross_encoder"
    draws: ClassVar[int] = 1

    weights: Location = Field(
        None, description="folder or Hugging Face name of a sequence classifier of one label or two"
    )
    max_len: Annotated[int, Field(ge=8)] = Field(256, description="tokens of query and document together that are read")

    def score(self, given: PairsToScore) -> Scores:
        """Read every pair, and every query with its wrong documents."""
        from noisyir.models.cross_encoder import Texts, load_cross_encoder
        from noisyir.models.weights import locate_classifier

        judge = load_cross_encoder(locate_classifier(self.weights, _SETTING), self.max_len, given.runtime.device)
        texts = Texts(given.query_texts, given.read_documents())
        own = given.pairs.passage
        tried = (own, *given.wrong.tried(own).T)

        def progress(done: int, total: int) -> None:
            given.progress(done, total, "texts")

        observed, *made_up = score_together(judge, given.pairs, texts, tried, given.runtime.batch_tokens, progress)
        return Scores(observed, given.wrong.by_null(np.column_stack(made_up)))

    def weights_digest(self) -> str | None:
        """Of the classifier."""
        from noisyir.models.weights import classifier_digest

        return classifier_digest(self.weights, _SETTING)


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
