"""Scored lists as pipelines wire them: who scores, who is in a list, and that the given document always is."""

import json

import numpy as np
import pyarrow.compute as pc
import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.held_out import words_of
from noisyir.data.scored_lists import SHAPES
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.data import context_of, data_of
from noisyir.models.cross_encoder import CrossEncoder, TextPairs, load_cross_encoder
from noisyir.models.text_tokenizer import passage_text
from noisyir.training import ranker as ranker_training
from tests.refusals import refuses
from tests.tiny import SETTINGS, tiny_data
from tests.tiny_models import tiny_bert, tiny_classifier
from tests.unit.stages.pair_world import model


def teach_pairs(exp):
    """A plan of the scored lists that the experiment's teacher gives the training queries."""
    plan = Plan(exp.seed)
    context = context_of(plan, exp, data_of(plan, exp))
    plan.keep(teacher_scores=context.teacher_scores(), pairs=context.noisy["noisy_pairs"])
    plan.keep(corpus=context.data["corpus"], queries=context.data["queries"])
    return plan


def words_data(folder):
    """A collection of words that a tiny BERT knows; every fifth training query is a copy of the one before."""
    (folder / "qrels").mkdir(parents=True)
    documents = [{"_id": f"d{n}", "title": "", "text": f"w{n} w{(n + 1) % 60} w{(n + 7) % 60}"} for n in range(60)]
    asked = {"train": range(40), "dev": range(40, 50), "test": range(50, 60)}
    rows = []
    for split, numbers in asked.items():
        texts = {
            n: f"w{n} w{n + 1}" if n % 5 or split != "train" else f"W{n - 1 if n else 1}, W{n or 2}" for n in numbers
        }
        rows += [{"_id": f"{split}{n}", "text": text} for n, text in texts.items()]
        lines = [f"{split}{n}\td{n}\t1" for n in numbers]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *lines]) + "\n")
    for name, written in (("corpus", documents), ("queries", rows)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in written))
    return f"data.path={folder}", f"model.weights={model(folder / 'model')}"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The settings of two tiny collections, and a store that the tests share."""
    folder = tmp_path_factory.mktemp("taught")
    collections = {"topics": tiny_data(folder / "topics"), "words": words_data(folder / "words")}
    return collections, Store(folder / "store", home=folder)


@pytest.fixture
def teach(world):
    """`teach("teacher=bm25", ...)`: the tables and notes of a run, by stage."""
    collections, store = world

    def run(*changes, of="topics", refresh=(), processes=1):
        exp = experiments.load("demo", [*SETTINGS, *collections[of], "pool.depth=12", *changes])
        execution = Execution(store=store, runtime=Runtime(device="cpu", threads=1, processes=processes))
        outcome = run_experiment(exp, Choice(refresh=refresh), execution, teach_pairs)
        metas = {result.meta.stage: result.meta for result in outcome.results.values()}
        tables = {name: store.builds.table(ref) for name, ref in outcome.kept.items()}
        pool = metas["pool_candidates" if "pool_candidates" in metas else "import_scores"]
        tables["pool"] = store.builds.table(pool.ref("candidate_pool"))
        return tables, {name: meta.notes for name, meta in metas.items()}

    return run


@pytest.mark.parametrize("teacher", ["bm25", "bi_encoder", "hybrid", "average"])
def test_a_list_holds_the_given_document_and_so_many_others(teach, teacher):
    tables, _ = teach(f"teacher={teacher}", "lists.size=6")
    lists, pairs = tables["teacher_scores"], tables["pairs"]
    sizes = lists.group_by("query_id").aggregate([("doc_id", "count")])
    given = {(row["query_id"], row["doc_id"]) for row in pairs.to_pylist() if row["split"] == "train"}
    held = {(row["query_id"], row["doc_id"]) for row in lists.to_pylist()}
    assert given <= held and set(sizes["query_id"].to_pylist()) == {query for query, _ in given}
    assert set(sizes["doc_id_count"].to_pylist()) == {6}
    assert lists["fold"].unique().to_pylist() == [-1]
    assert np.isfinite(lists["score"].to_numpy()).all()


def test_the_lists_of_a_teacher_are_top_random_or_spread(teach):
    spread, best, drawn = (
        teach("teacher=bm25", "lists.size=6", f"lists.candidates={how}")[0]["teacher_scores"]
        for how in ("stratified", "top", "random")
    )
    least, mean = (
        {
            name: getattr(pc, f)(table["score"]).as_py()
            for name, table in (("spread", spread), ("best", best), ("drawn", drawn))
        }
        for f in ("min", "mean")
    )
    assert mean["best"] > mean["spread"] and mean["best"] > mean["drawn"] and least["spread"] <= least["best"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


def test_no_query_is_scored_by_a_ranker_that_saw_it_or_a_copy_of_it(teach, bert, monkeypatch):
    met, read = [], []
    warmed, logits = ranker_training.warm_up, CrossEncoder.logits

    def warm_up(ranker, lists, *rest):
        met.append({words_of(text) for text in lists.queries.to_pylist()})
        return warmed(ranker, lists, *rest)

    def judge(self, texts, *rest):
        read.append({words_of(text) for text in texts.queries})
        return logits(self, texts, *rest)

    monkeypatch.setattr(ranker_training, "warm_up", warm_up)
    monkeypatch.setattr(CrossEncoder, "logits", judge)
    small = ("ranker.init.layers=1", "ranker.init.max_len=24", "teacher.epochs=1", "teacher.n=3")
    tables, notes = teach("teacher=ranker", "teacher.folds=3", f"ranker.init.weights={bert}", *small, of="words")
    assert len(met) == len(read) == 3 and all(len(one) > 8 for one in (*met, *read))
    assert not any(trained & scored for trained, scored in zip(met, read, strict=True))
    lists, queries = tables["teacher_scores"], tables["queries"]
    text = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    folds = {(row["fold"], words_of(text[row["query_id"]])) for row in lists.to_pylist()}
    assert {fold for fold, _ in folds} == {0, 1, 2} and len({words for _, words in folds}) == len(folds)
    assert notes["score_by_ranker"]["cross_fitted"] == {"folds": 3, "pairs_read": len(tables["pool"])}
    assert lists["teacher"].unique().to_pylist() == ["ranker"] and len(lists["score"].unique()) > 20


def test_a_killed_ranker_goes_on_behind_the_folds_that_it_has_scored(teach, bert, monkeypatch):
    small = (f"ranker.init.weights={bert}", "ranker.init.layers=1", "ranker.init.max_len=24", "teacher.epochs=1")
    asked, trained = ("teacher=ranker", "seed=7", *small), []
    apart = ranker_training.trained_apart

    def killed(start, lists, fold, *rest):
        trained.append(fold)
        if fold == 1 and trained.count(1) == 1:
            raise KeyboardInterrupt
        return apart(start, lists, fold, *rest)

    monkeypatch.setattr(ranker_training, "trained_apart", killed)
    with pytest.raises(KeyboardInterrupt):
        teach(*asked, of="words")
    resumed = teach(*asked, of="words")[0]["teacher_scores"]
    assert trained == [0, 1, 1]
    again = teach(*asked, of="words", refresh=("score_by_ranker",))[0]["teacher_scores"]
    assert trained == [0, 1, 1, 0, 1] and again == resumed


@pytest.mark.slow
def test_rankers_trained_in_two_processes_give_the_differences_of_one(teach, bert):
    """InfoNCE is blind to what is added to all scores, so that rounding alone moves the head's bias."""
    small = (f"ranker.init.weights={bert}", "ranker.init.layers=1", "ranker.init.max_len=24", "teacher.epochs=1")
    asked, told = ("teacher=ranker", "ranker.init.dropout=0", *small), []
    for processes, refresh in ((1, ()), (2, ("score_by_ranker",))):
        found = teach(*asked, of="words", refresh=refresh, processes=processes)[0]["teacher_scores"]
        score, query = found["score"].to_numpy(), found["query_id"].to_numpy(zero_copy_only=False)
        means = {name: score[query == name].mean() for name in np.unique(query)}
        told.append(score - np.array([means[name] for name in query]))
    np.testing.assert_allclose(*told, atol=1e-5)
    assert np.ptp(told[0]) > 0.1


def test_a_cross_encoders_logits_are_written_as_they_are(teach, tmp_path):
    folder = tiny_classifier(tmp_path / "classifier")
    tables, _ = teach(
        "teacher=cross_encoder", f"teacher.weights={folder}", "teacher.max_len=24", "lists.size=4", of="words"
    )
    lists = tables["teacher_scores"]
    queries, corpus = (
        {name: texts for name, *texts in zip(*(table[column].to_pylist() for column in columns), strict=True)}
        for table, columns in (
            (tables["queries"], ["query_id", "text"]),
            (tables["corpus"], ["doc_id", "title", "text"]),
        )
    )
    asked = [queries[name][0] for name in lists["query_id"].to_pylist()]
    read = [passage_text(*corpus[name]) for name in lists["doc_id"].to_pylist()]
    logits = load_cross_encoder(folder, 24, "cpu").logits(TextPairs(asked, read), None)
    np.testing.assert_allclose(lists["score"].to_numpy(), logits, atol=1e-5)


@pytest.mark.parametrize(
    ("labels", "told"), [(2, "tells two labels apart"), (3, "has 3 labels: name a"), (None, "no sequence classifier")]
)
def test_a_classifier_of_several_labels_or_of_none_is_one_line_before_any_work(
    teach, tmp_path, bert, labels, told, caplog
):
    folder = bert if labels is None else tiny_classifier(tmp_path / "classifier", labels=labels)
    named = "teacher=cross_encoder", f"teacher.weights={folder}", "teacher.max_len=24"
    if labels == 2:
        lists = teach(*named, of="words")[0]["teacher_scores"]
        assert [told in record.getMessage() for record in caplog.records].count(True) == 1 and lists.num_rows
        return
    with pytest.raises(DataError, match=told) as refused:
        teach(*named, of="words")
    assert not any("in step" in note for note in refused.value.__notes__)


def test_teacher_and_student_are_measured_on_dev_and_a_weaker_teacher_is_told(teach, caplog):
    _, notes = teach("teacher=bm25")
    dev = notes["choose_lists"]["dev"]
    assert dev["queries"] == 12 and dev["teacher"] > dev["student"]
    assert not [record for record in caplog.records if "no better" in record.message]
    _, notes = teach("teacher=bi_encoder")
    dev = notes["choose_lists"]["dev"]
    assert dev["teacher"] == dev["student"]
    (said,) = [record.message for record in caplog.records if "no better" in record.message]
    assert f"{dev['student']:.3f}" in said


@pytest.mark.parametrize("shape", [*SHAPES, "trec"])
def test_exported_lists_are_imported_as_they_were(teach, world, tmp_path, shape, capsys):
    before = teach("teacher=bm25", "lists.size=6")[0]["teacher_scores"]
    target = tmp_path / ("lists.run" if shape == "trec" else "lists.jsonl")
    assert (
        main(
            ["export", "demo", "--format", "scores", "--as", shape, "--to", str(target), "--store", str(world[1].root)]
        )
        == 0
    )
    assert "60 lists" in capsys.readouterr().out
    after, notes = teach("teacher=file", f"teacher.path={target}")
    assert after["teacher_scores"].drop_columns("teacher") == before.drop_columns("teacher")
    assert notes["import_scores"]["imported"] == {"lists": 60, "left_out": {}, "pairs_without": 0}
    assert notes["choose_lists"]["lists"] == {"lists": 60, "left_out": {"one_document": 0, "equal_scores": 0}}


@pytest.fixture
def lists_of(teach, tmp_path):
    """`lists_of(change)`: a file of lists by BM25, in which `change` may alter each row by its number."""

    def write(change):
        scored = teach("teacher=bm25", "lists.size=6")[0]["teacher_scores"].to_pylist()
        rows = {}
        for row in scored:
            made = rows.setdefault(row["query_id"], {"query_id": row["query_id"], "document_ids": [], "scores": []})
            made["document_ids"].append(row["doc_id"])
            made["scores"].append(row["score"])
        kept = [made for number, row in enumerate(rows.values()) if (made := change(number, row))]
        path = tmp_path / "changed.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in kept))
        return path

    return write


def changed(rows, **values):
    """Rows below a number get these values; each is a function of the row."""
    return lambda number, row: row | {name: make(row) for name, make in values.items()} if number < rows else row


FAULTS = {
    "padding": changed(10, scores=lambda row: [100.0, *[0.0] * (len(row["scores"]) - 1)]),
    "unknown_query": changed(10, query_id=lambda row: f"other {row['query_id']}"),
    "without_a_given_document": changed(10, document_ids=lambda row: [f"d{n + 60}" for n in range(6)]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_lists_at_fault_are_left_out_and_told(teach, lists_of, caplog, fault):
    tables, notes = teach("teacher=file", f"teacher.path={lists_of(FAULTS[fault])}")
    found = notes["import_scores"]["imported"]
    assert found["left_out"] == {fault: 10} and found["pairs_without"] == 10
    assert len(tables["teacher_scores"]["query_id"].unique()) == 50
    (told,) = [record.getMessage() for record in caplog.records if "scored lists" in record.message]
    assert "of 60 lists 50 are used" in told and "10" in told


def test_scores_of_other_documents_are_told_and_another_collections_file_is_refused(teach, lists_of, caplog):
    path = lists_of(changed(10, document_ids=lambda row: ["elsewhere", *row["document_ids"][1:]]))
    found = teach("teacher=file", f"teacher.path={path}")[1]["import_scores"]["imported"]["left_out"]
    assert found["unknown_documents"] == 10
    path = lists_of(changed(60, document_ids=lambda row: [f"elsewhere {name}" for name in row["document_ids"]]))
    with refuses(DataError, "mining.teacher_path_lists_cannot", count=60, gone=60):
        teach("teacher=file", f"teacher.path={path}")


def test_lists_without_an_order_are_left_out_and_refused_where_there_are_no_others(teach, lists_of, caplog):
    given = {row["query_id"]: row["doc_id"] for row in teach("teacher=bm25")[0]["pairs"].to_pylist()}
    alone = changed(5, document_ids=lambda row: [given[row["query_id"]]], scores=lambda row: [1.0])
    alike = changed(12, scores=lambda row: [2.0] * len(row["scores"]))
    path = lists_of(lambda number, row: alone(number, alike(number, row)))
    tables, notes = teach("teacher=file", f"teacher.path={path}")
    assert notes["choose_lists"]["lists"] == {"lists": 48, "left_out": {"one_document": 5, "equal_scores": 7}}
    assert len(tables["teacher_scores"]["query_id"].unique()) == 48
    assert any("5 of one document, 7 of equal scores" in record.getMessage() for record in caplog.records)
    path = lists_of(changed(60, scores=lambda row: [0.5] * len(row["scores"])))
    with refuses(DataError, "mining.no_list_order_teach", said="60 of equal scores"):
        teach("teacher=file", f"teacher.path={path}")


def test_broken_scores_are_refused_before_any_work(teach, tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"query_id": "train0", "document_ids": ["d0", "d1"], "scores": [NaN, 1]}\n')
    with refuses(DataError, "data.broken_scores", n_bad=1, n_scores=2) as refused:
        teach("teacher=file", f"teacher.path={path}")
    assert not any("in step" in note for note in refused.value.__notes__)
    with refuses(DataError, "mining.not_file_set_teacher"):
        teach("teacher=file", f"teacher.path={tmp_path / 'nowhere.jsonl'}")
    with pytest.raises(ConfigError, match="brings its own documents"):
        teach("teacher={kind: average, of: [bm25, file]}")


def test_pools_of_dev_need_no_dev_among_the_encoded_splits(teach):
    _, notes = teach("teacher=hybrid", "encode.splits=[test]", "lists.size=6")
    assert notes["choose_lists"]["dev"]["queries"] > 0
