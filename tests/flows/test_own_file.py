"""A csv of one's own, from its first audit to an exported model, by the commands that the docs name."""

import ast
import csv
import inspect
import json
import random
import re
import shlex
import shutil
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from itertools import islice
from pathlib import Path

import pytest
import yaml

from noisyir.front.cli import main
from tests.flows.screens import plain, terminal
from tests.tiny_models import WORDS

ROOT = Path(__file__).parents[2]
SQUAD = ROOT.parent / "shared" / "data" / "squad" / "train-v1.1.json"
LIBRARY = Path(json.__file__).parents[1]  # Python's own


def functions():
    """(first paragraph of the docstring, source without it) of functions of the standard library."""
    for path in sorted(LIBRARY.glob("[a-z]*.py"), key=lambda path: path.name)[::4]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            doc = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
            if doc and len(node.body) > 1 and len(doc.split()) > 2:
                node.body = node.body[1:]
                yield re.sub(r"\s+", " ", inspect.cleandoc(doc).split("\n\n")[0]), ast.unparse(node)


@pytest.fixture(scope="module")
def home(tmp_path_factory, migrated):
    return shutil.copytree(migrated, tmp_path_factory.mktemp("mine") / "home")


SHORT = "as_is={minilm: {passage_max_len: 64}}"  # of 256 tokens, a minute of a slow machine
QUICK = ("bm25_index.engine=bm25s", "runtime.threads=1", "--no-track", "detectors={b: bm25_margin}", "as_is={}")


def write_pairs(path, rows):
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "answer"), *rows])


@pytest.fixture(scope="module")
def told(home, tmp_path_factory):
    """What `init`, a dry run and `run` say of docs.csv: docstrings and code, nothing else known of them."""
    folder = tmp_path_factory.mktemp("mine")
    said = {"folder": folder}
    write_pairs(folder / "docs.csv", dict(functions()).items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_HOME", str(home))
        patch.chdir(folder)
        for name, width, words in (
            ("init", 80, ("init", "docs.csv", "--budget", "1m")),
            ("narrow", 80, ("run", "docs.yaml", "--dry-run")),
            ("planned", None, ("run", "docs.yaml", "--dry-run")),
            ("run", None, ("run", "docs.yaml", *QUICK)),
        ):
            with patch.context() as screen, redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
                if width:
                    terminal(screen, width)
                assert main(words) == 0, err.getvalue()
            said[name] = plain(out.getvalue()), err.getvalue()
    return said


@pytest.fixture
def folder(told):
    """The folder with docs.csv and docs.yaml, once that has run."""
    return told["folder"]


@pytest.fixture
def copied(folder, tmp_path, monkeypatch):
    """In a copy of it: what else runs there is no experiment of the first one's data."""
    monkeypatch.chdir(shutil.copytree(folder, tmp_path / "copied"))


def test_a_csv_becomes_a_model_that_is_better_than_its_start(noisyir, folder, told, monkeypatch):
    monkeypatch.chdir(folder)
    (out, _), (narrow, _), (planned, _), (ran, err) = (told[name] for name in ("init", "narrow", "planned", "run"))
    assert all(len(line) <= 80 for line in (out + narrow).splitlines()), "no word is cut by the terminal"
    assert "train.learning_rate  0.003" in out and out.splitlines()[-1] == "next        noisyir run docs.yaml"
    assert "train.epochs" in planned and "the data has no test and no dev queries" in planned
    assert "dev and" in ran and "queries held out" in ran and "train.batch_size" in err
    code, out, _ = noisyir("compare", "docs:zero_shot", "docs.yaml", "--html", "compared.html", "--json")
    found = json.loads(out)
    test = found["measures"][0]
    assert code == 0 and "seems better than" in found["conclusion"] and test["p_holm"] < 0.01
    assert test["wins"] > test["losses"] > 0 and found["conclusion"].split(":")[0] in Path("compared.html").read_text()
    assert len(found["wins"]) == 5 and found["wins"][0]["relevant"]["text"]
    for given, meant in ((("docs", "bm25"), ["docs", "docs:bm25"]), (("bm25", "docs"), ["docs:bm25", "docs"])):
        code, _, err = noisyir("compare", *given)
        typed = shlex.split(err.split(": type noisyir ")[1])
        assert code == 1 and typed[1:] == meant and noisyir(*typed)[0] == 0


def test_what_has_run_is_found_by_its_name_its_file_and_its_data(noisyir, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(folder)
    keys = set()
    for name in ("docs", "docs.yaml", folder / "docs.yaml", "docs.csv"):
        code, out, err = noisyir("show", name, "--trace", "--json")
        assert code == 0, err
        keys.add(json.loads(out)["builds"][-1]["key"])
        assert noisyir("search", name, "parse a date", "-k", 2)[0] == 0
    assert len(keys) == 1
    monkeypatch.chdir(tmp_path)  # the data lies beside the experiment
    code, _, err = noisyir("run", folder / "docs.yaml", *QUICK)
    assert code == 0 and re.search(r"train_dpr@dpr +cached", err)
    code, _, err = noisyir("export", "doc")
    assert code == 1 and re.search(r"experiments that have run: .*\bdocs\b", err)


def test_an_exported_model_has_a_card_that_the_hub_can_read(noisyir, folder, monkeypatch, tmp_path):
    from huggingface_hub import ModelCard
    from sentence_transformers import SentenceTransformer

    monkeypatch.chdir(tmp_path)
    code, out, err = noisyir("export", folder / "docs.yaml", "--licence", "apache-2.0")
    assert code == 0 and out.startswith("written   docs-model\n"), err
    card = ModelCard.load(Path("docs-model/README.md"))
    assert card.data.license == "apache-2.0" and card.data.base_model == "sentence-transformers/all-MiniLM-L6-v2"
    results = {result.metric_type: result for result in card.data.eval_results}
    assert {"nDCG@10", "RR@10", "R@100"} == set(results) and 0 < results["nDCG@10"].metric_value < 1
    for section in ("Data", "Noise", "Training", "Measures", "Use", "Limits", "Licence", "Citation"):
        assert f"\n## {section}\n" in card.text
    assert "queries held out" in card.text and "noisyir run docs.yaml" in card.text
    settings = yaml.safe_load(re.search(r"```yaml\n(.*?)```", card.text, re.DOTALL)[1])
    assert settings["data"]["path"] == "docs.csv"  # no more of where it lay, and with it they make the same model
    settings["data"]["path"] = str(folder / "docs.csv")
    Path("again.yaml").write_text(yaml.safe_dump(settings))
    code, out, err = noisyir("run", "again.yaml", "--dry-run")
    assert code == 0 and "would run" not in re.sub(r"report .*", "", out), out
    example = re.search(r"```python\n(.*?)```", card.text, re.DOTALL)[1]
    exec(compile(example, "card", "exec"), {})
    assert '(["your question"])' in example and "Training is DPR" in card.text
    assert SentenceTransformer("docs-model").encode_query(["a"]).shape == (1, 384)


@pytest.mark.parametrize(
    ("kind", "expected"), [("latex", r"\toprule"), ("markdown", "| dpr"), ("trec", "dpr.test.run")]
)
def test_results_are_exported_for_papers_and_for_trec_eval(noisyir, folder, monkeypatch, tmp_path, kind, expected):
    monkeypatch.chdir(tmp_path)
    code, out, err = noisyir("export", "docs", "--format", kind)
    assert code == 0, err
    made = Path(out.split(":")[0])
    assert expected in (made.read_text() if made.is_file() else " ".join(path.name for path in made.iterdir()))


def test_a_model_that_is_no_better_than_none_is_refused_with_what_is_better(noisyir, copied):
    slow = ("train.learning_rate=1e-9", "methods=[dpr]", "name=slow", "train.epochs=1")
    code, out, err = noisyir("run", "docs.yaml", *QUICK, *slow)
    assert code == 0 and "WARNING" in out and "dpr is not shown to be" in out and "the untrained model" in out, err
    report = Path(re.search(r"report +(\S+)", out)[1]).read_text()
    assert report.index('conclusion">Use ') < report.index('id="results"') and "dpr is not shown to be" in report
    for command in (["search", "slow", "parse a date"], ["export", "slow", "--to", "refused"]):
        code, _, err = noisyir(*command)
        assert code == 1 and "dpr is not shown to be" in err and not Path("refused").exists()
    assert "NAME:SYSTEM" in noisyir("export", "--help")[1]
    system = re.search(r"noisyir export (slow:\w+)", err)[1]
    assert noisyir("export", system, "--to", "advised")[0] == 0
    card = Path("advised/README.md").read_text()
    assert "used as it is, without training" in card and "trained by" not in card and "Training is DPR" not in card
    assert "noisyir search slow:" not in err and system.partition(":")[2] in noisyir("search", "slow", "a date")[2]
    code, out, err = noisyir("search", system, "parse a date", "--json")  # as advised
    assert code == 0 and json.loads(out)["hits"], err
    better = json.loads(noisyir("compare", "slow:dpr", system, "--json")[1])["measures"][0]
    assert better["difference"] > 0
    assert noisyir("search", "slow", "parse a date", "--force")[0] == 0
    assert noisyir("export", "slow", "--force")[0] == 0
    assert "dpr is not shown to be" in Path("slow-model/README.md").read_text()


@pytest.mark.slow
def test_a_model_as_it_is_that_wins_is_searched_exported_and_nothing_worse_is_registered(noisyir, copied, tmp_path):
    from sentence_transformers import SentenceTransformer

    code, out, err = noisyir("run", "docs.yaml", *QUICK[:2], *QUICK[3:-1], SHORT, "name=asis")
    assert code == 0 and "no training needed" in out and "not registered" in out, err
    system = re.search(r"next +noisyir search (asis:minilm_as_is\w*) 'your question'", out)[1]
    code, out, err = noisyir("search", system, "parse a date", "--json")
    assert code == 0 and json.loads(out)["hits"], err
    assert noisyir("search", "asis:best", "parse a date", "--json")[1] == out
    assert noisyir("export", "asis:best", "--to", tmp_path / "model")[0] == 0
    card = (tmp_path / "model" / "README.md").read_text()
    assert "transformer from minilm; used as it is, without training" in card.lower()
    assert SentenceTransformer(str(tmp_path / "model")).encode(["parse a date"]).shape == (1, 384)
    code, _, err = noisyir("export", "asis", "--to", tmp_path / "worse")
    assert code == 1 and "MiniLM as it is" in err
    for stage in ("encode", "index"):  # of one stage no model is refused, and no command is advised that is refused
        _, out, _ = noisyir("run", "docs.yaml", *QUICK[:2], *QUICK[3:-1], SHORT, "name=asis", "--only", stage)
        assert not re.search("refused|register|export|not tried|asis '", out) and "run, " in out
    Path("new.csv").write_text("doc_id,text\nfresh,zucchini zucchini\n")
    _, out, _ = noisyir("refresh", "asis", "new.csv")
    typed = shlex.split(re.search("next +noisyir (.*)", out)[1])
    assert typed == ["refresh", "asis:best", "new.csv"], "its index is not the one of the model that was trained"
    _, out, _ = noisyir(*typed)
    code, out, err = noisyir(*shlex.split(re.search("next +noisyir (.*)", out)[1])[:2], "zucchini", "--json")
    assert code == 0 and "fresh" in [hit["doc_id"] for hit in json.loads(out)["hits"]], err


def test_an_exported_folder_says_how_to_combine_with_bm25(noisyir, folder, monkeypatch, tmp_path):
    """The card's lines, given the two rankings, put documents in the order of `noisyir search docs:hybrid`."""
    monkeypatch.chdir(folder)
    code, _, err = noisyir("export", "docs:hybrid", "--to", tmp_path / "model", "--force")
    assert code == 0, err
    card = (tmp_path / "model" / "README.md").read_text()
    how = json.loads((tmp_path / "model" / "hybrid.json").read_text())
    assert 0 <= how["low"] <= how["weight"] <= how["high"] <= 1 and how["bm25"]["k1"] == 0.9 and how["queries"] > 10
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(import json.*?)```", card, re.DOTALL)[1]
    exec(compile(code, "card", "exec"), names := {})
    asked = {}
    for side in ("docs:bm25", "docs", "docs:hybrid"):
        out = noisyir("search", side, "parse a date", "-k", 100, "--json", "--force")[1]
        asked[side] = json.loads(out)["hits"]
    found = [{hit["doc_id"]: hit["score"] for hit in asked[side]} for side in ("docs:bm25", "docs")]
    expected = [hit["score"] for hit in asked["docs:hybrid"]]
    assert [score for score, _ in names["combined"](*found)][:100] == pytest.approx(expected, abs=1e-5)


def test_a_misspelt_format_is_answered_with_those_that_there_are(noisyir):
    code, _, err = noisyir("export", "docs", "--format", "latx")
    assert code == 1 and "did you mean latex?" in err and "sentence-transformers" in err


def test_data_in_the_place_of_an_experiment_is_answered_with_what_to_type(noisyir, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_pairs(tmp_path / "few.csv", [(f"what is {n}?", f"{n} is a number") for n in range(30)])
    code, _, err = noisyir("run", "few.csv")
    assert code == 1 and "noisyir init few.csv" in err
    Path("few.yaml").touch()
    code, _, err = noisyir("init", "few.csv")
    assert code == 1 and "few.yaml exists already" in err
    code, _, err = noisyir("init", "few.csv", "--to", "mine.txt")
    assert code == 1 and not Path("mine.txt").exists()
    assert noisyir("init", "few.csv", *re.search("--to mine.txt.yaml$", err)[0].split())[0] == 0
    assert noisyir("run", "mine.txt.yaml", "--dry-run")[0] == 0


def test_the_example_of_the_docs_works_as_typed(noisyir, folder, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    rows = [{"question": q, "answer": a, "topic": "python"} for q, a in dict(functions()).items()][:300]
    Path("support.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    said = (ROOT / "docs" / "reference" / "data.md").read_text()
    Path("support.yaml").write_text(re.search(r"\$ cat support.yaml\n(.*?)```", said, re.DOTALL)[1])
    code, out, err = noisyir("run", "support.yaml", *QUICK)
    assert code == 0 and "30 dev and 30 test queries held out" in out, err


@pytest.mark.slow
def test_a_method_that_seems_better_by_one_seed_is_measured_by_more_as_the_run_says(noisyir, copied):
    code, said, err = noisyir("run", "docs.yaml", *QUICK, "methods=[dpr]", "name=sown", "seed=3")
    assert code == 0 and "\ncompared    By one seed, dpr seems better than the untrained model (nDCG@10 " in said, err
    again, compare = re.findall(r"^ +noisyir (run .* seed=4|compare .*)$", said, re.MULTILINE)
    assert noisyir(*shlex.split(again))[0] == 0
    code, out, err = noisyir(*shlex.split(compare))
    assert code == 0 and "sown:dpr seems better than sown:zero_shot" in out and "2 seeds; fewer than 5" in out, err


def test_queries_that_no_system_answers_are_told_with_the_audit_that_shows_their_pairs(noisyir, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    pairs = [*{" ".join(text.split()[:6]): text for text in dict(functions())}.items()][:300]
    wrong = {pairs[n][0]: pairs[n - 150][1] for n in range(152, 300, 30)}  # of the test
    rows = [(one, wrong.get(one, text), ("train", "dev", "test")[n % 3]) for n, (one, text) in enumerate(pairs)]
    with open("mine.csv", "w", newline="") as out:
        csv.writer(out).writerows([("query", "document", "split"), *rows])
    Path("mine.yaml").write_text("data: {kind: pairs, path: mine.csv}\n")
    code, said, err = noisyir("run", "mine.yaml", "methods=[dpr]", "data.min_relevance=1", *QUICK)
    assert code == 0, err
    count, audit = re.search(
        r"^missed +(\d) of 100 test queries score 0.*\n +noisyir (audit .*)$", said, re.MULTILINE
    ).groups()
    assert len(wrong) == 5 and 3 <= int(count) <= 7 and "data.min_relevance=1" in audit
    code, said, err = noisyir(*shlex.split(audit))
    assert code == 0 and "100 relevant judgements of test" in said, err
    with open("mine-audit/audit.csv") as table:
        assert len({row["query"] for row in islice(csv.DictReader(table), 10)} & wrong.keys()) >= 3


@pytest.mark.slow
@pytest.mark.skipif(not SQUAD.exists(), reason="needs ../shared/data/squad")
def test_twelve_thousand_pairs_with_nothing_else(noisyir, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    articles = json.loads(SQUAD.read_text())["data"]
    rows = [(qa["question"], p["context"]) for a in articles for p in a["paragraphs"] for qa in p["qas"]][::7][:12_000]
    write_pairs(Path("x.csv"), rows)
    for command in (["audit", "x.csv"], ["init", "x.csv"], ["run", "x.yaml", "--no-track"], ["export", "x"]):
        code, _, err = noisyir(*command)
        assert code == 0, err
    found = json.loads(noisyir("compare", "x:zero_shot", "x", "--json")[1])
    assert found["measures"][0]["low"] > 0 and found["measures"][0]["p_holm"] < 0.001


def test_weights_are_offered_where_only_plain_training_of_a_transformer_was_tried(noisyir, bert, tmp_path, monkeypatch):
    draw = random.Random(0)
    texts = [" ".join(draw.sample(WORDS, 8)) for _ in range(60)]
    monkeypatch.chdir(tmp_path)
    write_pairs(Path("mine.csv"), [(" ".join(text.split()[:3]), text) for text in texts])
    settings = (
        "methods=[dpr]",
        f"model={{backbone: transformer, weights: {bert}, query_max_len: 32, passage_max_len: 32}}",
        "train.epochs=1",
        *QUICK,
    )
    Path("mine.yaml").write_text("data: {kind: pairs, path: mine.csv}\n")
    code, out, err = noisyir("run", "mine.yaml", *settings)
    assert code == 0, err
    (typed,) = (line for line in out.splitlines() if line.startswith("not tried "))
    code, out, err = noisyir(*shlex.split(typed)[3:])
    assert code == 0 and "not tried" not in out, err
    assert any(line.startswith("reweight ") for line in out.splitlines())
    page = " ".join(Path(re.search(r"report +(\S+)", out)[1]).read_text().split())
    assert "No noise was put in, so it is not known which pairs are wrong." in page and "AUROC" not in page
