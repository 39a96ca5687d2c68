"""What each method against wrong pairs is made of: which stage trains, on which pairs, after which other stages."""

import json
from collections import Counter

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.registry.tracker import Tracker
from tests.refusals import refuses

ALWAYS = {"ingest", "init_model", "corrupt"}
JUDGED = {"bm25_index", "score_pairs", "detect"}
TAUGHT = {"bm25_index", "bm25", "encode", "index", "search", "pool_candidates", "score_by_retrieval", "choose_lists"}
# the stage that trains, the artifacts that it learns from, the stages before it, and its settings
EXPECTED = {
    "dpr": ("train_dpr", {"noisy_pairs"}, set(), {}),
    "oracle": ("train_dpr", {"clean_pairs"}, set(), {}),
    "ance": ("train_dpr", {"noisy_pairs"}, set(), {"epochs": 1, "warmup_ratio": 0.0}),
    "drop": ("train_dpr", {"noisy_pairs", "noise_flags"}, JUDGED, {"flagged": "drop"}),
    "reweight": ("train_dpr", {"noisy_pairs", "noise_flags"}, JUDGED, {"flagged": "weight"}),
    "relabel": ("train_dpr", {"repaired_pairs", "repaired_flags"}, {*JUDGED, "repair"}, {"flagged": "drop"}),
    "reweight_relabel": ("train_dpr", {"repaired_pairs", "repaired_flags"}, {*JUDGED, "repair"}, {"flagged": "weight"}),
    "npc": ("train_npc", {"noisy_pairs"}, set(), {"detect": "each_epoch", "consistency": 0.0, "doubt": 0.0}),
    "npc_flags": ("train_npc", {"noisy_pairs", "noise_flags"}, JUDGED, {"detect": "given"}),
    "npc_relabel": ("train_npc", {"repaired_pairs", "repaired_flags"}, {*JUDGED, "repair"}, {"detect": "given"}),
    "distill": ("train_distill", {"noisy_pairs", "teacher_scores"}, TAUGHT, {"contrastive": 0.0, "hard_negatives": 15}),
    "distill_contrast": ("train_distill", {"noisy_pairs", "teacher_scores"}, TAUGHT, {"contrastive": 0.1}),
}
NEED_MINED = {
    "ar2",
    "ar2_continued",
    "rocketqa",
    "dist_dr",
}  # test_ar2_method.py, test_rocketqa_method.py, test_paper_rows.py
ALONE = {"auto", "static"}  # test_auto.py, and a test below
PLAIN = [name for name in Method.variants() if name not in NEED_MINED | ALONE]
TEXTS = {"queries", "corpus", "qrels", "model"}  # what every trainer reads besides


@pytest.fixture
def plan_of(collection):
    """`plan_of("npc", "noise.rate=0.5", ...)`: the plan of an experiment with these methods and settings."""

    def make(*methods_and_settings, pipeline=train_retriever):
        settings = [text for text in methods_and_settings if "=" in text]
        methods = [text for text in methods_and_settings if "=" not in text]
        overrides = [f"data.path={collection}", f"methods=[{','.join(methods)}]", *settings]
        given = {"name": "x", "data": {"kind": "beir"}, "noise": {"rate": 0.5}}
        return pipeline(experiments.from_settings(given, overrides))

    return make


def step_of(plan, output):
    return next(step for step in plan.steps if step.name == output.step)


def trainer(plan, label):
    """The step whose model the system `label` of the report searched with."""
    (report,) = plan.named("report")
    search = step_of(plan, report.inputs["runs"][label])
    encode = step_of(plan, search.inputs["query_vectors"])
    return step_of(plan, encode.inputs["model"])


def stages(plan, step):
    """The stages of a step's ancestors."""
    return {found.stage.name for found in plan.steps if found.name in plan.upto([step.name])} - {step.stage.name}


def test_a_static_model_is_trained_from_the_transformers_tokens_and_encoded_by_torch(plan_of):
    alone = plan_of("dpr", "model.backbone=transformer", "train.freeze=4", "train.keep_states=true",
                    "train.learning_rate=1e-5")  # fmt: skip
    settings = ("model.backbone=transformer", "train.freeze=4", "train.keep_states=true", "encode.backend=openvino")
    plan = plan_of("static", "dpr", "train.learning_rate=1e-5", *settings)
    step = trainer(plan, "static")
    assert (step.params.freeze, step.params.epochs, step.params.learning_rate) == (None, 10, 3e-3)
    assert step_of(plan, step.inputs["model"]).params.backbone == "static"
    assert (plan.named("encode@static")[0].params.backend, plan.named("encode@dpr")[0].params.backend) == (
        "torch", "openvino")  # fmt: skip
    assert trainer(plan, "dpr").key == trainer(alone, "dpr").key, "nothing moves the others"
    with refuses(ConfigError, "methods.static_already"):
        plan_of("static")


@pytest.mark.parametrize("method", PLAIN)
def test_each_method_trains_by_its_stage_on_its_pairs(plan_of, method):
    stage, learnt_from, before, settings = EXPECTED[method]
    plan = plan_of(method)
    step = trainer(plan, method)
    assert step.stage.name == stage
    assert {output.artifact for name, output in step.inputs.items() if name not in TEXTS} == learnt_from
    assert stages(plan, step) == ALWAYS | before
    found = {
        **step.params.model_dump(),
        **step.params.model_dump().get("npc", {}),
        **step.params.model_dump().get("distill", {}),
    }
    assert {name: found[name] for name in settings} == settings
    assert plan.results["model"].step == step.name


def test_the_papers_equations_are_read_literally_where_that_is_asked_for(plan_of):
    usual = trainer(plan_of("npc"), "npc").params.detection
    assert (usual.method, usual.min_rate, usual.components, usual.posterior) == ("gmm", 0.0, "made_up", "monotone")
    literal = trainer(plan_of("npc", "npc_detect.components=two", "npc_detect.posterior=bayes"), "npc").params.detection
    assert literal == usual.model_copy(update={"components": "two", "posterior": "bayes"})


def test_steps_that_methods_share_are_in_the_plan_once(plan_of):
    plan = plan_of(*PLAIN, "bm25_index.engine=bm25s")
    count = Counter(step.stage.name for step in plan.steps)
    assert len({step.key for step in plan.steps}) == len(plan.steps)
    once = ("ingest", "init_model", "corrupt", "bm25_index", "detect", "repair", "score_detection")
    assert {name: count[name] for name in once} == dict.fromkeys(once, 1)
    assert count["score_pairs"] == 1  # the only detector
    trainers = ("train_dpr", "train_npc", "train_distill")
    assert sum(count[name] for name in trainers) == len(PLAIN)
    assert set(plan.named("report")[0].inputs["runs"]) == {
        "bm25",
        "zero_shot",
        *PLAIN,
        *(f"{name}_hybrid" for name in ("zero_shot", *PLAIN)),
    }


def test_models_as_they_are_are_ranked_alone_and_with_bm25_and_move_no_other_key(plan_of):
    without, plan = plan_of("dpr"), plan_of("dpr", "as_is={minilm: {backend: openvino}}", "encode.dimensions=100")
    runs = plan.named("report")[0].inputs["runs"]
    assert set(runs) == {"bm25", "zero_shot", "minilm_as_is", "dpr", "zero_shot_hybrid", "minilm_as_is_hybrid",
                         "dpr_hybrid"}  # fmt: skip
    (encode,) = plan.named("encode@minilm_as_is")
    assert (encode.params.backend, encode.params.dimensions) == ("openvino", None)
    (model,) = plan.named("init_model@minilm")
    assert model.key != plan.named("init_model")[0].key and model.params.backbone == "transformer"
    assert trainer(plan, "dpr").key == trainer(without, "dpr").key


def test_a_model_that_training_starts_from_is_not_listed_twice(plan_of):
    plan = plan_of("dpr", "as_is={minilm: {}}", "model.backbone=transformer")
    assert "minilm_as_is" not in plan.named("report")[0].inputs["runs"]


def test_the_order_of_methods_moves_no_key_but_the_last_one_is_kept(plan_of):
    one, other = plan_of("npc", "relabel", "dpr"), plan_of("dpr", "relabel", "npc")
    trained = {label: trainer(one, label).key for label in ("npc", "relabel", "dpr")}
    assert trained == {label: trainer(other, label).key for label in trained}
    assert (one.results["model"].stage, other.results["model"].stage) == ("train_dpr", "train_npc")


def test_without_noise_the_oracle_is_dpr(plan_of):
    plan = plan_of("dpr", "oracle", "noise.rate=0")
    assert trainer(plan, "oracle") is trainer(plan, "dpr")
    assert len(plan.named("train_dpr")) == 1 and len(plan.named("search")) == 2  # dpr's and zero_shot's
    runs = plan.named("report")[0].inputs["runs"]
    assert runs["oracle"] == runs["dpr"]


def test_only_scoring_reads_the_truth_and_only_the_oracle_the_clean_pairs(plan_of):
    plan = plan_of(*PLAIN, "audit={}")
    readers = {"noise_truth": set(), "clean_pairs": set()}
    for step in plan.steps:
        for output in step.outputs_needed():
            readers.get(output.artifact, set()).add(step.name)
    assert readers == {"noise_truth": {"score_detection", "loss_section"}, "clean_pairs": {"train_dpr@oracle"}}


def test_all_who_flagged_pairs_are_scored_and_nobody_where_nobody_did(plan_of):
    (scored,) = plan_of("dpr", "npc", "relabel", "npc_flags").named("score_detection")
    assert list(scored.inputs["flags"]) == ["npc", "detectors", "npc_flags"]
    assert list(scored.inputs["estimate"]) == ["detectors"]
    silent = plan_of("dpr", "oracle")
    assert not any(step.stage.name == "score_detection" for step in silent.steps)
    assert "detection" not in silent.named("report")[0].inputs


def test_mined_negatives_go_to_every_trainer_but_not_into_pair_scores(plan_of):
    plan = plan_of(*PLAIN, "mine.per_query=2", "train.hard_negatives=1", "bm25_index.engine=bm25s")
    by_labels = [method for method in PLAIN if not method.startswith("distill")]  # the others learn from their lists
    assert all(trainer(plan, method).inputs["negatives"].stage == "mine" for method in by_labels)
    assert not any("negatives" in step.inputs for step in plan.named("score_pairs"))
    hard = plan_of("drop", "mine.per_query=2", "detectors={ppl: {kind: pair_nll, hard_negatives: 1}}")
    assert hard.named("score_pairs")[0].inputs["negatives"].stage == "mine"


def test_neighbour_noise_is_drawn_by_the_untrained_model(plan_of):
    (corrupt,) = plan_of("dpr", "noise.kind=neighbour").named("corrupt")
    assert corrupt.inputs["doc_vectors"].step == "encode@for_noise"


def test_an_audit_wants_vectors_of_no_held_out_queries_for_pairs_may_come_without_any(tmp_path, store):
    rows = [{"question": f"what of thing{n}?", "answer": f"thing{n} is word{n}."} for n in range(30)]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = {"name": "x", "data": {"kind": "pairs", "path": str(path)}, "noise": {"kind": "neighbour", "rate": 0.2}}
    how = {"runtime": Runtime(device="cpu", threads=1), "tracker": Tracker(), "observer": Observer()}
    exp = experiments.from_settings(given, ["detectors={b: bm25_margin}"])
    outcome = run_experiment(exp, Choice(to="corrupt"), Execution(store=store, **how), pipeline=audit_pairs)
    truth = store.builds.table(outcome.results["corrupt"].meta.ref("noise_truth"))
    assert sum(truth["is_noisy"].to_pylist()) == 6


@pytest.mark.parametrize("kind", ["half_answer", "absent"])
def test_noise_that_changes_the_collection_is_in_all_that_is_made_of_it(plan_of, kind):
    settings = (
        f"noise.kind={kind}",
        "mine.per_query=2",
        "train.hard_negatives=1",
        "bm25_index.engine=bm25s",
        "audit={}",
    )
    plan = plan_of(*PLAIN, *settings)
    (corrupt,) = plan.named("corrupt")
    assert corrupt.inputs["corpus"].step == "ingest" and plan.results["corpus"].step == "corrupt"
    for step in plan.steps:
        if step is not corrupt and "corpus" in step.inputs:
            assert step.inputs["corpus"].step == "corrupt", step.name
        if "qrels" in step.inputs:
            assert step.inputs["qrels"].step == "ingest", "judgements stay"


@pytest.mark.parametrize("noise", ["noise={kind: half_answer, rate: 0}", "noise.kind=confusable", "noise.kind=vague"])
def test_other_noise_leaves_the_collection_to_be_shared(plan_of, noise):
    plan = plan_of("dpr", noise)
    assert {step.inputs["corpus"].step for step in plan.steps if "corpus" in step.inputs} == {"ingest"}
    (corrupt,) = plan.named("corrupt")
    assert ("queries" in corrupt.inputs) == ("half" not in noise)


def test_an_audit_shows_the_first_searching_detectors_competitors(plan_of):
    plan = plan_of("dpr", "detectors={ppl: pair_nll, far: {kind: margin}, bm25: bm25_margin}", pipeline=audit_pairs)
    (step,) = plan.named("audit")
    assert step.inputs["competitors"].step == "score_pairs@far" and step.inputs["flags"].step == "detect"
    none = plan_of("dpr", "detectors={ppl: pair_nll}", pipeline=audit_pairs)
    assert "competitors" not in none.named("audit")[0].inputs
    assert not any(step.stage.name in ("train_dpr", "train_npc", "search") for step in plan.steps)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["npc_flag"], r" methods: there is no 'npc_flag' \(did you mean npc_flags\?\); there are .*npc_flags"),
        (["methods=[]"], r"methods: .*at least 1 item"),
        (["dpr", "detectors.x={kind: margn}"], r"detectors\.x: there is no 'margn' \(did you mean margin\?\)"),
        (["dpr", "as_is={my model: {}}"], r"as_is: 'my model' is not a name"),
        (["dpr", "as_is={x: {weight: minilm}}"], r"weight"),
        (["dpr", "audit.sampl=3"], r"unknown key audit\.sampl \(did you mean audit.sample\?\); known here: "),
    ],
)
def test_what_cannot_be_planned_is_refused_in_one_line(plan_of, settings, message):
    with pytest.raises(ConfigError, match=message):
        plan_of(*settings)


def test_the_model_that_is_kept_is_the_last_methods_or_the_one_that_keep_names(plan_of):
    last, first = plan_of("dpr", "npc"), plan_of("dpr", "npc", "keep=dpr")
    assert (last.results["model"].step, first.results["model"].step) == ("train_npc@npc", "train_dpr@dpr")
    assert (last.results["index"].step, first.results["index"].step) == ("index@npc", "index@dpr")
    assert {step.key for step in last.steps if "report" not in step.name} >= {
        step.key for step in first.steps if "report" not in step.name
    }
    with pytest.raises(ConfigError, match="keep: 'drop' is not among the methods: dpr, npc"):
        plan_of("dpr", "npc", "keep=drop")
    with pytest.raises(ConfigError, match="names one of them twice"):
        plan_of("dpr", "dpr")


@pytest.mark.parametrize(
    ("flagged", "learnt_from", "before"),
    [
        ("drop", {"noisy_pairs", "noise_flags", "teacher_scores"}, JUDGED),
        ("weight", {"noisy_pairs", "noise_flags", "teacher_scores"}, JUDGED),
        ("relabel", {"repaired_pairs", "repaired_flags", "teacher_scores"}, {*JUDGED, "repair"}),
    ],
)
def test_distillation_reads_verdicts_where_it_was_asked_to(plan_of, flagged, learnt_from, before):
    plan = plan_of("distill_contrast", f"distill.flagged={flagged}")
    step = trainer(plan, "distill_contrast")
    assert {output.artifact for name, output in step.inputs.items() if name not in TEXTS} == learnt_from
    assert stages(plan, step) == ALWAYS | TAUGHT | before


def test_distillation_has_the_contrastive_weight_of_its_method_or_the_one_that_was_set(plan_of):
    methods = "distill", "distill_contrast"
    usual, given = plan_of(*methods), plan_of(*methods, "distill.contrastive=1")
    assert [trainer(usual, method).params.distill.contrastive for method in methods] == [0.0, 0.1]
    assert trainer(given, "distill") is trainer(given, "distill_contrast")
    assert trainer(given, "distill").params.distill.contrastive == 1.0
    with pytest.raises(ConfigError, match=r"distill\.contrastive=0 leaves .* flagged without effect"):
        plan_of("distill", "distill.flagged=drop")
