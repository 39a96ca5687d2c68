"""What `auto` plans: candidates on all pairs, trials without the held-out queries, and one choice."""

from collections import Counter

import pytest

from noisyir.base.errors import ConfigError
from noisyir.methods import experiments
from noisyir.methods.plans.bench import noise_bench
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.methods.plans.suite import Suite
from tests.tiny import write_beir


@pytest.fixture
def plan_of(tmp_path):
    folder = write_beir(tmp_path / "beir")

    def make(methods, seed=7, data=None, **settings):
        data = {"kind": "beir", "path": str(folder), **(data or {})}
        given = {"name": "x", "seed": seed, "data": data, "methods": methods, **settings}
        return train_retriever(experiments.from_settings(given, []))

    return make


def test_each_candidate_is_trained_on_all_pairs_once_and_tried_under_each_seed(plan_of):
    plan = plan_of([{"kind": "auto", "seeds": 2}])
    (choice,) = plan.named("choose_model")
    assert list(choice.inputs["models"]) == list(choice.inputs["curves"]) == ["dpr", "reweight", "reweight_relabel"]
    assert list(choice.inputs["trials"]) == [f"{name}:{n}" for n in (0, 1) for name in choice.inputs["models"]]
    steps = {step.name: step for step in plan.steps}
    for label, output in choice.inputs["trials"].items():
        name, _, number = label.partition(":")
        trial, final = steps[output.step], steps[choice.inputs["models"][name].step]
        assert (trial.stage, trial.params) == (final.stage, final.params)
        assert (trial.seed, final.seed) == (7 + int(number), 7)
        assert trial.inputs["trial"].stage == "hold_out" and "trial" not in final.inputs
        rest = {name: value for name, value in trial.inputs.items() if name != "trial"}
        assert rest == dict(final.inputs), "the same pairs, verdicts and repairs"
    assert plan.results["model"].stage == "choose_model" and plan.results["trials"].stage == "choose_model"
    assert plan.named("report")[0].inputs["trials"].stage == "choose_model"


def test_what_other_methods_train_is_trained_once(plan_of):
    auto = {"kind": "auto", "candidates": ["reweight_relabel", "npc_relabel"]}
    apart = plan_of(["dpr", "reweight_relabel", "npc_relabel"])
    together = plan_of(["dpr", "reweight_relabel", "npc_relabel", auto])
    only = plan_of(["dpr", "reweight_relabel", "npc_relabel", auto], detect={"assume": "best"})
    keys = {step.key for step in together.steps}
    assert {step.key for step in apart.steps if step.stage.name.startswith(("train", "detect", "score_pairs"))} <= keys
    count, fewer = (Counter(step.stage.name for step in plan.steps) for plan in (together, only))
    assert (fewer["train_dpr"], fewer["train_npc"]) == (2 + 2 * 5, 1 + 5)
    assert fewer["detect"] == fewer["repair"] == fewer["choose_model"] == 1
    assert (count["train_dpr"], count["train_npc"]) == (3 + 2 * 5, 2 + 5), "auto tries chances that nothing warrants"
    assert sorted(step.name for step in together.named("detect")) == ["detect", "detect@auto"]
    folds = [step.params.fold for step in together.steps if step.stage.name == "hold_out"]
    assert folds == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("hold_out", "by_dev"), [(None, True), ({"dev": 0.0}, True), ({"dev": 0.1}, False)])
def test_dev_queries_drawn_from_the_pairs_are_not_chosen_by_for_they_are_few_and_no_better(plan_of, hold_out, by_dev):
    plan = plan_of(["auto"], data={"hold_out": hold_out})
    assert [step.params.by_dev for step in plan.named("hold_out")] == [by_dev] * 5


def test_steps_after_it_have_the_experiments_seed_again(plan_of):
    plan = plan_of(["auto", "npc"])
    (step,) = plan.named("train_npc")
    assert (step.seed, plan.seed) == (7, 7)


def test_a_bench_runs_it_beside_others_under_each_seed(tmp_path):
    folder = write_beir(tmp_path / "beir")
    suite = Suite(
        name="s", experiment={"name": "x", "data": {"kind": "beir", "path": str(folder)}}, methods=["dpr", "auto"],
        noise=[{"kind": "uniform", "rate": 0.2}], seeds=[0, 1],
    )  # fmt: skip
    plan = noise_bench(suite)
    assert len(plan.named("choose_model")) == 2
    assert len({step.key for step in plan.steps}) == len(plan.steps)


def test_candidates_that_repeat_are_refused(plan_of):
    with pytest.raises(ConfigError, match="names one of them twice"):
        plan_of([{"kind": "auto", "candidates": ["drop", "drop"]}])
    with pytest.raises(ConfigError, match="candidates"):
        plan_of([{"kind": "auto", "candidates": ["oracle"]}])
    with pytest.raises(ConfigError, match=r"6 shares of 0\.2 are more than all queries"):
        plan_of([{"kind": "auto", "seeds": 6}])
    plan_of([{"kind": "auto", "seeds": 10, "hold_out": {"share": 0.1}}])
