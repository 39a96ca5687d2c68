"""RocketQA as a method: how its plan is made of three retrievers and a ranker, and all of it run for real."""

import json

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.refusals import refuses
from tests.tiny import SETTINGS
from tests.tiny_models import tiny_bert

TRAIN, HELD_OUT, NEW = range(24), range(24, 32), range(32, 40)
MINED = ("mine.per_query=3", "mine.rank_to=6", "mine.run=dense", "rocketqa.hard_negatives=2")
RANKER = (
    "ranker.init.max_len=32", "ranker.warm_up.n=4", "ranker.warm_up.epochs=12", "ranker.warm_up.batch_size=8",
    "ranker.warm_up.learning_rate=0.005",
)  # fmt: skip
AUGMENT = ("rocketqa.augment={}", "data.unlabelled=train")
SURE = "rocketqa.augment.min_positive=0.4"  # what little training a test has makes of it


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Query n is about word n: `right<n>` says w50 of it, four others w51; every fourth has a second right one.

    Queries of NEW have no judgement; `twin` has none either, and reads like a query of the test split.
    """
    folder = tmp_path_factory.mktemp("beir")
    docs, queries, qrels = [], [], {"train": [], "dev": [], "test": []}
    for n in range(40):
        docs.append({"_id": f"right{n}", "title": "", "text": f"w50 w50 w50 w{n} w{n} w{n} w{42 + n % 4}"})
        docs += [
            {"_id": f"other{n}.{k}", "title": "", "text": f"w51 w51 w51 w{n} w{n} w{n} w{42 + k}"} for k in range(4)
        ]
        if n % 4 == 0:
            docs.append({"_id": f"hidden{n}", "title": "", "text": f"w50 w50 w50 w{n} w{n} w{n} w{42 + (n + 1) % 4}"})
        queries.append({"_id": f"q{n}", "text": f"w{n} w{n}"})
        if n not in NEW:
            split = "train" if n in TRAIN else "dev" if n % 2 else "test"
            qrels[split].append(f"q{n}\tright{n}\t1")
    queries.append({"_id": "twin", "text": f"w{HELD_OUT[0]} w{HELD_OUT[0]}"})
    for name, rows in (("corpus", docs), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "qrels").mkdir()
    for split, rows in qrels.items():
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]) + "\n")
    return folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


@pytest.fixture
def experiment(collection, bert):
    given = (f"data.path={collection}", "methods=[rocketqa]", "noise.rate=0", f"ranker.init.weights={bert}")
    return lambda *settings: experiments.load("demo", [*SETTINGS, *given, *MINED, *RANKER, *settings])


def inputs_of(plan, name):
    (step,) = [step for step in plan.steps if step.name == name]
    return {
        key: value if isinstance(value, str) else getattr(value, "step", value) for key, value in step.inputs.items()
    }


def params_of(plan, name):
    return plan.named(name)[0].params


def test_the_second_retriever_learns_without_what_the_ranker_calls_relevant(experiment):
    plan = train_retriever(experiment("mine.sampler=simans", "train.epochs=4", "rocketqa.epochs=3"))
    first, second = inputs_of(plan, "train_dpr@rocketqa@0"), inputs_of(plan, "train_dpr@rocketqa@1")
    assert first["model"] == second["model"] == "init_model" and "negatives" not in first
    assert first["pairs"] == second["pairs"] == "corrupt" and second["negatives"] == "mine@rocketqa@1"
    trained = [params_of(plan, f"train_dpr@rocketqa@{number}") for number in (0, 1)]
    assert [(params.epochs, params.hard_negatives) for params in trained] == [(4, 0), (3, 2)]
    ranker = inputs_of(plan, "warm_up_ranker@rocketqa")
    assert (ranker["ranker"], ranker["negatives"]) == ("init_ranker", "mine@rocketqa@0")
    assert params_of(plan, "warm_up_ranker@rocketqa").loss == "pointwise"
    judge = inputs_of(plan, "ranker_judge@rocketqa@1")
    assert judge["ranker"] == "warm_up_ranker@rocketqa" and "judged" not in judge
    assert judge["candidates"] == inputs_of(plan, "mine@rocketqa@1")["candidates"] == "candidates@rocketqa@0"
    assert inputs_of(plan, "encode@rocketqa@0:train")["model"] == "train_dpr@rocketqa@0"
    drawn = [params_of(plan, f"mine@rocketqa@{number}") for number in (0, 1)]
    assert [(params.sampler.kind, params.per_query, params.judges) for params in drawn] == [
        ("uniform", 4, ()),
        ("simans", 3, ("ranker",)),
    ]
    assert inputs_of(plan, "encode@rocketqa")["model"] == "train_dpr@rocketqa@1"
    assert inputs_of(plan, "rerank@rocketqa")["ranker"] == "warm_up_ranker@rocketqa"
    assert not {"pseudo_label", "cross_judge"} & {step.stage.name for step in plan.steps}


def test_the_rankers_negatives_may_come_from_deeper_and_other_judges_are_heard_before_it(experiment):
    plan = train_retriever(experiment("rocketqa.ranker_rank_to=30", "mine.judges=[sieve]", "mine.rank_from=2"))
    assert [params_of(plan, f"candidates@rocketqa@{number}").rank_to for number in (0, 1)] == [30, 6]
    assert [params_of(plan, f"mine@rocketqa@{n}").judges for n in (0, 1)] == [("sieve",), ("sieve", "ranker")]
    assert list(inputs_of(plan, "mine@rocketqa@1")["verdicts"]) == ["sieve", "ranker"]
    assert len(plan.named("encode@rocketqa@0:train")) == 1 and len(plan.named("warm_up_ranker")) == 1


def test_augmentation_trains_a_third_retriever_on_the_pairs_made(experiment):
    plan = train_retriever(experiment(*AUGMENT, "mine.rank_from=2"))
    looked_at = params_of(plan, "candidates@rocketqa@augment")
    assert (looked_at.queries, looked_at.rank_from, looked_at.rank_to) == ("unlabelled", 1, 6)
    assert looked_at.answering == "keep"
    assert inputs_of(plan, "encode@rocketqa@augment:train")["model"] == "train_dpr@rocketqa@1"
    made = inputs_of(plan, "pseudo_label@rocketqa@augment")
    assert (made["verdicts"], made["pairs"]) == ("ranker_judge@rocketqa@augment", "corrupt")
    third = inputs_of(plan, "train_dpr@rocketqa@2")
    assert (third["model"], third["negatives"]) == ("init_model", "mine@rocketqa@2")
    assert third["pairs"] == inputs_of(plan, "mine@rocketqa@2")["pairs"] == "pseudo_label@rocketqa@augment"
    judged = inputs_of(plan, "ranker_judge@rocketqa@2")["judged"]
    assert {label: output.step for label, output in judged.items()} == {
        "rocketqa@1": "ranker_judge@rocketqa@1",
        "augment": "ranker_judge@rocketqa@augment",
    }
    assert inputs_of(plan, "encode@rocketqa")["model"] == "train_dpr@rocketqa@2"
    without = {
        step.name: step.key for step in train_retriever(experiment("data.unlabelled=train", "mine.rank_from=2")).steps
    }
    same = {step.name for step in plan.steps if without.get(step.name) == step.key}
    assert {"train_dpr@rocketqa@0", "warm_up_ranker@rocketqa"} <= same


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["mine.per_query=0"], r"rocketqa learns from mined negatives: set mine\.per_query, to 4"),
        (["ranker.warm_up.loss=listwise"], r"ranker\.warm_up\.loss=listwise gives scores without a zero"),
        (["ranker.warm_up.ranker_scale=2"], r"ranker\.warm_up\.ranker_scale: rocketqa's ranker scores are log odds"),
        (["ranker.warm_up={loss: pointwise, ranker_scale: 2}"], r"ranker_scale=2 with loss=pointwise: scores are log"),
        (["rocketqa.augment={}"], r"data\.unlabelled=exclude leaves them out: set data\.unlabelled=train, or rocketqa"),
        ([*AUGMENT, "judges.ranker.max_relevance=0.95"], r"min_positive=0\.9 is not above judges\.ranker\.max_rel"),
        (["mine.judges=[ranker]"], r"mine\.judges: ranker reads a ranker that only some methods train"),
    ],
)
def test_what_cannot_be_planned_is_refused(experiment, settings, message):
    with pytest.raises(ConfigError, match=message):
        train_retriever(experiment(*settings))


@pytest.fixture
def run(experiment, store):
    """`run(to, *settings)`: the tables by step and artifact, and the notes by step."""

    def go(to, *settings):
        outcome = run_experiment(
            experiment(*settings), Choice(to=to), Execution(store=store, runtime=Runtime(device="cpu", threads=1))
        )
        metas = {name: result.meta for name, result in outcome.results.items()}
        tables = {
            (name, artifact): store.builds.table(meta.ref(artifact)).to_pylist()
            for name, meta in metas.items()
            for artifact in meta.artifacts
            if meta.artifacts[artifact].rows is not None
        }
        return tables, {name: meta.notes for name, meta in metas.items()}

    return go


def drawn(tables, step):
    return {(row["query_id"], row["doc_id"]) for row in tables[step, "negatives"]}


def test_all_steps_run_and_the_ranker_denoises_and_pairs(run):
    tables, notes = run(None, *AUGMENT, SURE)
    noisy, *denoised = (drawn(tables, f"mine@rocketqa@{number}") for number in (0, 1, 2))
    assert any(doc.startswith("hidden") for _, doc in noisy)
    assert all(found and all(doc.startswith("other") for _, doc in found) for found in denoised)
    pairs = tables["pseudo_label@rocketqa@augment", "pseudo_pairs"]
    made = {(row["query_id"], row["doc_id"]) for row in pairs if row["score"] is not None}
    new = {f"q{n}" for n in NEW}
    assert made and {query for query, _ in made} <= new  # not of twin, and not of dev and test
    assert not any(doc.startswith("other") for _, doc in made)
    right = {(query, f"{kind}{query[1:]}") for query in new for kind in ("right", "hidden")}
    assert len(made & right) >= len(made) / 2
    assert sum(row["split"] == "train" for row in pairs) == len(TRAIN) + len(made)
    assert notes["train_dpr@rocketqa@2"]["training_pairs"] == len(TRAIN) + len(made)
    asked = {query for query, _ in denoised[1]}
    assert asked <= {f"q{n}" for n in TRAIN} | {query for query, _ in made} and asked & new
    judged = len(tables["candidates@rocketqa@2", "candidates"])
    assert notes["ranker_judge@rocketqa@2"]["pairs_read"] < judged
    measured = {row["system"] for row in tables["compare", "comparison"]}
    assert {"rocketqa", "rocketqa_reranked"} <= measured


def test_labelled_queries_get_further_pairs_where_that_is_set(run):
    tables, _ = run("pseudo_label", "rocketqa.augment={queries: all, min_positive: 0.4}")
    pairs = tables["pseudo_label@rocketqa@augment", "pseudo_pairs"]
    made = {(row["query_id"], row["doc_id"]) for row in pairs if row["score"] is not None}
    hidden = {(f"q{n}", f"hidden{n}") for n in TRAIN if n % 4 == 0}
    assert made & hidden and not any(doc.startswith("other") for _, doc in made)
    assert {query for query, _ in made} <= {f"q{n}" for n in TRAIN}


def test_data_without_unlabelled_queries_cannot_be_augmented_by_them(collection, experiment, store, tmp_path):
    judged = tmp_path / "judged"
    (judged / "qrels").mkdir(parents=True)
    for path in collection.rglob("*.*"):
        (judged / path.relative_to(collection)).write_text(path.read_text())
    lines = (collection / "queries.jsonl").read_text().splitlines(keepends=True)
    unlabelled = {f"q{n}" for n in NEW} | {"twin"}
    (judged / "queries.jsonl").write_text("".join(line for line in lines if json.loads(line)["_id"] not in unlabelled))
    exp = experiment(*AUGMENT, f"data.path={judged}", "ranker.warm_up.epochs=1", "train.epochs=1")
    with refuses(ConfigError, "mining.all_training_queries_pair", n_training=24):
        run_experiment(exp, Choice(to="pseudo_label"), Execution(store=store, runtime=Runtime(device="cpu", threads=1)))
