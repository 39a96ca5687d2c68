"""co_teach as a stage."""

import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.methods.co_teaching import TRAIN_CO_TEACHING
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.training.settings import TrainCoTeachingParams
from tests.refusals import refuses
from tests.tiny_models import tiny_bert

COUNT = 20
IDS = [f"q{i}" for i in range(COUNT)], [f"d{i}" for i in range(COUNT)]
SPLITS = ["dev" if i % 4 == 0 else "train" for i in range(COUNT)]
TABLES = {
    "queries": pa.table({"query_id": IDS[0], "text": [f"w{i} w{40 + i % 7}" for i in range(COUNT)], "split": SPLITS}),
    "corpus": pa.table(
        {
            "doc_id": IDS[1],
            "doc_row": pa.array(range(COUNT), pa.int32()),
            "title": [""] * COUNT,
            "text": [f"w{i} w{50 + i % 9}" for i in range(COUNT)],
        }
    ),
    "pairs": pa.table({"query_id": IDS[0], "doc_id": IDS[1], "split": SPLITS, "source": pa.nulls(COUNT, pa.string())}),
    "qrels": pa.table({"query_id": IDS[0], "doc_id": IDS[1], "relevance": pa.array([1] * COUNT, pa.int32())}),
}
PARAMS = TrainCoTeachingParams(epochs=4, batch_size=8, learning_rate=0.02)


def estimate(*rates):
    """As `detect` writes it: `rates` of epochs 0, 1, ..."""
    rows = [{"epoch": i, "name": name, "value": value} for i, rate in enumerate(rates)
            for name, value in (("rate", rate), ("flagged", 0.9))]  # fmt: skip
    return pa.Table.from_pylist(rows, pa.schema({"epoch": pa.int32(), "name": pa.string(), "value": pa.float64()}))


@pytest.fixture
def start(run_stage_on, tmp_path):
    """The folder of a start model."""
    params = InitModelParams(weights=str(tiny_bert(tmp_path / "bert")), passage_max_len=32)
    return run_stage_on(INIT_MODEL, params, {})["model"]


def test_a_model_is_trained_by_the_last_epochs_noise_rate_and_written_with_its_curves(run_stage_on, start):
    inputs = {**TABLES, "model": start, "estimate": estimate(0.1, 0.4)}
    made = run_stage_on(TRAIN_CO_TEACHING, PARAMS, inputs, seed=1)
    curves = made["curves"].to_pylist()
    shares = [(row["step"], row["epoch"], row["value"]) for row in curves if row["name"] == "keep_share"]
    assert shares == [(0, 0.0, 1.0), (2, 1.0, 0.8), (4, 2.0, 0.6), (6, 3.0, 0.6)]
    assert [row["step"] for row in curves if row["name"] == "train_loss"] == list(range(1, 9))
    assert [row["epoch"] for row in curves if row["name"] == "dev_mrr@10"] == [1.0, 2.0, 3.0, 4.0]
    assert {path.name for path in made["model"].iterdir()} == {path.name for path in start.iterdir()}
    assert (made["model"] / "model.safetensors").read_bytes() != (start / "model.safetensors").read_bytes()


def test_the_noise_rate_and_the_seed_decide_the_model(run_stage_on, start):
    def model(rate, seed=1):
        inputs = {**TABLES, "model": start, "estimate": estimate(rate)}
        return (run_stage_on(TRAIN_CO_TEACHING, PARAMS, inputs, seed=seed)["model"] / "model.safetensors").read_bytes()

    assert len({model(0.4), model(0.0), model(0.4, seed=2)}) == 3


def test_a_noise_rate_that_leaves_no_pair_is_an_error(run_stage_on, start):
    inputs = {**TABLES, "model": start, "estimate": estimate(1.0)}
    with refuses(DataError, "methods.noise_rate_estimated_leaves", rates=1.0):
        run_stage_on(TRAIN_CO_TEACHING, PARAMS, inputs)


def test_an_estimate_without_a_rate_is_an_error(run_stage_on, start):
    inputs = {**TABLES, "model": start, "estimate": estimate(0.4).filter(pa.array([False, True]))}
    with refuses(DataError, "methods.co_teaching_needs_noise"):
        run_stage_on(TRAIN_CO_TEACHING, PARAMS, inputs)


def test_a_single_epoch_is_an_error(run_stage_on, start):
    inputs = {**TABLES, "model": start, "estimate": estimate(0.4)}
    with refuses(ConfigError, "methods.co_teaching_drops_no"):
        run_stage_on(TRAIN_CO_TEACHING, TrainCoTeachingParams(epochs=1), inputs)
