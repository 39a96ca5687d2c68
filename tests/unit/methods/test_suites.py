"""Suites of the noise bench: how they are read, and the plan that one makes."""

from collections import Counter

import pytest

from noisyir.base.errors import ConfigError
from noisyir.evaluation.bench import Cell
from noisyir.methods import experiments
from noisyir.methods.plans.bench import noise_bench
from tests.refusals import refuses

NOISE = "noise: [{rate: 0.0}, {rate: 0.5}, {rate: 0.5, kind: group}]"


@pytest.fixture
def suite_of(collection, tmp_path):
    """`suite_of("methods=[dpr]", ..., text="noise: ...")`: a suite of these settings, read from a file."""

    def load(*overrides, text=NOISE):
        path = tmp_path / "mine.yaml"
        path.write_text(f"{text}\nexperiment: {{name: x, data: {{kind: beir, path: {collection}}}}}\n")
        return experiments.load_suite(str(path), overrides)

    return load


@pytest.mark.parametrize("name", experiments.names("suites"))
def test_every_shipped_suite_loads_under_its_own_name_and_can_be_tabled(name):
    suite = experiments.load_suite(name)
    assert suite.name == name and suite.description
    assert all(isinstance(method, suite.experiment.task.methods_of) for method in suite.methods)
    assert not suite.methods or suite.table.baseline in suite.arms
    assert suite.table.reference in {*suite.arms, None, "oracle"}


def test_every_method_runs_on_every_noise_under_every_seed(suite_of):
    plan = noise_bench(suite_of("methods=[dpr,oracle,drop]", "seeds=[0,3]"))
    (table,) = plan.named("noise_table")
    kinds = [("uniform", 0.0), ("uniform", 0.5), ("group", 0.5)]
    cells = [Cell(*kind, method, seed) for kind in kinds for seed in (0, 3) for method in ("dpr", "oracle", "drop")]
    assert list(table.inputs["metrics"]) == [str(cell) for cell in cells]
    assert list(table.inputs["detection"]) == [str(Cell(*kind, "detection", seed)) for kind in kinds for seed in (0, 3)]
    assert set(plan.results) == {"bench_values", "bench_summary", "bench_page"}
    count = Counter(step.stage.name for step in plan.steps)
    assert (count["ingest"], count["init_model"], count["bm25_index"]) == (1, 1, 1)
    assert count["corrupt"] == count["detect"] == 6 and count["score_pairs"] == 6
    assert count["train_dpr"] == 16  # without noise the oracle is dpr
    assert all(step.seed in (0, 3) for step in plan.steps if step.stage.name in ("corrupt", "train_dpr"))


def test_a_bench_without_detectors_has_only_what_its_methods_ask_for(suite_of):
    settings = ("methods=[dpr,npc]", "table.reference=null", "seeds=[0]")
    steps, more = (noise_bench(suite_of(*settings, *also)).steps for also in (["detect=false"], []))
    stages = {step.stage.name for step in steps}
    assert not stages & {"score_pairs", "detect", "bm25_index"} and "score_detection" in stages  # of npc's own flags
    (section,) = (step for step in steps if step.stage.name == "loss_section")
    assert list(section.inputs["scores"]) == ["npc, uniform 0 %", "npc, uniform 50 %", "npc, group 50 %"]
    theirs = {step.key for step in more}
    assert {step.stage.name for step in steps if step.key not in theirs} == {"score_detection", "noise_table"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["methods=[dpr,nqc]"], r"methods: there is no 'nqc' \(did you mean npc\?\)"),
        (["methods=[dpr,npc]", "table.reference=oracle"], r"reference: no method 'oracle'.*set it to null"),
        (["methods=[oracle,npc]"], r"baseline: no method 'dpr'; there are oracle, npc"),
        (["methods=[]"], r"methods: only a suite that hides documents can do without any"),
        (["seeds=[]"], r"seeds: .*at least 1 item"),
        (["seeds=[one]"], r"seeds\.0: .*integer.*got 'one'"),
        (["experiment.train.epoch=1"], r"unknown key experiment\.train\.epoch \(did you mean experiment.train.epochs"),
        (
            ["experiment.detectors.a={kind: margin, fold: 1}"],
            r"unknown key experiment\.detectors\.a\.fold \(did you mean experiment.detectors.a.folds\?\)",
        ),
        (["noise=[]"], r"noise, hide: a suite needs one of either at least"),
        (["noise=[{rat: 0.5}]"], r"unknown key noise\.0\.rat \(did you mean noise.0.rate\?\); known here: kind, rate"),
        (["noise=[{rate: 0.1, neighbours: 3}]"], r"neighbours is a setting of neighbour, not of uniform$"),
        (["noise=[{rate: 2}]"], r"noise\.0\.rate: .*less than or equal to 1, got 2"),
        (
            ["noise=[{rate: 0.5}, {rate: 0.1}, {rate: 0.5, kind: uniform}]"],
            r"mine\.yaml: noise: uniform at rate 0\.5 is there more than once, .* make a suite of each$",
        ),
    ],
)
def test_what_cannot_be_benched_is_refused_before_anything_runs(suite_of, settings, message):
    with pytest.raises(ConfigError, match=message):
        noise_bench(suite_of(*settings))


def test_an_unknown_suite_is_refused_with_a_suggestion():
    with refuses(ConfigError, "methods.unknown_name", what="suite", name_or_path="squat"):
        experiments.load_suite("squat")


HIDE = "hide: [{kind: positives, rate: 1.0}]\nseeds: [0, 1]\ndetect: false\ntable: {reference: null}"
VARIANTS = "variants: {plain: {mine: {per_query: 0}}, top: {mine: {per_query: 2, sampler: topk, run: dense}}}"


def test_variants_change_the_experiment_and_share_what_they_have_in_common(suite_of):
    suite = suite_of("methods=[ance]", "table.baseline=plain", text=f"{HIDE}\n{VARIANTS}")
    assert suite.arms == ("plain", "top")
    assert suite.variant("top").mine.sampler.kind == "topk" and suite.variant("plain").mine.per_query == 0
    count = Counter(step.stage.name for step in noise_bench(suite).steps)
    assert (count["hide"], count["mine"], count["score"]) == (2, 2, 4)  # each of two seeds; two arms are scored
    assert count["train_dpr"] == 2 * 3  # of each seed: the warm-up that both arms share, and a round of each


def test_arms_are_named_by_what_there_is_more_than_one_of(suite_of):
    both = suite_of("methods=[dpr, ance]", "table.baseline=dpr+plain", text=f"{HIDE}\n{VARIANTS}")
    assert both.arms == ("dpr+plain", "ance+plain", "dpr+top", "ance+top")
    assert suite_of("methods=[dpr, npc]").arms == ("dpr", "npc")


def test_a_variant_that_is_no_experiment_is_refused_by_its_name(suite_of):
    with pytest.raises(ConfigError, match=r"unknown key .*samplr \(did you mean variants.odd.mine.sampler"):
        suite_of(text=f"{HIDE}\nvariants: {{odd: {{mine: {{samplr: topk}}}}}}")


@pytest.mark.parametrize("ranking", ["run: random", "run: bm25"])
def test_every_ranking_of_every_seeds_own_collection_is_a_step_of_its_own(suite_of, ranking):
    text = f"{HIDE.replace('positives', 'near_duplicates')}\nvariants: {{one: {{mine: {{per_query: 2, {ranking}}}}}}}"
    more = ("detect=true", "table.baseline=one", "experiment.train.hard_negatives=1")
    plan = noise_bench(suite_of("methods=[dpr]", *more, text=text))
    assert len(plan.named("candidates")) == 2 and len({step.key for step in plan.steps}) == len(plan.steps)


def test_hidden_documents_are_known_to_scoring_alone(suite_of):
    text = f"{HIDE.replace('positives', 'near_duplicates')}\n{VARIANTS}"
    plan = noise_bench(suite_of("methods=[ance]", "table.baseline=plain", text=text))
    readers = {step.stage.name for step in plan.steps for o in step.outputs_needed() if o.artifact == "hidden"}
    assert readers <= {"score_negatives", "score_loss_groups"}
    corpora = {o.stage for step in plan.steps for o in step.outputs_needed() if o.artifact in ("corpus", "pairs")}
    assert corpora == {"ingest", "hide"}  # ingest's by hide and by nobody else
    assert {
        s.stage.name for s in plan.steps for o in s.outputs_needed() if o.stage == "ingest" and o.artifact == "corpus"
    } == {"hide"}


def test_losses_of_negatives_are_scored_at_the_scale_of_training_where_something_is_mined(suite_of):
    settings = (
        "methods=[ance]",
        "table.baseline=plain",
        "experiment.train.scale=5",
        "experiment.loss_groups.queries=7",
    )
    plan = noise_bench(suite_of(*settings, text=f"{HIDE}\n{VARIANTS}"))
    steps = plan.named("score_loss_groups")
    assert len(steps) == 2 and {(step.params.queries, step.params.scale) for step in steps} == {(7, 5.0)}
    assert set(plan.named("noise_table")[0].inputs["losses"]) == {"positives:1.0:top:0", "positives:1.0:top:1"}


def test_losses_of_negatives_want_a_method_that_mines_some(suite_of):
    settings, text = ("table.baseline=plain", "experiment.loss_groups={}"), f"{HIDE}\n{VARIANTS}"
    with refuses(ConfigError, "methods.loss_groups_without_negatives", method="dpr"):
        noise_bench(suite_of("methods=[dpr]", *settings, text=text))
    assert noise_bench(suite_of("methods=[ance]", *settings, text=text)).named("score_loss_groups")


def test_rows_of_others_train_on_kept_states_where_the_noise_reads_vectors(suite_of, tmp_path):
    kept = [f"experiment.{name}" for name in ("model.backbone=transformer", "train.freeze=4", "train.keep_states=true")]
    overrides = "methods=[dpr]", "seeds=[0,1]", "detect=false", *kept
    suite = suite_of(*overrides, text="noise: [{kind: neighbour, rate: 0.5}]")
    for tool in ("one", "other"):
        for seed in suite.seeds:
            folder = tmp_path / tool / next(iter(suite.conditions)).folder(seed)
            folder.mkdir(parents=True)
            (folder / "weights.csv").write_text(f"query_id,doc_id,weight\n{tool},d,{seed}\n")
    given = {tool: str(tmp_path / tool) for tool in ("one", "other")}
    plan = noise_bench(suite.model_copy(update={"given": given}))
    kept_for = {step.name for step in plan.named("keep_states")}
    trainings = plan.named("train_dpr")
    assert len(trainings) == 6 and all(step.inputs["states"].step in kept_for for step in trainings)
    for_noise = {step.inputs["doc_vectors"].step for step in plan.named("corrupt")}
    assert all("states" not in plan.step(name).inputs for name in for_noise), "as `protocol write` has them"
