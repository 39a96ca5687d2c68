"""The papers' rows: each has a recipe, and `noisyir run RECIPE --dry-run` lays out what the paper's table says."""

import json

import pytest

from noisyir.base.errors import ConfigError
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.refusals import refuses

SECOND = {"train_dpr@dpr@1", "mine@dpr@2", "train_dpr@dpr"}
NPC_SECOND = SECOND | {"train_npc@npc@1", "mine@npc@2", "train_npc@npc"}
NPC = {"train_dpr@dpr", "train_npc@npc", "mine"}
ROUNDS = {"train_dpr@warm_up", "mine@ance@1", "train_dpr@ance@1", "mine@ance@10", "train_dpr@ance@10"}
AR2 = {"warm_up_ranker@ar2", "train_ar2@9", "mine@ar2_continued@0", "train_ar2@continued@0"}
SIEVED = AR2 | {"sieve@ar2_continued@0", "train_ar2@continued@4"}
SIMANS, TRISAMPLER = {"kind": "simans", "a": 0.5, "b": 0.0}, {"kind": "trisampler"}
# row of a paper: recipe and overrides, steps that must be laid out, settings by path, and one published number
ROWS = {
    **{
        f"NPC, Table 2, {data} at {rate}, {negatives}": (
            [f"{data}_npc{end}", f"noise.rate={rate}"],
            steps | ({"train_dpr@oracle"} if rate else set()),
            {"noise.rate": rate, "npc.warmup_epochs": 10, "npc.consistency": 1.0, "train.batch_size": 512},
            ("npc", "AnswerMatch@1", value),
        )
        for data, negatives, end, steps, values in (
            ("nq", "BM25", "", NPC, (0.4555, 0.4522, 0.4287)),
            ("nq", "hard", "_hn", NPC_SECOND, (0.5194, 0.5185, 0.4881)),
            ("tq", "BM25", "", NPC, (0.5237, 0.5234, 0.5080)),
            ("tq", "hard", "_hn", NPC_SECOND, (0.5636, 0.5603, 0.5309)),
        )
        for rate, value in zip((0.0, 0.2, 0.5), values, strict=True)
    },
    "NPC, Table 1, StaQC": (["staqc_npc"], {"train_npc@npc"}, {"npc_detect.posterior": "bayes"}, ("npc", "RR", 0.3039)),
    "NPC, Table 1, StaQC, hard": (["staqc_npc_hn"], NPC_SECOND, {"train.scale": 20.0}, ("npc", "RR", 0.3136)),
    "NPC, Table 1, SO-DS": (["so_ds_npc"], {"train_npc@npc"}, {"train.batch_size": 256}, ("npc", "RR", 0.3096)),
    "NPC, Table 1, SO-DS, hard": (["so_ds_npc_hn"], NPC_SECOND, {"npc.warmup_epochs": 5}, ("npc", "RR", 0.3249)),
    "DistDR": (["nq_dist_dr"], {"evidence@dist_dr@0", "evidence@dist_dr@10", "train_dpr@dist_dr@10"}, {}, None),
    "CDS, Table 2": (
        ["nq_dist_dr_cds"],
        {"evidence@dist_dr@10", "train_reader@cds_pa", "ensemble@dense", "score_reading@ensemble"},
        {"task.spans.top_k": 20, "task.labels": "dense"},
        ("ensemble", "EM dense", 0.409),
    ),
    "DPR's repository, round 2": (["nq_dpr_hn"], SECOND, {"mine.run": "dense"}, ("dpr", "AnswerMatch@1", 0.5247)),
    **{
        f"Sieve, Table 4, {data}, batch {batch}": (
            [f"{data}_ccr{end}"],
            {"train_dpr@dpr"},
            {"data.subset": subset, "train.batch_size": batch, "train.ccr.from_epoch": 35, "train.epochs": 40},
            ("dpr", "AnswerMatch@100", value),
        )
        for data, subset, batch, end, value in (
            ("nq", "nq", 128, "", 0.861),
            ("nq", "nq", 64, "_64", 0.854),
            ("tq", "trivia", 128, "", 0.851),
            ("tq", "trivia", 64, "_64", 0.849),
        )
    },
    **{
        f"Sieve, Tables 1 to 3, {recipe}": (
            [recipe],
            SIEVED,
            {
                "ar2.continued.mine.judges": ["sieve"],
                **{f"ar2.continued.train.{key}": value for key, value in of.items()},
            },
            ("ar2_continued", "AnswerMatch@100", value),
        )
        for recipe, of, value in (
            ("nq_ar2_sieve", {}, 0.907),
            ("nq_ar2_sieve_32", {"retriever_batch_size": 32}, 0.905),
            ("nq_ar2_sieve_32_n5", {"retriever_batch_size": 32, "n": 5}, 0.906),
            ("nq_ar2_sieve_32_n1", {"retriever_batch_size": 32, "n": 1}, 0.903),
            ("tq_ar2_sieve", {}, 0.882),
            ("tq_ar2_sieve_32", {"retriever_batch_size": 32}, 0.883),
        )
    },
    **{
        f"SimANS, TriSampler, {recipe}": (
            [recipe],
            AR2 if "ar2" in recipe else {"train_dpr@rocketqa@1"} if "rocketqa" in recipe else ROUNDS,
            {f"{place}.rank_to": depth, f"{place}.sampler": sampler},
            published,
        )
        for recipe, place, depth, sampler, published in (
            (
                "nq_ar2_simans",
                "ar2.continued.mine",
                100,
                SIMANS | {"b": 1.0},
                ("ar2_continued", "AnswerMatch@20", 0.862),
            ),
            ("tq_ar2_simans", "ar2.continued.mine", 100, SIMANS, ("ar2_continued", "AnswerMatch@20", 0.846)),
            ("msmarco_ar2_simans", "ar2.continued.mine", 200, SIMANS, ("ar2_continued", "RR@10", 0.409)),
            ("nq_ar2_near_positive", "ar2.continued.mine", 200, "uniform", ("ar2_continued", "AnswerMatch@20", 0.855)),
            ("msmarco_ar2_near_positive", "ar2.continued.mine", 400, "uniform", ("ar2_continued", "RR@10", 0.403)),
            ("nq_ar2_trisampler", "ar2.continued.mine", 200, "trisampler", ("ar2_continued", "AnswerMatch@20", 0.865)),
            ("tq_ar2_trisampler", "ar2.continued.mine", 200, "trisampler", ("ar2_continued", "AnswerMatch@20", 0.85)),
            ("msmarco_ar2_trisampler", "ar2.continued.mine", 400, "trisampler", ("ar2_continued", "RR@10", 0.414)),
            ("nq_ance", "mine", 200, {"kind": "uniform"}, ("ance", "AnswerMatch@20", 0.819)),
            ("tq_ance", "mine", 200, {"kind": "uniform"}, ("ance", "AnswerMatch@20", 0.803)),
            ("msmarco_ance", "mine", 200, {"kind": "uniform"}, ("ance", "RR@10", 0.33)),
            ("nq_ance_trisampler", "mine", 200, TRISAMPLER, ("ance", "AnswerMatch@20", 0.838)),
            ("tq_ance_trisampler", "mine", 200, TRISAMPLER, ("ance", "AnswerMatch@20", 0.834)),
            ("msmarco_ance_trisampler", "mine", 400, TRISAMPLER, ("ance", "RR@10", 0.358)),
            ("nq_rocketqa_trisampler", "mine", 200, TRISAMPLER, ("rocketqa", "AnswerMatch@20", 0.853)),
            ("msmarco_rocketqa_trisampler", "mine", 400, TRISAMPLER, ("rocketqa", "RR@10", 0.383)),
        )
    },
}


def at(settings, path):
    """A setting by its dotted path; a variant by what was set of it."""
    for part in path.split("."):
        settings = settings[part] if isinstance(settings, dict) else getattr(settings, part)
    dumped = settings.model_dump(exclude_unset=True) if hasattr(settings, "model_dump") else settings
    return dumped | {"kind": settings.kind} if hasattr(settings, "kind") else dumped


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_a_paper_is_laid_out_by_its_recipe(row, tmp_path, monkeypatch, capsys):
    (recipe, *overrides), steps, settings, published = ROWS[row]
    exp = experiments.load(recipe, overrides)
    assert {path: at(exp, path) for path in settings} == settings
    claims = [(said.system, said.measure, said.value) for said in exp.claims]
    assert published in claims if published else not claims
    monkeypatch.chdir(tmp_path)
    given = ["--dry-run", "--json", "--to", "ingest", "--store", str(tmp_path / "store")]
    assert main(["run", recipe, *overrides, *given]) == 0
    laid_out = {step["name"] for step in json.loads(capsys.readouterr().out)["steps"]}
    assert steps <= laid_out, steps - laid_out


def test_every_recipe_at_full_size_is_a_row():
    listed = {recipe for (recipe, *_), *_ in ROWS.values()}
    papers = ("nq_", "tq_", "msmarco_", "staqc_", "so_ds_")
    others = {name for name in experiments.names() if name.startswith(papers)} - listed
    # AR2's, RocketQA's, DPR's and CDS's own rows, and those of documents
    assert others == {
        "nq_ar2", "tq_ar2", "msmarco_ar2", "msmarco_ar2_sieve", "msmarco_doc_ar2", "msmarco_doc_ar2_trisampler",
        "nq_rocketqa", "msmarco_rocketqa", "nq_dpr", "tq_dpr", "nq_cds", "tq_cds",
    }  # fmt: skip


def test_a_recipe_may_be_like_one_that_ships_and_like_no_other(tmp_path):
    (mine := tmp_path / "mine.yaml").write_text("like: nq_ccr\ntrain: {batch_size: 32}\n")
    exp = experiments.load(str(mine))
    assert (exp.name, exp.train.batch_size, exp.train.ccr.from_epoch) == ("mine", 32, 35)
    mine.write_text("like: nq_cr\n")
    with refuses(ConfigError, "methods.like_nothing", base="nq_cr", hint=" (did you mean nq_ccr?)"):
        experiments.load(str(mine))


@pytest.mark.parametrize(("first", "trained_on"), [("{run: bm25}", True), ("{per_query: 0}", False)])
def test_the_second_training_begins_again_on_negatives_of_the_first_model(first, trained_on):
    given = ["methods=[npc]", "mine.per_query=2", "mine.run=dense", "train.hard_negatives=1", "mine.model=round_1"]
    plan = train_retriever(experiments.load("demo", [*given, f"mine.round_1={first}"]))
    once, twice = (
        next(step for step in plan.steps if step.name == name) for name in ("train_npc@npc@1", "train_npc@npc")
    )
    (encode,) = (step for step in plan.steps if step.name == "encode@npc@2:train")
    assert encode.inputs["model"].step == once.name and twice.inputs["negatives"].step == "mine@npc@2"
    assert once.inputs["model"] == twice.inputs["model"] and once.inputs["model"].step == "init_model"
    assert getattr(once.inputs.get("negatives"), "step", None) == ("mine" if trained_on else None)
    assert (once.params.hard_negatives, twice.params.hard_negatives) == (int(trained_on), 1)


def test_methods_that_mine_by_themselves_refuse_a_first_round():
    with refuses(ConfigError, "methods.no_first_round"):
        train_retriever(experiments.load("demo", ["methods=[ance]", "mine.per_query=1", "mine.model=round_1"]))


def test_a_round_of_distdr_trains_on_from_the_last_on_evidence_that_its_model_ranks():
    given = ["methods=[dist_dr]", "mine.per_query=2", "mine.run=dense", "refresh.rounds=2", "train.hard_negatives=1"]
    plan = train_retriever(experiments.load("demo", given))
    step = {one.name: one for one in plan.steps}
    assert step["evidence@dist_dr@0"].inputs["run"].step == "bm25@dist_dr@0:train"
    assert step["train_dpr@dist_dr@0"].inputs["model"].step == "init_model"
    for number in (1, 2):
        trained, found = step[f"train_dpr@dist_dr@{number}"], step[f"evidence@dist_dr@{number}"]
        assert step[found.inputs["run"].step].name == f"search@dist_dr@{number}:train"
        assert step[f"encode@dist_dr@{number}:train"].inputs["model"].step == f"train_dpr@dist_dr@{number - 1}"
        assert trained.inputs["model"].step == f"train_dpr@dist_dr@{number - 1}"
        assert trained.inputs["pairs"].step == found.name
        assert step[trained.inputs["negatives"].step].inputs["pairs"].step == found.name
