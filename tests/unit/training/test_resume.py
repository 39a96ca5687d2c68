"""A run killed by kill -9 and run again ends in the bits of one that was never killed."""

import pytest

from tests.unit.training.killed import killed
from tests.unit.training.train_and_die import train


@pytest.mark.parametrize(
    ("backbone", "objective", "step"),
    [
        ("static", "contrastive", 12),
        ("transformer", "contrastive", 7),
        pytest.param("transformer by adapters", "contrastive", 7, marks=pytest.mark.slow),
        ("static", "distillation", 12),
        pytest.param("transformer", "distillation", 7, marks=pytest.mark.slow),
    ],
)
def test_a_killed_run_ends_in_the_same_bits(bert, tmp_path, backbone, objective, step):
    for name in ("whole", "killed"):
        (tmp_path / name).mkdir()
    unkilled, curves, taken = train(bert, tmp_path / "whole", backbone, objective)
    assert taken == list(range(1, 21))

    killed(train, bert, tmp_path / "killed", backbone, objective, die_at=step)
    resumed, curves_again, taken_again = train(bert, tmp_path / "killed", backbone, objective)

    assert taken_again == list(range(step, 21))  # the step it died in was not yet saved
    assert curves_again == curves
    unkilled.save(tmp_path / "model")
    resumed.save(tmp_path / "model_again")
    files = [path.relative_to(tmp_path / "model") for path in (tmp_path / "model").rglob("*") if path.is_file()]
    for path in files:
        assert (tmp_path / "model" / path).read_bytes() == (tmp_path / "model_again" / path).read_bytes(), path
