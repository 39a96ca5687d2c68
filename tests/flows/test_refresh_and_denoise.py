"""The flows refresh_corpus and denoise, under Prefect's test server: they do what the commands do, as tasks."""

import csv
import json
import re
from pathlib import Path
from urllib.parse import urlparse

import pytest

from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.front.cli import main
from tests.flows.recorded import task_runs
from tests.tiny import SETTINGS, tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")

QUICK = ("runtime.threads=1",)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory):
    """A home in which a model was trained and indexed."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_HOME", str(folder))
        patch.chdir(folder)
        few = [*tiny_data(folder / "beir"), "methods=[dpr]", "train.epochs=1"]
        assert main(["run", "demo", *SETTINGS, *few, "--to", "index@dpr", "--no-track"]) == 0
        yield folder


def write_jsonl(path: Path, rows: list[dict[str, str]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def newest_flow_run(name: str):
    """(flow run, its artifacts by key) of the newest run of a flow."""
    from prefect import get_client
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId, FlowFilter, FlowFilterName
    from prefect.client.schemas.sorting import FlowRunSort

    with get_client(sync_client=True) as client:
        of = FlowFilter(name=FlowFilterName(any_=[name]))
        run = client.read_flow_runs(flow_filter=of, sort=FlowRunSort.START_TIME_DESC, limit=1)[0]
        found = client.read_artifacts(
            artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run.id]))
        )
    return run, {artifact.key: artifact for artifact in found}


def told(artifact) -> dict[str, str]:
    return {row["what"]: row["found"] for row in json.loads(artifact.data)}


def test_new_documents_are_searched_after_the_flow(home: Path, capsys):
    from noisyir.flows.refresh_corpus import refresh_corpus

    new = write_jsonl(home / "new.jsonl", [{"_id": "n1", "title": "sailing", "text": "harbour harbour anchor"}])
    outcome = refresh_corpus("demo", documents=str(new))
    assert (outcome.executed, list(outcome.results)) == (3, ["join_corpus", "encode_new", "extend_index"])
    run, artifacts = newest_flow_run("refresh_corpus")
    assert (run.name, run.state_name, run.parameters["documents"]) == ("refresh demo", "Completed", str(new))
    assert {task.name: task.tags for task in task_runs(run.id, 3)} == {
        "join_corpus": ["cpu"], "encode_new": ["gpu"], "extend_index": ["gpu"],
    }  # fmt: skip
    assert told(artifacts["refreshed"]) == {
        "documents": "1 added, 0 replaced, 0 removed, 80 kept",
        "vectors": "1 encoded, 80 reused",
        "index": "1 vectors added to 80",
    }
    capsys.readouterr()
    assert main(["search", "demo", "harbour anchor", "-k", "5", "--json"]) == 0
    assert "n1" in [hit["doc_id"] for hit in json.loads(capsys.readouterr().out)["hits"]]

    assert main(["refresh", "demo", str(new), "--json"]) == 0  # the command finds what the flow made
    assert json.loads(capsys.readouterr().out)["run"] == 0
    (home / "gone.txt").write_text("n1\n")
    assert main(["refresh", "demo", "--remove", "gone.txt", "runtime.threads=1"]) == 0
    said = capsys.readouterr().out
    assert "0 added, 0 replaced, 1 removed, 80 kept" in said and "noisyir search demo" in said
    assert main(["show", "demo", "--trace"]) == main(["show", "extend_index", "--trace"]) == 0
    assert "join_corpus" in capsys.readouterr().out
    assert main(["show", "--query", "dev0"]) == 0  # of the run that decided about it
    assert "run of demo," in capsys.readouterr().out


def test_bad_documents_fail_the_flow_with_one_clear_line(home: Path, capsys):
    from noisyir.flows.refresh_corpus import refresh_corpus

    bad = write_jsonl(home / "bad.jsonl", [{"_id": "n2", "text": ""}])
    with pytest.raises(DataError, match=r"bad.jsonl line 1: document 'n2' has no text"):
        refresh_corpus("demo", documents=str(bad))
    run, _ = newest_flow_run("refresh_corpus")
    assert run.state_name == "Failed"
    assert {task.name: task.run_count for task in task_runs(run.id, 1)} == {"join_corpus": 1}  # not tried again
    with pytest.raises(StoreError, match="matches no experiment"):
        refresh_corpus("nobody", documents=str(bad))
    capsys.readouterr()
    assert main(["refresh", "demo", str(bad)]) == main(["refresh", "demo", "none.jsonl"]) == 1
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("noisyir: ")]
    assert len(said) == 2 and "has no text" in said[0] and "there is no file" in said[1]


@pytest.fixture(scope="module")
def pairs(home: Path) -> Path:
    """Pairs, a few of them wrong."""
    texts = {row["_id"]: row["text"] for row in map(json.loads, (home / "beir/corpus.jsonl").read_text().splitlines())}
    asked = {row["_id"]: row["text"] for row in map(json.loads, (home / "beir/queries.jsonl").read_text().splitlines())}
    lines = (home / "beir/qrels/train.tsv").read_text().splitlines()[1:]
    right = [line.split("\t")[:2] for line in lines]
    wrong = [[query, right[number - 8][1] if number < 16 else doc] for number, (query, doc) in enumerate(right)]
    rows = [{"query_id": q, "query": asked[q], "doc_id": d, "document": texts[d]} for q, d in wrong]
    return write_jsonl(home / "mine.jsonl", rows)


def judged_sample(home: Path, pairs: Path) -> Path:
    """A sample that the command draws, filled in by someone who knows which pairs are wrong."""
    assert main(["audit", str(pairs), *QUICK, "--sample", "30", "--out", "drawn"]) == 0
    path = home / "drawn" / "sample.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    wrong = {row["query_id"] for row in map(json.loads, pairs.read_text().splitlines()[:16])}
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]))
        out.writeheader()
        out.writerows(row | {"verdict": "wrong" if row["query_id"] in wrong else "clean"} for row in rows)
    return path


def test_the_flow_refuses_to_apply_what_nobody_judged(home: Path, pairs: Path):
    from noisyir.flows.denoise import denoise

    with pytest.raises(ConfigError, match="no random sample was judged"):
        denoise(str(pairs), apply=True, out=str(home / "refused"))
    assert not (home / "refused").exists()


def test_pairs_are_audited_and_cleaned_as_by_the_command(home: Path, pairs: Path, capsys):
    from noisyir.flows.denoise import denoise

    sample = judged_sample(home, pairs)
    outcome = denoise(str(pairs), judgements=(str(sample),), apply=True)
    run, artifacts = newest_flow_run("denoise")
    tasks = {task.name for task in task_runs(run.id, len(outcome.results))}
    assert (run.name, run.state_name) == (f"denoise {pairs}", "Completed")
    assert tasks == set(outcome.results) and {"detect", "audit"} <= set(tasks)
    assert "mlflow_run" in outcome.facts and "registered" not in outcome.facts
    suspects = json.loads(artifacts["suspects"].data)
    assert len(suspects) == 3 and all(set(one) == {"query", "document", "verdict", "reason"} for one in suspects)
    assert re.fullmatch(rf"{outcome.executed} built, \d+ cached; .+ by judgements", run.state.message)
    found = told(artifacts["denoised"])
    page = Path(urlparse(artifacts["audit-page"].data.partition("(")[2].rstrip(")")).path)
    assert page.parent == Path(found["files"]) == home / "audits" / "mine" / str(run.id)
    assert page.read_text().startswith("<!doctype html>")
    assert found["pairs judged"] == "60" and "by judgements" in found["how many are wrong"]

    capsys.readouterr()
    asked = ["--judgements", str(sample), "--apply"]
    assert main(["audit", str(pairs), *QUICK, "--out", "by-command", *asked]) == 0
    out, err = capsys.readouterr()
    assert "cached" in err and " ..." not in err  # nothing was left to do
    assert f"{found['flagged']} of 60 pairs " in out
    for path in (home / "by-command").iterdir():
        assert path.read_bytes() == (page.parent / path.name).read_bytes()
    assert found["changes"] in out
    assert Path(found["cleaned pairs"]).name == "mine.cleaned.jsonl"

    with pytest.raises(DataError, match="exists already and is not overwritten"):
        denoise(str(pairs), ["detect.assume=random"], apply=True, force=True, out=str(home / "by-command"))
    assert newest_flow_run("denoise")[0].state_name == "Failed"
