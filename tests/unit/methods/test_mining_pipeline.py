"""Mining as pipelines wire it: BM25's or the untrained model's ranking, vectors only where they are needed."""

import pyarrow.compute as pc
import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError, error_texts
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.bench import noise_bench
from noisyir.methods.plans.retrievers import mine_pairs, train_retriever
from tests.refusals import refuses
from tests.tiny import SETTINGS
from tests.tiny_models import tiny_bert

MINED = ("mine.per_query=3", "mine.rank_to=20")
DENSE = (*MINED, "mine.run=dense", "mine.sampler=trisampler", "mine.sampler.scale=20", "mine.filters.max_score=0.9")


@pytest.fixture
def experiment(collection):
    return lambda *settings: experiments.load("demo", [*SETTINGS, f"data.path={collection}", *settings])


@pytest.fixture
def mine(experiment, store):
    """`mine("mine.run=dense", ...)`: the tables and notes of a run up to `mine`, by artifact and by stage."""

    def run(*settings):
        outcome = run_experiment(
            experiment(*settings), Choice(to="mine"), Execution(store=store, runtime=Runtime(device="cpu", threads=1))
        )
        metas = [result.meta for result in outcome.results.values()]
        refs = [meta.ref(name) for meta in metas for name in meta.artifacts if meta.artifacts[name].rows is not None]
        tables = {ref.artifact: store.builds.table(ref) for ref in refs}
        return tables, {meta.stage: meta.notes for meta in metas}

    return run


def test_candidates_near_the_positive_are_ranked_by_it_alone(mine):
    tables, _ = mine(*MINED, "mine.run=positive", "mine.sampler=topk", "mine.filters.max_score=2")
    candidates = tables["candidates"].to_pylist()
    by_query = {
        row["query_id"]: [one for one in candidates if one["query_id"] == row["query_id"]] for row in candidates
    }
    assert len(by_query) > 5
    for rows in by_query.values():
        near = [row["positive_similarity"] for row in sorted(rows, key=lambda row: row["rank"])]
        assert near == sorted(near, reverse=True) and max(near) > min(near)


def test_dense_negatives_are_drawn_from_the_untrained_models_ranking(mine):
    tables, notes = mine(*DENSE)
    candidates, negatives, pairs = (tables[name] for name in ("candidates", "negatives", "noisy_pairs"))
    asked = tables["queries"].filter(pc.equal(tables["queries"]["split"], "train"))["query_id"]
    assert set(candidates["query_id"].to_pylist()) <= set(asked.to_pylist())
    assert candidates["score"].null_count == 0
    run = {(row["query_id"], row["doc_id"]): row for row in tables["dense_run"].to_pylist()}
    assert {query for query, _ in run} == set(asked.to_pylist())
    for row in candidates.to_pylist():
        hit = run[row["query_id"], row["doc_id"]]
        assert row["rank"] == hit["rank"] <= 20
        assert row["score"] == pytest.approx(hit["score"], abs=1e-5)
    drawn = {(row["query_id"], row["doc_id"]) for row in negatives.to_pylist()}
    low = candidates.filter(pc.less_equal(candidates["score"], 0.9))
    assert drawn <= {(row["query_id"], row["doc_id"]) for row in low.to_pylist()}
    assert not drawn & {(row["query_id"], row["doc_id"]) for row in pairs.to_pylist()}
    note = notes["mine"]["negatives"]
    assert note["drawn"] == len(negatives) and note["queries"] == len(asked) == 60
    assert note["removed"]["max_score"] == len(candidates) - len(low)
    assert notes["candidates"]["candidates"]["kept"] == len(candidates)


def test_bm25s_candidates_have_the_untrained_models_scores_and_its_own_has_the_highest(mine):
    by_model, _ = mine(*MINED, "mine.run=dense", "mine.sampler=simans", "mine.sampler.scale=20")
    by_words, _ = mine(*MINED, "mine.sampler=simans", "mine.sampler.scale=20")
    best, other = (
        dict(
            zip(
                *found["candidates"].group_by("query_id").aggregate([("score", "max")]).to_pydict().values(),
                strict=True,
            )
        )
        for found in (by_model, by_words)
    )
    assert all(best[query] >= score - 1e-6 for query, score in other.items())
    assert by_words["candidates"]["rank"].to_pylist() != by_model["candidates"]["rank"].to_pylist()
    assert by_words["negatives"].num_rows > 0


def test_bm25_without_scores_encodes_no_training_query(experiment):
    plan = train_retriever(experiment(*MINED))
    (candidates,) = plan.named("candidates")
    assert set(candidates.inputs) == {"run", "pairs", "queries", "corpus", "answers", "qrels"}
    assert not any(step.name == "encode@train" for step in plan.steps)
    scored = train_retriever(experiment(*MINED, "mine.filters.relative_margin=0.05"))
    (candidates,) = scored.named("candidates")
    assert {"doc_vectors", "query_vectors"} <= set(candidates.inputs)
    (encode,) = scored.named("encode@train")
    assert encode.params.splits == ("train",) and encode.inputs["model"].step == "init_model"


@pytest.mark.parametrize(("run", "step"), [("dense", "search@train"), ("bm25", "bm25@train")])
def test_training_queries_are_searched_as_deep_as_is_mined(experiment, run, step):
    (searched,) = train_retriever(experiment("mine.per_query=3", "mine.rank_to=250", f"mine.run={run}")).named(step)
    assert searched.params.top_k == 250


def test_no_negatives_no_mining(experiment):
    stages = {step.stage.name for step in train_retriever(experiment()).steps}
    assert not stages & {"candidates", "mine"}
    assert "mine" not in {step.stage.name for step in audit_pairs(experiment(*MINED)).steps}


def test_a_bench_mines_for_each_seed_and_encodes_the_training_queries_once(collection, tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text(
        f"noise: [{{rate: 0.0}}, {{rate: 0.5}}]\nseeds: [0, 1]\nmethods: [dpr]\ndetect: false\n"
        f"table: {{reference: null}}\nexperiment: {{name: x, data: {{kind: beir, path: {collection}}}}}\n"
    )
    overrides = [f"experiment.{setting}" for setting in (*DENSE, "train.hard_negatives=1")]
    plan = noise_bench(experiments.load_suite(str(path), overrides))
    assert len(plan.named("mine")) == len(plan.named("candidates")) == 4
    training = [step for step in plan.named("encode") if step.params.splits == ("train",)]
    assert len(training) == 1
    assert not any(step.stage.name in ("bm25", "bm25_index") for step in plan.steps)


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        (["mine.sampler=simans"], 20.0),
        (["mine.sampler=trisampler", "train.scale=7"], 7.0),
        (["mine.sampler={kind: trisampler, scale: 1.0}"], 1.0),
        (["mine.sampler=trisampler", "model.similarity=dot"], 1.0),
    ],
)
def test_a_sampler_that_is_told_no_scale_takes_that_of_training_for_cosines(experiment, settings, scale):
    (step,) = mine_pairs(experiment(*MINED, *settings)).named("mine")
    assert step.params.sampler.scale == scale


@pytest.mark.parametrize("kind", ["softmax", "debiased"])
def test_a_temperature_that_is_not_set_is_the_trainings_for_cosines(experiment, kind):
    def temperature(*settings):
        (step,) = mine_pairs(experiment(*MINED, *settings)).named("mine")
        return step.params.sampler.temperature

    assert temperature(f"mine.sampler={kind}") == 1 / 20
    assert temperature(f"mine.sampler={kind}", "train.scale=4") == 1 / 4
    assert temperature(f"mine.sampler={kind}", "model.similarity=dot") == 1
    assert temperature(f"mine.sampler={{kind: {kind}, temperature: 2.0}}") == 2


@pytest.mark.parametrize("method", ["dpr", "npc", "oracle"])
def test_hard_negatives_that_nothing_provides_are_refused_before_any_work(experiment, method):
    asked = f"methods=[{method}]", "train.hard_negatives=2"
    with refuses(ConfigError, "training.nothing_mined", setting="train.hard_negatives", count=2):
        train_retriever(experiment(*asked))
    advised = error_texts("training")["nothing_mined"].partition("or ")[2].split()[0]
    assert advised == "mine.run=given" and train_retriever(experiment(*asked, advised)).named("run_of_given")
    assert train_retriever(experiment(*asked, "mine.per_query=2")).named("mine")


def test_a_language_model_that_mines_is_told(experiment, tmp_path, caplog):
    asked = f"model={{backbone: transformer, weights: {tiny_bert(tmp_path / 'bert')}, pooling: mean}}"
    mine_pairs(experiment(*MINED, asked))
    assert not caplog.text
    mine_pairs(experiment(*MINED, asked, "mine.run=dense"))
    assert "was never trained to compare texts" in caplog.text


def test_a_sampler_without_a_scale_stays_as_it_is(experiment):
    (step,) = mine_pairs(experiment(*MINED, "mine.sampler=uniform")).named("mine")
    assert step.params.sampler.kind == "uniform"


def test_a_run_scores_the_losses_of_every_methods_negatives_over_the_same_candidates(experiment):
    plan = train_retriever(experiment("methods=[dpr,ance]", *DENSE, "refresh.hard_negatives=1", "loss_groups={}"))
    steps = {step.name.partition("@")[2]: step for step in plan.named("score_loss_groups")}
    assert set(steps) == {"dpr", "ance"} and set(plan.named("report")[0].inputs["losses"]) == {"dpr", "ance"}
    assert len({step.inputs["candidates"] for step in steps.values()}) == 1
    assert len({step.inputs["model"] for step in steps.values()}) == 2


def test_losses_of_negatives_that_no_method_of_a_run_mines_are_refused(experiment):
    with refuses(ConfigError, "methods.loss_groups_without_negatives", method="dpr"):
        train_retriever(experiment("methods=[dpr]", "loss_groups={}"))
