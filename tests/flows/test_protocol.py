"""The noise bench's protocol: tasks for others, and rows of a stranger's run, weights and method beside ours."""

import csv
import json
from pathlib import Path

import pytest

from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.tiny import tiny_data

SUITE = """
name: tiny
experiment:
  name: tiny
  model: {{weights: {path}/words}}
  train: {{epochs: 2, learning_rate: 0.01, batch_size: 16, dev_queries: 0}}
  encode: {{splits: [test]}}
  search: {{top_k: 10}}
  score: {{splits: [test], measures: [RR@10]}}
detect: false
noise: [{{rate: 0.0}}, {{rate: 0.4}}]
sets:
  one: {{experiment: {{data: {{kind: beir, path: {path}}}}}}}
  gone: {{experiment: {{data: {{kind: beir, path: nowhere}}}}, source: fetch it}}
methods: [dpr, oracle]
seeds: [0, 1]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("protocol")
    tiny_data(folder / "beir")
    (folder / "tiny.yaml").write_text(SUITE.format(path=folder / "beir"))
    return folder


@pytest.fixture
def noisyir(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """`noisyir("bench", "noise", ...)`: (exit code, stdout, stderr)."""

    def run(*words: object) -> tuple[int, str, str]:
        monkeypatch.setenv("NOISYIR_HOME", str(place / "home"))
        monkeypatch.chdir(place)
        capsys.readouterr()
        jobs = [] if "write" in words else ["--jobs", "1"]  # in this process
        return main([*map(str, words), "--suite", "tiny.yaml", *jobs]), *capsys.readouterr()

    return run


def weights_of(tasks: Path, tool: Path, weigh) -> None:
    """A tool's weights for every task."""
    for task in sorted(tasks.glob("*/*/*")):
        rows = list(csv.reader((task / "qrels/train.tsv").open(), delimiter="\t"))[1:]
        out = tool / task.relative_to(tasks)
        out.mkdir(parents=True)
        lines = [f"{query},{doc},{weigh(query, doc)}" for query, doc, _ in rows]
        (out / "weights.csv").write_text("\n".join(["query_id,doc_id,weight", *lines]) + "\n")


def test_a_strangers_run_weights_and_method_stand_in_the_table(place, noisyir, monkeypatch):
    code, out, err = noisyir("protocol", "write", place / "tasks")
    assert code == 0, err
    assert "left out   gone" in err and "fetch it" in err
    tasks = place / "tasks"
    folders = {path.parent.relative_to(tasks).as_posix() for path in tasks.glob("**/corpus.jsonl")}
    assert folders == {f"one/uniform-{rate}/seed{seed}" for rate in ("0", "0.4") for seed in (0, 1)}
    assert not list(tasks.glob("**/test.tsv")), "judgements of test are for the scorer"

    right = {tuple(line.split("\t")[:2]) for line in (place / "beir/qrels/train.tsv").read_text().splitlines()[1:]}
    weights_of(tasks, place / "knows_all", lambda query, doc: float((query, doc) in right))
    test = [line.split("\t") for line in (place / "beir/qrels/test.tsv").read_text().splitlines()[1:]]
    for seed in (0, 1):  # of one condition alone
        run = place / "perfect.v2" / f"one/uniform-0.4/seed{seed}" / "run.trec"
        run.parent.mkdir(parents=True)
        run.write_text("".join(f"{query} Q0 {doc} 1 9.5 mine\n" for query, doc, _ in test))

    code, out, err = noisyir("protocol", "score", place / "knows_all", place / "perfect.v2", "--out", place / "page")
    assert code == 0, err
    store = Store(place / "home" / "store", home=place / "home")
    (table,) = [meta for meta in store.builds.all() if meta.stage == "noise_table"]
    rows = {
        (row["method"], row["rate"]): row["mean"]
        for row in store.builds.table(table.ref("bench_summary")).to_pylist()
        if row["against"] in (None, "dpr")
    }
    assert rows["perfect.v2", 0.4] == 1.0 and ("perfect.v2", 0.0) not in rows
    assert rows["knows_all", 0.0] == rows["dpr", 0.0], "weights of 1 are plain training"
    assert rows["knows_all", 0.4] != rows["dpr", 0.4] and rows["knows_all", 0.4] > 0.3
    page = (place / "page" / "bench.html").read_text()
    assert "knows_all against dpr" in page and "perfect.v2 against dpr" in page
    assert "at 1 times its passes" in page and "at a cost that is not known" in page
    assert "- perfect.v2 against dpr" in out

    code, _, err = noisyir("protocol", "score", place / "knows_all", place / "perfect.v2")
    assert code == 0 and "train_dpr" in err and not [line for line in err.splitlines() if line.endswith(" ...")]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("weights.csv", "query_id,doc_id,weight\ntrain0,d0,1\n", "has no weight for 59 of 60 training pairs"),
        ("weights.csv", "query_id,doc_id,weight\ntrain0,d0,-1\n", "a weight is a number from 0 on, not '-1'"),
        ("weights.csv", "query_id,doc_id\ntrain0,d0\n", "has no column weight"),
        ("run.trec", "test0 Q0 d999 1 9.5 mine\n", "the set has no doc_id 'd999'"),
        ("run.trec", "test0 Q0 d0 1 nan mine\n", "nan is no score to rank by"),
        ("run.trec", "test0 d0\n", "no line of a TREC run"),
        ("other.txt", "", "has nothing for tiny: put weights.csv or run.trec into"),
    ],
)
def test_what_cannot_be_scored_is_one_line(place, noisyir, tmp_path, name, text, said):
    for rate in ("0", "0.4"):
        for seed in (0, 1):
            folder = tmp_path / "tool" / f"one/uniform-{rate}/seed{seed}"
            folder.mkdir(parents=True)
            (folder / name).write_text(text)
    code, out, err = noisyir("protocol", "score", tmp_path / "tool")
    lines = [line for line in err.splitlines() if line.startswith("noisyir: ")]
    assert (code, out) == (1, "") and len(lines) == 1 and said in lines[0]


def test_a_folder_that_is_not_there_is_one_line(noisyir):
    code, _, err = noisyir("protocol", "score", "runtime.threads=1")
    assert code == 1 and err.startswith("noisyir: runtime.threads=1 is no folder: ")


def test_a_condition_wants_all_its_seeds(noisyir, tmp_path):
    folder = tmp_path / "tool" / "one/uniform-0.4/seed0"
    folder.mkdir(parents=True)
    (folder / "run.trec").write_text("test0 Q0 d0 1 1 mine\n")
    code, _, err = noisyir("protocol", "score", tmp_path / "tool")
    assert code == 1 and "seed1 has no weights.csv or run.trec: give every seed" in err


def test_a_file_of_ones_own_is_one_more_set(place, noisyir, tmp_path):
    rows = [{"query": f"word{n} boat wind", "document": f"word{n} mark{n} harbour"} for n in range(60)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, err = noisyir("bench", "noise", "--set", tmp_path / "mine.jsonl", "seeds=[0]")
    assert code == 0, err
    assert "## one uniform" in out and "## mine uniform" in out


def test_a_suite_without_any_set_is_one_line(noisyir, tmp_path):
    code, _, err = noisyir("bench", "noise", "--data", tmp_path)
    said = "noisyir: none of the sets of tiny is on this machine: left out   one"
    assert code == 1 and err.splitlines()[-1].startswith(said)


@pytest.mark.parametrize("documents", [3, 30, 600])
def test_any_slice_ends_in_a_table_or_one_line(noisyir, monkeypatch, capsys, documents):
    few = [f"experiment.data.max_documents={documents}", "--seeds", "1", "--jobs", "1"]
    code = main(["bench", "noise", "--suite", "pydocs", *few])
    _, err = capsys.readouterr()
    last = err.splitlines()[-1]
    assert code == 1 and last.startswith("noisyir: ") and "lower them, or raise data.max_documents" in last
    assert "Traceback" not in err
