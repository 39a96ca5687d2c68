"""`hold_out` and `choose_model` as stages: which queries are held out, what is ranked, and which model is passed on."""

import numpy as np
import pyarrow.compute as pc
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, QRELS
from noisyir.methods.auto import CHOOSE_MODEL, HOLD_OUT
from noisyir.training.artifacts import CURVES, TRIAL
from noisyir.training.settings import ChooseModelParams, HoldOutFoldParams, TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR
from tests.refusals import refuses
from tests.tiny_models import static_encoder
from tests.world import pairs_world, table

COUNT = 50
# every text is asked twice; query n's document is the one of its text
ASKED = {f"q{n}": f"w{n // 2}" for n in range(COUNT)}
PAIRED = [(f"q{n}", f"d{n // 2}") for n in range(COUNT)]
TABLES = pairs_world("queries pairs qrels", ASKED, pairs=PAIRED)
CORPUS_TABLE = pairs_world("corpus", (), [f"w{n}" for n in range(COUNT // 2)])["corpus"]
WITH_DEV = pairs_world(
    "queries pairs qrels", {**ASKED, "dev": "w1"}, splits={"dev": "dev"}, pairs=PAIRED, judged=[("dev", "d1", 1)]
)


NONE = TRIAL.schema.empty_table()
ALL = ChooseModelParams()


def saved(folder, *, knows):
    """A model that tells the words apart, or takes all of them for one."""
    vectors = torch.eye(COUNT // 2) if knows else torch.ones(COUNT // 2, 1)
    static_encoder(vectors).save(folder)
    return folder


def held(run_stage_on, seed=0, tables=TABLES, **params):
    return run_stage_on(HOLD_OUT, HoldOutFoldParams(**params), tables, seed=seed)["trial"]


def held_apart(run_stage_on):
    """What two trials hold out."""
    return [held(run_stage_on, fold=fold) for fold in range(2)]


def test_folds_have_no_query_in_common_and_are_all_queries_together(run_stage_on):
    names = [set(held(run_stage_on, fold=fold)["query_id"].to_pylist()) for fold in range(5)]
    assert sorted(map(len, names)) == [10] * 5 and len(set().union(*names)) == COUNT
    thirds = [len(held(run_stage_on, share=0.3333, fold=fold)["query_id"]) for fold in range(3)]
    assert sorted(thirds) == [16, 16, 18], "25 texts, each asked twice"
    with pytest.raises(ValueError, match=r"6 shares of 0\.2 are more than all queries"):
        HoldOutFoldParams(fold=5)


def test_a_share_of_the_queries_texts_is_held_out_with_all_who_ask_them(run_stage_on):
    trial = held(run_stage_on)
    asked = {int(name[1:]) for name in trial["query_id"].to_pylist()}
    assert len(asked) == 10 and {n // 2 for n in asked} == {n // 2 for n in range(COUNT) if n in asked}
    assert all(int(doc[1:]) == int(query[1:]) // 2 for query, doc in zip(*trial.to_pydict().values(), strict=True))
    assert trial.equals(held(run_stage_on)) and not trial.equals(held(run_stage_on, seed=1))
    assert len(held(run_stage_on, most=3)) == 6


def test_where_dev_queries_are_judged_none_is_held_out(run_stage_on):
    assert held(run_stage_on, tables=WITH_DEV).num_rows == 0
    assert held(run_stage_on, tables=WITH_DEV, by_dev=False).equals(held(run_stage_on))
    irrelevant = WITH_DEV | {"qrels": table(QRELS, [("dev", "d1", 0)])}
    assert held(run_stage_on, tables=irrelevant).num_rows == 10


def test_too_few_queries_are_refused_with_what_to_do(run_stage_on):
    few = {name: rows.slice(0, 4) for name, rows in TABLES.items()}
    with refuses(DataError, "methods.too_few_held_out", share=0.2, texts=2):
        held(run_stage_on, tables=few)


@pytest.fixture
def chosen(run_stage_on, tmp_path):
    """`chosen(trials, **knows)`: the stage's outputs, and each way's model; a way knows the words or does not."""

    def run(held_out, tables=TABLES, params=ALL, **knows):
        models = {name: saved(tmp_path / name, knows=which) for name, which in knows.items()}
        points = {name: table(CURVES, [(name, 1, 1.0, 0.5)]) for name in knows}
        trials = {f"{name}:{seed}": models[name] for seed in range(len(held_out)) for name in knows}
        by_seed = {str(seed): trial for seed, trial in enumerate(held_out)}
        given = {
            "corpus": CORPUS_TABLE,
            **{name: rows for name, rows in tables.items() if name != "pairs"},
            "held": by_seed,
            "models": models,
            "curves": points,
            "trials": trials,
        }
        return run_stage_on(CHOOSE_MODEL, params, given), models

    return run


def test_what_ranks_held_out_pairs_better_is_passed_on_with_its_curves(run_stage_on, chosen):
    out, models = chosen(held_apart(run_stage_on), dpr=False, reweight=True)
    rows = {row["method"]: row for row in out["trials"].to_pylist()}
    assert (rows["dpr"]["mean"], rows["reweight"]["mean"]) == (0.0, 1.0), "ties count against a model"
    assert rows["reweight"]["chosen"] and not rows["dpr"]["chosen"]
    assert (rows["dpr"]["queries"], rows["dpr"]["seeds"]) == (20, 2)
    assert out["curves"]["name"].to_pylist() == ["reweight"]
    weights = "model.safetensors"
    assert (out["model"] / weights).read_bytes() == (models["reweight"] / weights).read_bytes()


def test_ties_leave_plain_training(run_stage_on, chosen):
    out, _ = chosen(held_apart(run_stage_on), dpr=True, reweight=True, npc_relabel=False)
    assert [row["method"] for row in out["trials"].to_pylist() if row["chosen"]] == ["dpr"]
    assert out["curves"]["name"].to_pylist() == ["dpr"]


def test_dev_queries_are_ranked_where_there_are_some(chosen):
    out, _ = chosen([NONE, NONE], WITH_DEV, dpr=True, reweight=False)
    assert {row["queries"] for row in out["trials"].to_pylist()} == {1}


def test_of_dev_and_other_queries_that_were_held_out_the_latter_are_ranked(run_stage_on, chosen):
    out, _ = chosen([held(run_stage_on, tables=WITH_DEV, by_dev=False)], WITH_DEV, dpr=True, reweight=False)
    assert {row["queries"] for row in out["trials"].to_pylist()} == {10}


def test_held_out_queries_are_ranked_over_the_collection_whoever_names_its_documents(run_stage_on, chosen):
    twice = [(f"{name}{n}", row, "", f"w{n}") for row, name in enumerate("dx") for n in range(COUNT // 2)]
    twice = [(name, row, *texts) for row, (name, _, *texts) in enumerate(twice)]

    def means(params):
        tables = TABLES | {"corpus": table(CORPUS, twice)}
        out, _ = chosen(held_apart(run_stage_on), tables, params, dpr=False, reweight=True)
        return {row["method"]: row["mean"] for row in out["trials"].to_pylist()}

    as_good = "a document that no pair names is as good"
    assert means(ALL) == {"dpr": 0.0, "reweight": pytest.approx(1 / np.log2(3))}, as_good
    assert means(ChooseModelParams(dev_documents=1))["reweight"] == 1.0, "the relevant ones alone"


def test_without_anything_held_out_there_is_nothing_to_choose_by(chosen):
    with refuses(DataError, "training.no_dev_queries"):
        chosen([NONE, NONE], dpr=True, reweight=False)


def test_training_does_without_held_out_queries_and_ranks_them_instead(run_stage_on, tmp_path):
    trial = held(run_stage_on)
    start = saved(tmp_path / "start", knows=True)
    params = TrainDprParams(epochs=1, batch_size=8, learning_rate=0.01)
    given = {**TABLES, "corpus": CORPUS_TABLE, "model": start}
    on_trial = run_stage_on(TRAIN_DPR, params, {**given, "trial": trial})
    kept = pc.invert(pc.is_in(TABLES["pairs"]["query_id"], value_set=trial["query_id"]))
    without = run_stage_on(TRAIN_DPR, params, {**given, "pairs": TABLES["pairs"].filter(kept)})
    weights = "model.safetensors"
    assert (on_trial["model"] / weights).read_bytes() == (without["model"] / weights).read_bytes()
    hard = {"queries": WITH_DEV["queries"], "qrels": table(QRELS, [("dev", "d2", 1)])}  # whose text is d1's
    also_dev = run_stage_on(TRAIN_DPR, params, {**given, **hard, "trial": trial})
    assert (on_trial["model"] / weights).read_bytes() == (also_dev["model"] / weights).read_bytes()
    (of_dev,) = [row["value"] for row in also_dev["curves"].to_pylist() if row["name"] == "dev_mrr@10"]
    (of_trial,) = [row["value"] for row in on_trial["curves"].to_pylist() if row["name"] == "dev_mrr@10"]
    assert of_dev < 1.0 == of_trial, "a training that may stop by dev queries still does"
    names = set(on_trial["curves"]["name"].to_pylist())
    assert "dev_mrr@10" in names and "dev_mrr@10" not in without["curves"]["name"].to_pylist()
