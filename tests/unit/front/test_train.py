"""Training and mining from Python: the same stages and store as `noisyir run`."""

import pyarrow as pa
import pytest

import noisyir
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.store import open_store
from noisyir.front.api.train import _with_methods
from noisyir.methods.plans.experiment import Experiment
from tests.refusals import refuses

QUICK = {
    "train.epochs": 2, "train.batch_size": 8, "train.learning_rate": 0.01, "bm25_index.engine": "bm25s", "as_is": {},
}  # fmt: skip


@pytest.fixture
def split(pairs):
    return [{**row, "split": "test" if number % 6 == 5 else "train"} for number, row in enumerate(pairs)]


@pytest.fixture
def trained(split):
    return noisyir.train(split, methods=["dpr"], settings=QUICK)


def test_what_comes_out_is_a_model_with_measures_a_report_and_a_search(trained, tmp_path):
    from sentence_transformers import SentenceTransformer

    assert isinstance(trained.model, SentenceTransformer)
    systems = trained.measures.to_pylist()
    assert {row["system"] for row in systems} == {"bm25", "zero_shot", "zero_shot_hybrid", "dpr_hybrid", "dpr"}
    assert "dpr" in str(trained) and "<pre>" in trained._repr_html_()
    assert "<html" in trained.report.read_text()
    best = trained.search("how to wash a jar", k=2)
    assert [hit["rank"] for hit in best] == [1, 2]
    assert "wash" in best[0]["text"]
    saved = trained.save(tmp_path / "mine")
    texts = ["how to wash a jar"]
    assert (SentenceTransformer(str(saved)).encode(texts) == trained.model.encode(texts)).all()
    card = (saved / "README.md").read_text()
    assert "zero_shot" in card and str(saved.parent) not in card
    with refuses(StoreError, "front.folder_exists"):
        trained.save(saved)


def test_a_call_twice_makes_nothing_again(trained, split):
    before = len(open_store(None).builds.all())
    again = noisyir.train(pa.Table.from_pylist(split), methods=["dpr"], settings=QUICK)
    assert len(open_store(None).builds.all()) == before
    assert again.path == trained.path


def test_without_splits_some_queries_are_held_out_and_settings_chosen_and_both_are_said(pairs):
    trained = noisyir.train(pairs, methods=["dpr"], settings={**QUICK, "data.hold_out": {"dev": 0.2, "test": 0.2}})
    assert set(trained.measures["split"].to_pylist()) == {"test"}
    chosen = noisyir.train(pairs, methods=["dpr"], settings=QUICK).chosen
    assert "data.hold_out" in chosen


@pytest.mark.parametrize(("backbone", "method"), [("static", "auto"), ("transformer", "reweight")])
def test_where_no_method_is_named_pairs_are_doubted_by_one_that_can_be_paid_for_and_it_is_said(backbone, method):
    given = {"name": "x", "model": {"backbone": backbone}}
    exp = _with_methods(Experiment(**given))
    assert exp.kept == method and exp.chosen["methods"].startswith(f"{method}: {backbone} backbone")
    assert _with_methods(Experiment(**given, methods=("dpr",))).kept == "dpr"


def test_a_model_that_learnt_nothing_is_told_of(split):
    trained = noisyir.train(split, methods=["dpr"], settings={**QUICK, "train.learning_rate": 1e-9})
    assert trained.doubts
    assert f"WARNING  {trained.doubts[0]}" in str(trained)


def test_errors_are_the_packages_own_lines(split, trained):
    with refuses(ConfigError, "front.methods_not_a_list"):
        noisyir.train(split, methods="dpr")
    with pytest.raises(ConfigError, match="dpr"):
        noisyir.train(split, methods=["dprr"], settings=QUICK)
    with refuses(ConfigError, "front.empty_query"):
        trained.search(" ")


def test_negatives_are_mined_with_the_model_and_none_is_the_querys_own(split, trained):
    found = noisyir.mine(split, model=trained, sampler="topk", per_query=3)
    own = {(row["query"], row["document"]) for row in split}
    mined = found.to_pylist()
    assert not own & {(row["query"], row["negative"]) for row in mined}
    assert all((row["query"], row["positive"]) in own for row in mined)
    training = [row["query"] for row in split if row["split"] == "train"]
    assert list(dict.fromkeys(found["query"].to_pylist())) == list(dict.fromkeys(training))  # in their order
    assert found.num_rows == 3 * len(training)
    by_own_model = noisyir.mine(split, model=trained.model, sampler="topk", per_query=3)
    assert by_own_model.select(["query", "negative"]).equals(found.select(["query", "negative"]))


def test_a_filter_drops_candidates(split):
    every = noisyir.mine(split, sampler="topk", per_query=50)
    bound = sorted(every["positive_similarity"].to_pylist())[every.num_rows // 2]
    fewer = noisyir.mine(split, sampler="topk", filters={"max_positive_cosine": bound}, per_query=50)
    assert 0 < fewer.num_rows < every.num_rows
    with pytest.raises(ConfigError, match="max_positive_cosin"):
        noisyir.mine(split, filters={"max_positive_cosin": 0.7})
    with refuses(ConfigError, "methods.nothing_to_mine"):
        noisyir.mine(split, per_query=0)
