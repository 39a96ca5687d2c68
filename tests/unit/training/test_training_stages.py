"""init_model and warm_up as stages."""

import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.training.artifacts import NEGATIVES
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR
from tests.refusals import refuses
from tests.tiny_models import WORDS, tiny_bert
from tests.world import pairs_world, table

COUNT = 20
TABLES = pairs_world(
    "queries corpus pairs qrels",
    [f"w{i} w{40 + i % 7}" for i in range(COUNT)],
    [("w59" if i % 2 else "", f"w{i} w{50 + i % 9}") for i in range(len(WORDS))],
    splits={f"q{i}": "dev" for i in range(0, COUNT, 4)},
    judged=[(f"q{i}", f"d{i}", 1) for i in range(COUNT)],
)
MINED = table(NEGATIVES, [(f"q{i}", f"d{i + 30}", 1.0, 0) for i in range(COUNT)])


@pytest.fixture
def start_of(run_stage_on, tmp_path):
    """The folder of a start model of a similarity."""
    bert = str(tiny_bert(tmp_path / "bert"))

    def made(similarity):
        params = InitModelParams(weights=bert, passage_max_len=32, similarity=similarity)
        return run_stage_on(INIT_MODEL, params, {})["model"]

    return made


@pytest.fixture
def start(start_of):
    """The folder of a start model."""
    return start_of("cosine")


def test_a_model_is_made_trained_and_written_with_its_curves(run_stage_on, start):
    params = TrainDprParams(epochs=3, batch_size=8, learning_rate=0.02, hard_negatives=1)
    made = run_stage_on(TRAIN_DPR, params, {**TABLES, "model": start, "negatives": MINED}, seed=1)
    curves = made["curves"].to_pylist()
    assert [row["step"] for row in curves if row["name"] == "train_loss"] == [1, 2, 3, 4, 5, 6]
    assert [row["epoch"] for row in curves if row["name"] == "dev_mrr@10"] == [1.0, 2.0, 3.0]
    assert {path.name for path in made["model"].iterdir()} == {path.name for path in start.iterdir()}
    assert (made["model"] / "model.safetensors").read_bytes() != (start / "model.safetensors").read_bytes()


def test_hard_negatives_without_mined_ones_are_an_error(run_stage_on, start):
    with refuses(ConfigError, "training.nothing_mined", setting="train.hard_negatives", count=2):
        run_stage_on(TRAIN_DPR, TrainDprParams(hard_negatives=2), {**TABLES, "model": start})


def test_mined_negatives_are_left_unread_where_none_are_wanted(run_stage_on, start):
    params = TrainDprParams(epochs=1, batch_size=8)
    with_negatives = run_stage_on(TRAIN_DPR, params, {**TABLES, "model": start, "negatives": MINED}, seed=1)
    without = run_stage_on(TRAIN_DPR, params, {**TABLES, "model": start}, seed=1)
    weights = [(made["model"] / "model.safetensors").read_bytes() for made in (with_negatives, without)]
    assert (
        with_negatives["curves"]
        .filter(pa.compute.field("name") == "train_loss")
        .equals(without["curves"].filter(pa.compute.field("name") == "train_loss"))
    )
    assert weights[0] == weights[1]


def trained(run_stage_on, start, **settings):
    """The weights, and the loss curve."""
    params = TrainDprParams(**{"epochs": 2, "batch_size": 8, "learning_rate": 0.02} | settings)
    made = run_stage_on(TRAIN_DPR, params, {**TABLES, "model": start, "negatives": MINED}, seed=1)
    losses = [row["value"] for row in made["curves"].to_pylist() if row["name"] == "train_loss"]
    return (made["model"] / "model.safetensors").read_bytes(), losses


def test_the_regulariser_counts_from_its_epoch_on_and_not_at_beta_0(run_stage_on, start):
    plain, regularised, later = (
        trained(run_stage_on, start, ccr=ccr) for ccr in ({}, {"beta": 0.5}, {"beta": 0.5, "from_epoch": 1})
    )
    assert trained(run_stage_on, start, ccr={"beta": 0.0, "from_epoch": 1}) == plain
    assert len({plain[0], regularised[0], later[0]}) == 3
    assert later[1][:2] == plain[1][:2] and all(one < two for one, two in zip(regularised[1], plain[1], strict=True))
    assert later[1][2] < plain[1][2]


def test_a_large_beta_with_dot_products_is_an_error_unless_it_is_forced(run_stage_on, start_of):
    start = start_of("dot")
    message = (
        r"train\.ccr\.beta=0\.5 with model\.similarity=dot: the loss has no lower bound.* 1e-4 to 1e-3, "
        r"or model\.similarity=cosine, which allows up to 1\..* train\.ccr\.force=true"
    )
    with pytest.raises(ConfigError, match=message):
        trained(run_stage_on, start, ccr={"beta": 0.5})
    small, forced = (trained(run_stage_on, start, ccr=ccr) for ccr in ({"beta": 1e-2}, {"beta": 0.5, "force": True}))
    assert small[0] != forced[0]


def test_a_regulariser_for_which_no_epoch_is_left_is_an_error(run_stage_on, start):
    with refuses(ConfigError, "training.ccr_never_applies", from_epoch=2, epochs=2, last=1):
        trained(run_stage_on, start, ccr={"beta": 0.5, "from_epoch": 2})


def test_a_pool_of_its_own_needs_hard_negatives(run_stage_on, start):
    with refuses(ConfigError, "training.own_pool_is_empty"):
        trained(run_stage_on, start, pool="own")
    own, batch = (trained(run_stage_on, start, hard_negatives=1, pool=pool)[0] for pool in ("own", "batch"))
    assert own != batch
