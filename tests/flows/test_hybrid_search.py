"""BM25, a model and both together, asked by the names of the run's tables, before and after a refresh."""

import json

import pytest

from tests.tiny import SETTINGS, tiny_data


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    tiny_data(folder)
    return folder


def settings(data):
    given = [f"data.path={data}", f"model.weights={data / 'words'}", "methods=[dpr]", "noise=null"]
    return [*SETTINGS, *given, "detectors={b: bm25_margin}", "--no-track"]


def test_each_system_is_asked_by_its_name(noisyir, data):
    code, out, err = noisyir("run", "demo", *settings(data))
    assert code == 0 and "zero_shot_hybrid" in out and "dpr_hybrid" in out, err
    assert out.index("\nbest ") < out.index("\non trial ") < out.index("\nsystem ")  # the conclusion is first
    assert out.splitlines()[-1].split() == ["noisyir", "open", "demo"]
    hits = {}
    for system in ("bm25", "dpr", "hybrid", "dpr_hybrid", "zero_shot_hybrid", "best"):
        code, out, err = noisyir("search", f"demo:{system}", "oven word4", "-k", 3, "--json")
        assert code == 0, err
        hits[system] = json.loads(out)["hits"]
    assert hits["bm25"][0]["doc_id"] == "d4" and hits["hybrid"] == hits["dpr_hybrid"]
    assert all(0 <= hit["score"] <= 1 for hit in hits["hybrid"])
    code, _, err = noisyir("search", "demo:hybird", "oven")
    assert code == 1 and "dpr_hybrid" in err
    code, _, err = noisyir("export", "demo:bm25")
    assert code == 1 and "noisyir search demo:bm25 'your question'" in err
    found = json.loads(noisyir("compare", "demo:bm25", "demo:hybrid", "--json")[1])
    assert found["second"].endswith("dpr_hybrid")
    code, _, err = noisyir("compare", "demo:bm25", "demo:bm25")
    assert code == 1 and "such as demo:zero_shot" in err
    code, _, err = noisyir("compare", "demo:bm25", "demo:dpr", "--html", data / "corpus.jsonl")
    assert code == 1 and "is not overwritten" in err and (data / "corpus.jsonl").read_text().startswith("{")


def test_a_search_is_the_run_that_was_measured(noisyir, home):
    """The hybrid that is asked puts a test query's documents in the order that was scored."""
    from noisyir.app.lookup import finished_comparison
    from noisyir.engine.store import Store

    store = Store(home / "store", home=home)
    comparison = finished_comparison(store, "demo").results["comparison"]
    scored = dict(store.builds.meta(comparison).input_refs())["metrics.dpr_hybrid"]
    inputs = dict(store.builds.meta(scored).input_refs())
    queries = store.builds.table(inputs["queries"]).to_pylist()
    query = next(row for row in queries if row["split"] == "test")
    run = [row for row in store.builds.table(inputs["run"]).to_pylist() if row["query_id"] == query["query_id"]]
    hits = json.loads(noisyir("search", "demo:hybrid", query["text"], "-k", 10, "--json")[1])["hits"]
    assert [hit["doc_id"] for hit in hits] == [row["doc_id"] for row in run[:10]]
    assert [hit["score"] for hit in hits] == pytest.approx([row["score"] for row in run[:10]], abs=1e-6)


def test_new_documents_are_found_by_all_three(noisyir, tmp_path):
    new = tmp_path / "new.jsonl"
    new.write_text(json.dumps({"_id": "fresh", "title": "cooking", "text": "oven zucchini zucchini"}) + "\n")
    code, _, err = noisyir("refresh", "demo", new)
    assert code == 0, err
    for system in ("bm25", "hybrid", "dpr"):
        code, out, err = noisyir("search", f"demo:{system}", "zucchini", "-k", 81, "--json")
        assert code == 0 and "fresh" in [hit["doc_id"] for hit in json.loads(out)["hits"]], err


def test_a_model_finds_documents_of_its_own_experiment_though_another_has_the_same_model(noisyir, data, tmp_path):
    """All experiments share the untrained model, and those with the same pairs the trained one."""
    import shutil

    asked = ["demo", *(f"demo:{system}" for system in ("bm25", "zero_shot", "zero_shot_hybrid", "best", "dpr"))]
    before = [noisyir("search", system, "oven word4", "--force", "--json")[1] for system in asked]
    own = shutil.copytree(data, tmp_path / "own")
    with (own / "corpus.jsonl").open("a") as corpus:
        corpus.write(json.dumps({"_id": "stranger", "title": "oven word4", "text": "oven word4 word4"}) + "\n")
    code, _, err = noisyir("run", "demo", *settings(own), "name=other")
    assert code == 0, err
    assert [noisyir("search", system, "oven word4", "--force", "--json")[1] for system in asked] == before
    from noisyir.serving.loading import ServedModel, ServeOptions

    served = ServedModel(ServeOptions("demo:zero_shot_hybrid", force=True))
    assert served.default in served.index.systems and "stranger" not in served.index._columns["doc_id"].to_pylist()
    for system in ("other", "other:bm25", "other:zero_shot", "other:zero_shot_hybrid"):
        code, out, err = noisyir("search", system, "oven word4", "--force", "--json")
        assert code == 0 and "stranger" in [hit["doc_id"] for hit in json.loads(out)["hits"]], err


def test_without_dev_queries_the_weight_is_one_half_and_a_line_says_so(noisyir, data, caplog, tmp_path):
    import shutil

    own = shutil.copytree(data, tmp_path / "own")
    (own / "qrels" / "dev.tsv").unlink()
    code, out, err = noisyir("run", "demo", *settings(own), "name=undev", "train.patience=null")
    assert code == 0 and "expect a little less" in out, err
    assert any("no dev queries" in record.getMessage() for record in caplog.records) or "no dev queries" in err
    code, _, _ = noisyir("export", "undev", "--to", tmp_path / "model")
    how = json.loads((tmp_path / "model" / "hybrid.json").read_text())
    assert code == 0 and (how["weight"], how["low"], how["queries"]) == (0.5, None, 0)
