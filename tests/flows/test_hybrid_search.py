"""BM25, a model and both together, asked by the names of the run's tables, before and after a refresh."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from noisyir.registry import registered_copies
from tests.tiny import SETTINGS


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def settings(collection):
    given = [f"data.path={collection}", f"model.weights={collection / 'words'}", "methods=[dpr]", "noise=null"]
    return [*SETTINGS, *given, "detectors={b: bm25_margin}", "--no-track"]


def test_each_system_is_asked_by_its_name(noisyir, collection):
    code, out, err = noisyir("run", "demo", *settings(collection))
    assert code == 0 and "zero_shot_hybrid" in out and "dpr_hybrid" in out, err
    assert out.index("\nbest ") < out.index("\ncompared ") < out.index("\nsystem ")  # the conclusion is first
    assert out.splitlines()[-1].split() == ["noisyir", "show", "demo", "--page"]
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
    code, _, err = noisyir("compare", "demo:bm25", "demo:dpr", "--html", collection / "corpus.jsonl")
    assert code == 1 and "is not overwritten" in err and (collection / "corpus.jsonl").read_text().startswith("{")


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
    code, out, err = noisyir("refresh", "demo", new)
    assert code == 0 and noisyir(*shlex.split(re.search("next +noisyir (.*)", out)[1]))[0] == 0, err
    for system in ("bm25", "hybrid", "dpr"):
        code, out, err = noisyir("search", f"demo:{system}", "zucchini", "-k", 81, "--json")
        assert code == 0 and "fresh" in [hit["doc_id"] for hit in json.loads(out)["hits"]], err


def test_a_model_finds_documents_of_its_own_experiment_though_another_has_the_same_model(noisyir, collection, tmp_path):
    """All experiments share the untrained model, and those with the same pairs the trained one."""
    asked = ["demo", *(f"demo:{system}" for system in ("bm25", "zero_shot", "zero_shot_hybrid", "best", "dpr"))]
    before = [noisyir("search", system, "oven word4", "--force", "--json")[1] for system in asked]
    own = shutil.copytree(collection, tmp_path / "own")
    with (own / "corpus.jsonl").open("a") as corpus:
        corpus.write(json.dumps({"_id": "stranger", "title": "oven word4", "text": "oven word4 word4"}) + "\n")
    code, _, err = noisyir("run", "demo", *settings(own), "name=other")
    assert code == 0, err
    assert [noisyir("search", system, "oven word4", "--force", "--json")[1] for system in asked] == before
    from noisyir.serving.loading import ServedModel
    from noisyir.serving.options import ServeOptions

    served = ServedModel(ServeOptions("demo:zero_shot_hybrid", force=True))
    assert served.default in served.index.systems and "stranger" not in served.index._columns["doc_id"].to_pylist()
    for system in ("other", "other:bm25", "other:zero_shot", "other:zero_shot_hybrid"):
        code, out, err = noisyir("search", system, "oven word4", "--force", "--json")
        assert code == 0 and "stranger" in [hit["doc_id"] for hit in json.loads(out)["hits"]], err


def test_without_dev_queries_the_weight_is_one_half_and_a_line_says_so(noisyir, collection, caplog, tmp_path):
    own = shutil.copytree(collection, tmp_path / "own")
    (own / "qrels" / "dev.tsv").unlink()
    code, out, err = noisyir("run", "demo", *settings(own), "name=undev", "train.patience=null")
    assert code == 0 and "expect a little less" in out, err
    assert any("no dev queries" in record.getMessage() for record in caplog.records) or "no dev queries" in err
    code, _, _ = noisyir("export", "undev", "--to", tmp_path / "model")
    how = json.loads((tmp_path / "model" / "hybrid.json").read_text())
    assert code == 0 and (how["weight"], how["low"], how["queries"]) == (0.5, None, 0)


def test_of_an_experiment_that_stopped_on_the_way_it_is_told_what_completes_it(
    noisyir, collection, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text(f"data: {{kind: beir, path: {collection}}}\n")
    for command in (["search", "mine:best", "oven"], ["compare", "mine:dpr", "mine:bm25"], ["serve", "mine:best"]):
        code, _, err = noisyir(*command)
        assert code == 1 and err.endswith(": noisyir run mine.yaml\n") and "mine.yaml makes" not in err
    assert noisyir("run", "mine.yaml", "--dry-run")[0] == 0  # as advised
    code, _, err = noisyir("run", "mine", "--dry-run")
    assert code == 1 and err.endswith("but mine.yaml is in this folder: give mine.yaml\n")
    code, out, err = noisyir("run", "mine.yaml", "--to", "train_dpr", *settings(collection), "seed=1")
    assert code == 0 and out.count("next ") == 1, err
    assert "noisyir search" not in out, "there is no index yet"
    assert out.splitlines()[-1] == "next        noisyir export mine --to my-model"
    assert noisyir("export", "mine", "--to", "my-model")[0] == 0  # as advised
    for command in (["search", "mine:best", "oven"], ["show", "mine", "--page"]):
        code, _, err = noisyir(*command)
        assert code == 1 and "stopped before the step that makes its" in err and "damaged" not in err
        assert err.count("noisyir run") == 1
    code, out, err = noisyir(*shlex.split(re.search(r"noisyir (run .*) makes it", err)[1]))
    assert code == 0 and re.search(r"train_dpr@dpr +cached", err), "the settings are those of the part that ran"
    assert noisyir(*shlex.split(re.search(r"next +noisyir (.*)", out)[1]))[0] == 0
    assert noisyir("search", "mine:best", "oven")[0] == noisyir("show", "mine", "--page")[0] == 0


def test_of_a_stage_without_builds_it_is_told_which_have_some(noisyir, tmp_path):
    code, out, _ = noisyir("status", "nope")
    assert code == 0 and "no build of 'nope' in" in out and "noisyir run demo" not in out
    stages = " ".join(out.split("there are builds of ")[1].split()).split(", ")
    assert {"ingest", "train_dpr"} <= set(stages) and "no build" not in noisyir("status", stages[-1])[1]
    assert "yet: noisyir run demo" in noisyir("status", "nope", "--store", tmp_path / "empty")[1]


def test_where_no_model_is_registered_yet_it_is_told_what_registers_one(noisyir, collection, tracked_home):
    uri = "models:/noisyir-retriever@champion"
    for command in (["promote"], ["serve", "noisyir-retriever", "--follow-champion"], ["export", uri, "--to", "it"]):
        code, _, err = noisyir(*command)
        assert code == 1 and "Exception" not in err and "noisyir run EXPERIMENT registers a model" in err, err
    given = [word for word in settings(collection) if word not in ("--no-track", "register_if=always")]
    code, out, err = noisyir("run", "demo", *given, "--force")  # as advised
    assert code == 0 and "noisyir-retriever v1" in out, err
    code, out, err = noisyir("promote")
    assert "no registered model" not in err and "noisyir-retriever v1" in out + err


def test_an_experiment_in_a_file_is_advised_and_found_by_its_path(
    noisyir, collection, monkeypatch, tracked_home, tmp_path
):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "of ours" / "first try.yaml"
    path.parent.mkdir()
    path.write_text("name: tried\n")
    code, _, err = noisyir("export", "of ours/first try.yaml", "--as", "pairs", "--to", "it")
    assert code == 1 and shlex.split(err.strip().rpartition(": ")[2]) == ["noisyir", "audit", "of ours/first try.yaml"]
    given = [word for word in settings(collection) if word not in ("--no-track", "register_if=always")]
    for seeds in ([], ["seed=9"]):
        code, _, err = noisyir("run", "of ours/first try.yaml", *given, *seeds, "--force")
        assert code == 0, err
    by_path, by_name = (noisyir("show", one, "--query", "train0") for one in ("of ours/first try.yaml", "tried"))
    assert by_path == by_name and by_path[0] == 0

    ask = ("search", "models:/noisyir-retriever/1", "oven word4", "--force")
    assert noisyir(*ask)[0] == 0
    for folder in (tmp_path / "store").glob("train_dpr/*/*"):
        shutil.rmtree(folder)
    (copy,) = (copy for copy in registered_copies(tmp_path) if copy.version.endswith(" v1"))
    (copy.folder / "model.safetensors").write_bytes(b"damaged")
    code, _, err = noisyir(*ask)
    assert code == 1 and "is no longer in" in err
    lost = re.search(r"run its experiment again, (noisyir .*), or take", err)[1]
    assert "seed=" not in lost, "the newest run's seed is another"
    assert f": {lost}, then noisyir store verify --repair\n" in noisyir("store", "verify", "--repair")[1]
    assert noisyir(*shlex.split(lost)[1:])[0] == 0
    assert noisyir(*ask)[0] == noisyir("store", "verify", "--repair")[0] == noisyir("store", "verify")[0] == 0
