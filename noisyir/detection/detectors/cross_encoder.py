"""Relevance according to a cross-encoder."""

from typing import ClassVar

import numpy as np

from noisyir.detection.combine import Scores
from noisyir.detection.detectors import Detector, PairsToScore
from noisyir.models.settings import ClassifierWeights, PairTokens

_SETTING = "detectors.NAME.weights"


class CrossEncoderDetector(Detector, kind="cross_encoder"):
    """Minus the logit of a sequence classifier that reads query and document together."""

    draws: ClassVar[int] = 1

    weights: ClassifierWeights = None
    max_len: PairTokens = 256

    def score(self, given: PairsToScore) -> Scores:
        """Read every pair, and every query with its wrong documents."""
        from noisyir.detection.by_model import score_together
        from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
        from noisyir.models.weights import locate_classifier

        judge = load_cross_encoder(locate_classifier(self.weights, _SETTING), self.max_len, given.runtime.device)
        texts = TextPairs(given.query_texts, given.read_documents())
        own = given.pairs.passage
        tried = (own, *given.wrong.tried(own).T)

        def progress(done: int, total: int) -> None:
            given.progress(done, total, "texts")

        observed, *made_up = score_together(judge, given.pairs, texts, tried, given.runtime.batch_tokens, progress)
        return Scores(observed, given.wrong.by_null(np.column_stack(made_up)))

    def weights_digest(self) -> str | None:
        """Digest of the classifier's weights."""
        from noisyir.models.weights import classifier_digest

        return classifier_digest(self.weights, _SETTING)
