"""Checkpoints: whole or not at all."""

import torch

from noisyir.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

STATE = Checkpoint(
    {"model": {"a.b/c": torch.arange(3.0)}, "optimiser": {"0.step": torch.tensor(4.0)}},
    {"epoch": 2, "recent": [0.1, 1 / 3], "curves": [["loss", 1, 0.5, 0.1]]},
)


def test_what_is_saved_comes_back_and_a_later_one_replaces_it(tmp_path):
    assert load_checkpoint(tmp_path) is None
    save_checkpoint(tmp_path, STATE)
    save_checkpoint(tmp_path, Checkpoint(STATE.tensors, {**STATE.progress, "epoch": 3}))
    found = load_checkpoint(tmp_path)
    assert found.progress == {**STATE.progress, "epoch": 3}
    assert torch.equal(found.tensors["model"]["a.b/c"], torch.arange(3.0))
    assert torch.equal(found.tensors["optimiser"]["0.step"], torch.tensor(4.0))


def test_equal_states_are_written_in_equal_bytes(tmp_path):
    written = set()
    for _ in range(20):
        save_checkpoint(tmp_path, STATE)
        written.add((tmp_path / "checkpoint.safetensors").read_bytes())
    assert len(written) == 1


def test_a_half_written_successor_is_not_seen(tmp_path):
    save_checkpoint(tmp_path, STATE)
    (tmp_path / "checkpoint.safetensors.arriving").write_bytes(b"half")
    assert load_checkpoint(tmp_path).progress == STATE.progress


def test_no_flipped_byte_and_no_cut_of_a_checkpoint_is_continued_from(tmp_path, caplog):
    save_checkpoint(tmp_path, STATE)
    path = tmp_path / "checkpoint.safetensors"
    written = path.read_bytes()
    for at in range(len(written)):
        path.write_bytes(written[:at] + bytes([written[at] ^ 1]) + written[at + 1 :])
        found = load_checkpoint(tmp_path)
        assert found is None or _same(found, STATE)
        path.write_bytes(written[:at])
        assert load_checkpoint(tmp_path) is None
    assert "is damaged, and training starts again" in caplog.text


def _same(found: Checkpoint, other: Checkpoint) -> bool:
    """A flip may hit what means nothing, such as padding: then the state is what was written."""
    tensors = all(
        torch.equal(found.tensors[group][name], value)
        for group, named in other.tensors.items()
        for name, value in named.items()
    )
    return tensors and found.progress == other.progress
