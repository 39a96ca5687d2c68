"""AR2 as a method: how its plan unrolls the rounds, and two of them run for real."""

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError, DataError, MissingPackageError
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.refusals import refuses
from tests.tiny import SETTINGS

MINED = ("mine.per_query=6", "mine.rank_to=20", "mine.run=dense")
ROUNDS = ("ar2.rounds=2", "ar2.ranker_steps=3", "ar2.retriever_steps=4", "ar2.n=5", "ar2.ranker_batch_size=8")


@pytest.fixture
def experiment(collection, bert):
    given = (f"data.path={collection}", "methods=[ar2]", f"ranker.init.weights={bert}", "ranker.init.max_len=32")
    return lambda *settings: experiments.load("demo", [*SETTINGS, *given, *MINED, *ROUNDS, *settings])


def inputs_of(plan, name):
    (step,) = [step for step in plan.steps if step.name == name]
    return {key: value if isinstance(value, str) else value.step for key, value in step.inputs.items()}


def test_the_rounds_are_unrolled_each_with_the_models_of_the_one_before(experiment):
    plan = train_retriever(experiment())
    first, second = inputs_of(plan, "train_ar2@0"), inputs_of(plan, "train_ar2@1")
    assert (
        first["model"] == "train_dpr@warm_up" and first["ranker"] == "warm_up_ranker@ar2" and "ar2_state" not in first
    )
    assert first["negatives"] == inputs_of(plan, "warm_up_ranker@ar2")["negatives"] == "mine@ar2@0"
    assert second["model"] == second["ranker"] == second["ar2_state"] == "train_ar2@0"
    assert second["negatives"] == "mine@ar2@1"
    assert inputs_of(plan, "encode@ar2@1:train")["model"] == "train_ar2@0"
    assert inputs_of(plan, "encode@ar2")["model"] == "train_ar2@1"
    assert "negatives" not in inputs_of(plan, "train_dpr@warm_up")
    assert list(plan.named("report")[0].inputs["runs"]) == [
        "bm25", "zero_shot", "zero_shot_hybrid", "ar2_hybrid", "ar2", "ar2_reranked"
    ]  # fmt: skip
    reranks = inputs_of(plan, "rerank@ar2")
    assert (reranks["ranker"], reranks["run"]) == ("train_ar2@1", "search@ar2")
    assert [step.params for step in plan.named("train_ar2")] == [experiment().adversarial()] * 2


def test_another_sampler_in_the_settings_moves_every_round_and_no_warm_up(experiment):
    keys = [
        {step.name: step.key for step in train_retriever(experiment(*more)).steps}
        for more in ((), ("mine.sampler=simans",))
    ]
    moved = {name for name in keys[0] if keys[0][name] != keys[1].get(name)}
    assert {"mine@ar2@0", "train_ar2@0", "mine@ar2@1", "train_ar2@1"} <= moved
    assert not moved & {"train_dpr@warm_up", "init_ranker", "search@ar2@0:train", "candidates@ar2@0"}


def keys(plan):
    return {step.name: step.key for step in plan.steps}


def test_another_sampler_in_one_round_moves_that_rounds_mining_and_what_follows(experiment):
    before, after = (
        keys(train_retriever(experiment("ar2.rounds=3", *more))) for more in ((), ("ar2.mine={1: {sampler: simans}}",))
    )
    moved = {name for name in before if before[name] != after[name]}
    assert {
        "mine@ar2@1",
        "train_ar2@1",
        "mine@ar2@2",
        "train_ar2@2",
        "encode@ar2@2:train",
        "score@ar2",
        "report",
    } <= moved
    assert not moved & {
        "train_dpr@warm_up", "warm_up_ranker@ar2", "mine@ar2@0", "train_ar2@0", "encode@ar2@1:train", "candidates@ar2@1"
    }  # fmt: skip
    plan = train_retriever(experiment("ar2.rounds=3", "ar2.mine={1: {sampler: simans}}"))
    samplers = [plan.named(f"mine@ar2@{number}")[0].params.sampler.kind for number in range(3)]
    assert samplers == ["uniform", "simans", "simans"]


def test_a_misspelt_setting_of_one_round_is_named(experiment):
    with pytest.raises(ConfigError, match=r"ar2\.mine\.1\.samplr"):
        experiment("ar2.mine={1: {samplr: simans}}")
    with pytest.raises(ConfigError, match=r"ar2\.continued\.mine\.sampler"):
        experiment("ar2.continued.mine={sampler: best}")


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("ar2.mine={2: {sampler: simans}}", r"ar2\.mine\.2: rounds are numbered from 0, and ar2\.rounds=2 ends with 1"),
        ("ar2.continued.train={rounds: 3}", r"set ar2\.continued\.rounds"),
        ("ar2.continued.train={lr: 3}", r"ar2\.continued\.train\.lr"),
        ("ar2.mine={0: {rank_from: 10}, 1: {rank_to: 5}}", r"ar2\.mine\.1"),
    ],
)
def test_rounds_that_cannot_be_are_refused(experiment, setting, message):
    with pytest.raises(ConfigError, match=message):
        experiment(setting)


@pytest.mark.parametrize(("before", "after"), [("keep", "drop"), ("soft", "keep")])
def test_further_rounds_may_treat_flagged_pairs_otherwise(experiment, before, after):
    settings = ("methods=[ar2_continued]", f"ar2.flagged={before}", f"ar2.continued.train={{flagged: {after}}}")
    plan = train_retriever(experiment(*settings))
    for name, flagged in (("train_ar2@1", before), ("train_ar2@continued@0", after)):
        assert ("flags" in inputs_of(plan, name)) == (flagged != "keep")
        assert plan.named(name)[0].params.flagged == flagged


def test_continued_starts_where_ar2_ends_with_optimisers_of_its_own(experiment):
    more = ("methods=[ar2, ar2_continued]", "ar2.continued.rounds=2", "ar2.continued.mine={sampler: topk}")
    plan = train_retriever(experiment(*more))
    first, second = inputs_of(plan, "train_ar2@continued@0"), inputs_of(plan, "train_ar2@continued@1")
    assert first["model"] == first["ranker"] == "train_ar2@1" and "ar2_state" not in first
    assert second["model"] == second["ar2_state"] == "train_ar2@continued@0"
    assert first["negatives"] == "mine@ar2_continued@0"
    assert plan.named("mine@ar2_continued@0")[0].params.sampler.kind == "topk"
    assert plan.named("mine@ar2@1")[0].params.sampler.kind == "uniform"
    assert len(plan.named("train_dpr")) == len(plan.named("warm_up_ranker")) == 1


def test_rounds_can_start_from_finished_models(experiment):
    plan = train_retriever(experiment("ar2.start_from=weights"))
    first = inputs_of(plan, "train_ar2@0")
    assert (first["model"], first["ranker"]) == ("init_model", "init_ranker")
    assert not {step.stage.name for step in plan.steps} & {"train_dpr", "warm_up_ranker"}


@pytest.mark.parametrize("flagged", ["drop", "soft"])
def test_flags_reach_the_warm_ups_and_every_round(experiment, flagged):
    plan = train_retriever(experiment(f"ar2.flagged={flagged}"))
    for name in ("train_dpr@warm_up", "warm_up_ranker@ar2", "train_ar2@0", "train_ar2@1"):
        assert inputs_of(plan, name)["flags"] == "detect"
    assert "flags" not in inputs_of(train_retriever(experiment()), "train_ar2@0")


def test_the_retrievers_scale_is_that_of_its_warm_up_unless_it_is_set(experiment):
    assert experiment("train.scale=3").adversarial().scale == 3.0
    assert experiment("train.scale=3", "ar2.scale=1").adversarial().scale == 1.0


def test_what_cannot_be_planned_is_refused(experiment):
    with refuses(ConfigError, "methods.ar2_without_negatives"):
        train_retriever(experiment("mine.per_query=0"))
    with refuses(DataError, "models.no_such_model", setting="ranker.init.weights"):
        train_retriever(experiment("ranker.init.weights=/nowhere"))
    with refuses(DataError, "models.no_weights_named", setting="ranker.init.weights"):
        train_retriever(experiment("ranker.init.weights=null"))


def test_the_packaged_encoder_stands_for_its_digest(experiment):
    try:
        weights = inputs_of(train_retriever(experiment("ranker.init.weights=minilm")), "init_ranker")["weights"]
    except MissingPackageError as missing:
        pytest.skip(str(missing))
    assert weights.startswith("sha256:")


def test_two_rounds_run_from_beginning_to_end(experiment, store):
    outcome = run_experiment(
        experiment("ranker.warm_up.epochs=1", "ranker.warm_up.batch_size=16", "ranker.warm_up.n=5"),
        Choice(),
        Execution(store=store, runtime=Runtime(device="cpu", threads=1)),
    )
    metas = {name: result.meta for name, result in outcome.results.items()}
    curves = {
        name: store.builds.table(metas[name].ref("curves"), ["name", "step", "value"]).to_pylist()
        for name in ("warm_up_ranker@ar2", "train_ar2@0", "train_ar2@1")
    }
    steps = {name: [row["step"] for row in rows if row["name"].endswith("r_loss")] for name, rows in curves.items()}
    assert steps == {
        "warm_up_ranker@ar2": [1, 2, 3, 4],
        "train_ar2@0": [1, 2, 3, 1, 2, 3, 4],
        "train_ar2@1": [4, 5, 6, 5, 6, 7, 8],
    }
    for name in ("train_ar2@0", "train_ar2@1"):
        found = {row["name"]: row["value"] for row in curves[name] if row["name"].startswith("dev_")}
        assert 0.0 < found["dev_r@1"] <= found["dev_mrr@10"] <= found["dev_r@20"] <= 1.0
        notes = metas[name].notes["lists"]
        assert notes["queries"] == 60 and notes["queries_without_positive"] == 0
    negatives = [metas[f"mine@ar2@{number}"].ref("negatives") for number in (0, 1)]
    assert store.builds.parts(negatives[0]) != store.builds.parts(negatives[1])
    kept = outcome.kept["model"]
    assert kept == metas["train_ar2@1"].ref("model") and (store.builds.folder(kept) / "modules.json").exists()
    models = [
        (store.builds.folder(metas[f"train_ar2@{n}"].ref("model")) / "model.safetensors").read_bytes() for n in (0, 1)
    ]
    assert models[0] != models[1]
