"""AR2's stages: the ranker made and warmed up, and a round of both models, run on small tables."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.runtime import Runtime
from noisyir.methods.ar2 import TRAIN_AR2
from noisyir.models.settings import InitModelParams, InitRankerParams
from noisyir.models.stages.init_model import INIT_MODEL, INIT_RANKER
from noisyir.training.artifacts import NEGATIVES
from noisyir.training.settings import TrainAr2Params, WarmUpRankerParams
from noisyir.training.stages.warm_up_ranker import WARM_UP_RANKER
from tests.refusals import refuses
from tests.unit.training.test_training_stages import COUNT, TABLES
from tests.world import table

MINED = table(NEGATIVES, [(f"q{i}", f"d{(i + j) % 60}", 1.0, j) for i in range(COUNT) for j in range(1, 5)])
RANKING = {name: TABLES[name] for name in ("pairs", "queries", "corpus")} | {"negatives": MINED}
ROUND = {
    "rounds": 2, "ranker_steps": 3, "retriever_steps": 4, "n": 3, "ranker_batch_size": 4, "retriever_batch_size": 8,
    "ranker_learning_rate": 1e-3, "retriever_learning_rate": 1e-3,
}  # fmt: skip
CPU = Runtime(device="cpu", threads=1)


@pytest.fixture
def ranker(run_stage_on, bert):
    params = InitRankerParams(weights=str(bert), layers=1, max_len=32)
    return run_stage_on(INIT_RANKER, params, {})["ranker"]


@pytest.fixture
def model(run_stage_on, bert):
    params = InitModelParams(weights=str(bert), passage_max_len=32)
    return run_stage_on(INIT_MODEL, params, {})["model"]


@pytest.fixture
def play(run_stage_on, ranker, model):
    """`play(settings, **tables)`: a round's outputs."""

    def run(settings=None, *, seed=1, **more):
        params = TrainAr2Params(**ROUND | (settings or {}))
        given = {**RANKING, "qrels": TABLES["qrels"], "model": model, "ranker": ranker, **more}
        return run_stage_on(TRAIN_AR2, params, given, seed=seed, runtime=CPU)

    return run


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def steps(curves, name):
    return [row["step"] for row in curves.to_pylist() if row["name"] == name]


def shuffled(tables):
    rng = np.random.default_rng(0)
    return {name: found.take(rng.permutation(len(found))) for name, found in tables.items()}


def test_the_seed_decides_the_new_head(run_stage_on, bert, ranker):
    params = InitRankerParams(weights=str(bert), layers=1, max_len=32)
    other = run_stage_on(INIT_RANKER, params, {}, seed=1)["ranker"]
    assert files(other)["model.safetensors"] != files(ranker)["model.safetensors"]
    assert files(other).keys() == files(ranker).keys() >= {"ranker.json", "tokenizer.json", "config.json"}


def test_the_ranker_is_warmed_up_and_written_with_its_curves(run_stage_on, store, ranker):
    params = WarmUpRankerParams(n=3, epochs=3, batch_size=4, learning_rate=1e-3, max_steps=10)
    made = run_stage_on(WARM_UP_RANKER, params, {**RANKING, "ranker": ranker}, runtime=CPU)
    assert steps(made["curves"], "ranker_loss") == steps(made["curves"], "ranker_accuracy") == list(range(1, 11))
    assert made["curves"]["epoch"][0].as_py() == 0.25  # 15 training queries, 4 a step
    assert files(made["ranker"]).keys() == files(ranker).keys()
    assert files(made["ranker"])["model.safetensors"] != files(ranker)["model.safetensors"]
    again = {**{name: shuffled(RANKING)[name] for name in RANKING}, "ranker": ranker}
    assert files(run_stage_on(WARM_UP_RANKER, params, again, runtime=CPU)["ranker"]) == files(made["ranker"])


def test_the_ranker_may_be_warmed_up_by_log_odds(run_stage_on, ranker):
    made = {}
    for loss in ("listwise", "pointwise"):
        params = WarmUpRankerParams(n=3, epochs=20, batch_size=4, learning_rate=1e-3, loss=loss)
        made[loss] = run_stage_on(WARM_UP_RANKER, params, {**RANKING, "ranker": ranker}, runtime=CPU)
    first, last = (
        {
            loss: [row["value"] for row in found["curves"].to_pylist() if row["name"] == "ranker_loss"][place]
            for loss, found in made.items()
        }
        for place in (0, -1)
    )
    assert last["pointwise"] < first["pointwise"] + 0.05 < first["listwise"]  # near log 2, and near log 4
    assert len({files(found["ranker"])["model.safetensors"] for found in made.values()}) == 2


def test_a_round_writes_both_models_the_state_and_the_curves(play, model, ranker):
    made = play()
    curves = made["curves"]
    assert steps(curves, "ranker_loss") == [1, 2, 3]
    assert steps(curves, "retriever_loss") == steps(curves, "adversarial") == steps(curves, "distillation")
    assert steps(curves, "retriever_loss") == [1, 2, 3, 4] and steps(curves, "dev_mrr@10") == [0, 4]
    assert steps(curves, "dev_r@1") == steps(curves, "dev_r@100") == [0, 4]
    for name, start in (("model", model), ("ranker", ranker)):
        assert files(made[name]).keys() == files(start).keys()
        assert files(made[name]) != files(start)
    assert list(files(made["ar2_state"])) == ["checkpoint.safetensors"]


def test_the_next_round_goes_on_from_the_state_and_the_order_of_rows_is_of_no_account(play):
    first = play()
    given = {name: first[name] for name in ("model", "ranker", "ar2_state")}
    second = play(**given)
    assert steps(second["curves"], "ranker_loss") == [4, 5, 6] and steps(second["curves"], "dev_mrr@10") == [8]
    again = play(**shuffled({**RANKING, "qrels": TABLES["qrels"]}), **given)
    for name in ("model", "ranker", "ar2_state"):
        assert files(second[name]) == files(again[name])
    without = play(model=first["model"], ranker=first["ranker"])
    assert files(without["model"]) != files(second["model"])


def test_seed_and_settings_enter_both_models(play):
    made = [play(), play(seed=2)]
    made += [play(change) for change in ({"adv_lambda": 0.0}, {"variant": "code"}, {"scale": 3.0}, {"n": 2})]
    assert len({files(one["model"])["model.safetensors"] for one in made}) == len(made)
    assert len({files(one["ranker"])["model.safetensors"] for one in made}) == 3  # the seed's, and n's


def noted(store):
    (meta,) = [meta for meta in store.builds.all() if meta.stage == "train_ar2"]
    return meta.notes["lists"]


def test_what_is_left_out_or_filled_up_is_noted(play, store):
    pairs = TABLES["pairs"].filter(pa.compute.not_equal(TABLES["pairs"]["query_id"], "q3"))
    few = MINED.filter(pa.compute.or_(pa.compute.not_equal(MINED["query_id"], "q1"), pa.compute.less(MINED["draw"], 2)))
    play(pairs=pairs, negatives=few)
    found = noted(store)
    # q3 has lost its pair; the dev queries have negatives here, and no training pair
    assert found["queries"] == 14 and found["queries_without_positive"] == 1 + 5
    assert found["queries_with_too_few_negatives"] == 1
    assert found["random_share_of_negatives"] == pytest.approx(2 / 3 / 14)


def test_bad_input_is_refused_before_anything_is_trained(play):
    with refuses(ConfigError, "training.no_negatives_left"):
        play(negatives=NEGATIVES.schema.empty_table())
    nobody = TABLES["pairs"].filter(pa.compute.equal(TABLES["pairs"]["split"], "dev"))
    with refuses(DataError, "training.no_training_pairs"):
        play(pairs=nobody)
    with refuses(DataError, "training.unknown_ids", of="documents", example="d99"):
        play(negatives=table(NEGATIVES, [("q1", "d99", 1.0, 0)]))
