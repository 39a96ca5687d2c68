"""Two processes that share each batch compute what one computes from the whole of it."""

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import ConfigError
from noisyir.engine.processes import PeerLostError, run_together
from noisyir.training.distributed import World, device_of, world
from tests.refusals import refuses
from tests.unit.training.crew import CASES, RUNS, compute, wait_in_vain


@pytest.fixture(scope="module")
def together(bert, tmp_path_factory):
    """{case: what each of two processes found}."""
    told = {}
    meeting = tmp_path_factory.mktemp("meeting") / "file"
    run_together(compute, 2, (2, bert, meeting), lambda message: told.setdefault(message[0], {}).update([message[1:]]))
    return told


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_are_those_of_one_process(together, bert, name):
    torch.set_num_threads(1)
    alone = CASES[name](bert)
    assert any(key.endswith("weight") and value.any() for key, value in alone.items())
    for found in together[name].values():
        assert found.keys() == alone.keys()
        for key in alone.keys() - {"embedded"}:
            np.testing.assert_allclose(found[key], alone[key], atol=1e-5, rtol=1e-5, err_msg=key)
            np.testing.assert_array_equal(found[key], together[name][0][key])  # or weights would drift apart
    if "embedded" in alone:
        shares = [found["embedded"] for found in together[name].values()]
        assert sum(shares) == alone["embedded"]
        assert max(shares) - min(shares) <= (4 if "chunks" in name else 2)  # chunks: one of each side, twice


@pytest.mark.parametrize("name", RUNS)
def test_a_whole_run_goes_as_that_of_one_process(together, bert, name):
    torch.set_num_threads(1)
    alone = RUNS[name](bert)
    for found in together[name].values():
        np.testing.assert_allclose(found["curves"], alone["curves"], atol=1e-4)
        np.testing.assert_allclose(found["vectors"], alone["vectors"], atol=1e-4)
        np.testing.assert_array_equal(found["vectors"], together[name][0]["vectors"])


def test_weights_that_drift_apart_are_an_error(together):
    for said in together["drift"].values():
        assert said.startswith("the training processes' weights have drifted apart")


@given(st.lists(st.integers(0, 9), max_size=30), st.integers(1, 5))
def test_each_thing_is_dealt_to_one_process_and_all_have_alike(lengths, size):
    lengths = np.array(lengths, np.int64)
    dealt = [World(rank, size).divide(lengths).own for rank in range(size)]
    assert sorted(np.concatenate(dealt).tolist()) == list(range(len(lengths)))
    counts, totals = [len(rows) for rows in dealt], [int(lengths[rows].sum()) for rows in dealt]
    assert max(counts) - min(counts) <= 1
    assert max(totals) - min(totals) <= lengths.max(initial=0)


def test_a_process_that_does_not_come_is_not_waited_for_for_ever(tmp_path):
    began = time.monotonic()
    with refuses(PeerLostError, "training.lost_peers"):
        run_together(wait_in_vain, 2, (tmp_path / "meeting",), print)
    assert time.monotonic() - began < 60


def test_without_a_group_a_process_is_alone():
    here = world()
    assert here.alone and here.leads and here.stream == () and here.total(1.5, 2.0) == [1.5, 2.0]


def test_each_process_draws_dropout_of_its_own_and_another_number_other_ones():
    streams = [World(rank, size).stream for size in (1, 2, 3) for rank in range(size)]
    assert len(set(streams)) == len(streams) == 6


def test_gpus_are_not_shared_out_of_nothing(monkeypatch):
    assert device_of(1, 2, "cpu") == "cpu"
    with refuses(ConfigError, "training.device_not_shared", device="meta"):
        device_of(1, 2, "meta")
