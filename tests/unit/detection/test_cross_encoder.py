"""The detector that reads pairs together; the cross-encoder itself is tested in tests/unit/models."""

import numpy as np

from noisyir.detection.by_model import score_together
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from noisyir.training.batches import NumberedPairs, Ragged
from tests.tiny_models import tiny_classifier


def test_a_score_is_minus_the_logit_and_equal_texts_are_read_once(tmp_path):
    """Queries 0 and 2 read alike; three pairs, each also with the passage of another."""
    texts = TextPairs(["w1", "w2 w3", "w1"], ["w4", "w5 w6 w7"])
    empty = Ragged(np.zeros(4, np.int64), np.zeros(0, np.int64))
    query, text = np.array([0, 1, 2]), np.array([0, 1, 0])
    own, other = np.array([0, 1, 0]), np.array([1, 0, 0])
    pairs = NumberedPairs(query, own, text, empty, empty)
    said = []
    judge = load_cross_encoder(tiny_classifier(tmp_path), 24, "cpu")
    scores = score_together(judge, pairs, texts, (own, other), 512, lambda *told: said.append(told))
    for score, passages in zip(scores, (own, other), strict=True):
        read = TextPairs([texts.queries[row] for row in query], [texts.documents[row] for row in passages])
        np.testing.assert_allclose(score, -judge.logits(read, 512, lambda _: None), atol=1e-5)
    assert scores[0][0] == scores[0][2]
    assert said == [(2, 5), (5, 5)]
