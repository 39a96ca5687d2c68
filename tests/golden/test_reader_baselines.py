"""What contrastive distant supervision is compared with: Hard-EM's loss and DS-Top's choice, in numbers."""

from math import exp, log

import pytest
import torch

from noisyir.readers.answer_spans import ngrams, overlap, top_spans
from noisyir.readers.cds import span_set_loss

LOSSES, GROUP = [1.0, 0.5, 3.0, 2.0], [1, 0, 1, 1]


@pytest.mark.parametrize("hard", [True, False])
def test_hard_em_takes_the_least_loss_or_the_marginal_likelihood_of_a_passages_spans(hard):
    losses = torch.tensor(LOSSES, requires_grad=True)
    found = span_set_loss(losses, torch.tensor(GROUP), 2, hard=hard)
    by_hand = [[loss for loss, one in zip(LOSSES, GROUP, strict=True) if one == group] for group in range(2)]
    expected = [min(of) if hard else -log(sum(exp(-loss) for loss in of)) for of in by_hand]
    assert found.tolist() == pytest.approx(expected, rel=1e-6)
    found.sum().backward()
    likely = [exp(-loss) / sum(exp(-other) for other in by_hand[1]) for loss in by_hand[1]]
    parts = [1.0, 0.0, 0.0] if hard else likely
    assert losses.grad.tolist() == pytest.approx([parts[0], 1.0, *parts[1:]], rel=1e-6)


def test_n_grams_leave_out_stop_words_and_punctuation():
    assert ngrams("When was the iPhone 14 released?") == {
        ("iphone",), ("14",), ("released",), ("iphone", "14"), ("14", "released"),
    }  # fmt: skip


def test_the_overlap_counts_what_question_and_surroundings_share():
    text = f"iPhone {'far ' * 25}Apple released the iPhone 14 in 2022. {'far ' * 25}14 released"
    start = text.index("2022")
    question = "When was the iPhone 14 released by Apple?"
    assert overlap(question, text, start, start + 4) == len({"iphone", "14", "released", "apple", "iphone 14"})
    assert overlap("What is it?", text, start, start + 4) == 0


def test_ds_top_keeps_the_first_best_span_of_each_of_the_best_passages():
    overlaps = [1, 3, 3, 2, 0, 9, 9, 2, 4]
    passages = ["a", "a", "a", "b", "c", "short", "long", "d", "e"]
    lengths = [100, 100, 100, 25, 100, 24, 1501, 1500, 100]
    assert top_spans(overlaps, passages, lengths, 3).nonzero()[0].tolist() == [1, 3, 8]
    assert top_spans(overlaps, passages, lengths, 9).nonzero()[0].tolist() == [1, 3, 7, 8]
    assert not top_spans([0], ["a"], [100], 3).any()
