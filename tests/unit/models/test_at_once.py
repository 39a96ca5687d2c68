"""How much passes through a model at once: the arithmetic, and what is done where memory runs out."""

import pytest
import torch

from noisyir.models.at_once import DEFAULT_TOKENS, AtOnce, inference_tokens, units_that_fit
from tests.tiny_models import tiny_bert, tiny_encoder

GIB = 2**30


def test_what_fits_is_in_proportion_with_a_margin():
    assert units_that_fit(free=40 * GIB, spent=2 * GIB, units=8, most=10**6) == int(0.8 * 40 / 2 * 8) == 128
    assert units_that_fit(free=40 * GIB, spent=2 * GIB, units=8, most=100) == 100
    assert units_that_fit(free=GIB, spent=20 * GIB, units=8, most=100) == 1, "one is tried whatever was measured"
    assert units_that_fit(free=-GIB, spent=GIB, units=8, most=100) == 1
    assert units_that_fit(free=GIB, spent=0, units=8, most=100) == 100


class Memory:
    """A step that needs more memory than there is when it takes more than `room` at once."""

    def __init__(self, room):
        self.room, self.tried = room, []

    def step(self, size):
        self.tried.append(size)
        if (size or 64) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return "done"


def taken(memory, at_once):
    """A step as learners take it: again with fewer, where there is too little memory and it may be."""
    while True:
        try:
            return memory.step(at_once.size)
        except torch.OutOfMemoryError:
            if not at_once.can_shrink:
                raise
        at_once.shrink()


def test_auto_takes_half_as_many_until_they_fit_and_stays_there():
    memory, at_once = Memory(room=10), AtOnce("auto", most=64)
    assert taken(memory, at_once) == "done"
    assert memory.tried == [None, 32, 16, 8]
    taken(memory, at_once)
    assert memory.tried[4:] == [8] and at_once.size == 8


def test_where_one_is_too_much_torchs_error_remains():
    memory, at_once = Memory(room=0), AtOnce("auto", most=3)
    with pytest.raises(torch.OutOfMemoryError):
        taken(memory, at_once)
    assert memory.tried == [None, 1]


@pytest.mark.parametrize("wanted", [None, 16])
def test_a_number_that_was_asked_for_is_kept(wanted):
    memory, at_once = Memory(room=10), AtOnce(wanted, most=64)
    with pytest.raises(torch.OutOfMemoryError):
        taken(memory, at_once)
    assert memory.tried == [wanted]


def test_without_a_gpu_nothing_is_measured():
    at_once, model = AtOnce("auto", most=64), torch.nn.Linear(1, 1)
    at_once.fit(model, lambda units: pytest.fail("probed"))
    assert at_once.size is None
    for wanted in ("auto", None):
        assert inference_tokens(wanted, torch.device("cpu"), 16, lambda texts: pytest.fail("probed")) == 4096
        assert inference_tokens(wanted) == DEFAULT_TOKENS
    assert inference_tokens(100, torch.device("cpu")) == 100
    assert inference_tokens(None, torch.device("meta")) == DEFAULT_TOKENS


@pytest.mark.gpu
def test_on_a_gpu_what_fits_is_measured(tmp_path):
    encoder = tiny_encoder(tiny_bert(tmp_path), backbone="transformer").to("cuda")
    assert encoder.batch_tokens("auto") >= 1 << 19, "a tiny model fills no GPU"
    big = AtOnce("auto", most=1 << 40)
    big.fit(encoder, lambda units: encoder.embed(texts(encoder, units), "passage").sum().backward())
    assert big.size is not None and big.size > 1000
    small = AtOnce("auto", most=4)
    small.fit(encoder, lambda units: encoder.embed(texts(encoder, units), "passage").sum().backward())
    assert small.size is None, "all of a step's fit"
    assert all(weight.grad is None for weight in encoder.parameters())


def texts(encoder, units):
    return encoder.tokenize(["w1 w2 w3"] * units, "passage")
