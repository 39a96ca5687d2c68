"""The methods and the backbone that `noisyir init` writes: by size, by judgements and by time."""

import csv
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from noisyir.app import affordable, init
from noisyir.app.affordable import run_seconds, time_documents, upper_seconds
from noisyir.app.init import advised, experiment_file
from noisyir.app.own_data import too_small
from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.plans.left_out import TRIED_FROM, trials_pay
from noisyir.models.backends import quickest
from tests.refusals import refuses
from tests.tiny import write_beir

pytestmark = pytest.mark.usefixtures("timed")


def pairs_file(folder: Path, count: int) -> Path:
    path = folder / "faq.csv"
    with path.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(
            [("question", "answer"), *((f"what is {n}", f"{n} is a number") for n in range(count))]
        )
    return path


def written(tmp_path: Path, count: int, **given) -> dict:
    store, target = Store(tmp_path / "store", home=tmp_path), tmp_path / "faq.yaml"
    experiment_file(str(pairs_file(tmp_path, count)), target, store, **given)
    return yaml.safe_load(target.read_text())


@pytest.mark.parametrize(("pairs", "methods"), [(TRIED_FROM - 1, ["dpr"]), (TRIED_FROM, ["dpr", "auto"])])
def test_trials_are_written_where_there_are_pairs_enough(tmp_path, pairs, methods):
    assert written(tmp_path, pairs, budget="2m")["methods"] == methods


def test_trials_do_not_pay_where_people_found_few_wrong_pairs():
    assert trials_pay("static", 20_000)[0] and trials_pay("static", 20_000, 0.3)[0]
    assert not trials_pay("static", 20_000, 0.04)[0] and not trials_pay("transformer", 20_000)[0]


def test_judgements_of_an_audit_are_read(tmp_path, monkeypatch):
    """The upper end of the rate's interval, as the audit's notes have it."""
    notes = type("Audit", (), {"notes": {"judgements": {"interval": [0.02, 0.01, 0.04]}}})
    monkeypatch.setattr(init, "kept_by_run", lambda store, name, result: notes if result == "audit" else None)
    assert written(tmp_path, TRIED_FROM)["methods"] == ["dpr"]


@pytest.mark.parametrize(
    ("pairs", "budget", "backbone", "as_is"),
    [
        (500, None, "transformer", True),  # 30 + 0.02 * 500 * (2 + 14) / 3 + 4 = 87 s of 10 minutes, for weights twice
        (500, "88s", "transformer", True),
        (500, "80s", "static", True),
        (500, "35s", "static", False),  # a static model takes 34 s, and encoding 5 s more
        (6000, None, "static", True),  # 670 s
    ],
)
def test_the_models_are_those_that_the_time_is_enough_for(tmp_path, pairs, budget, backbone, as_is):
    found = written(tmp_path, pairs, budget=budget)
    assert found["model"]["backbone"] == backbone
    assert ("static" in found["methods"]) == (backbone == "transformer"), "a static model is always trained"
    assert found.get("train") == ({"freeze": 4, "keep_states": True} if backbone == "transformer" else None)
    assert found["as_is"] == ({"minilm": {}} if as_is else {})
    weighs = backbone == "transformer" and budget is None
    assert ("reweight" in found["methods"]) == weighs
    assert found.get("detect") == ({"assume": "best"} if weighs else None)
    assert run_seconds(500, 3, 0.02) == pytest.approx(170)
    assert upper_seconds(500, 500, 3, 0.02) == pytest.approx(30 + 160 / 3)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("q1", "d1", ""), ("q2", "d2", "")], "2 pairs, with"),
        ([("q1", "d1", ""), ("q2", "d2", ""), ("q1", "d1", "")], "3 rows: 2 pairs, 1 repeated, with"),
        ([("q1", "d1", "1"), ("q2", "d2", "0"), ("q1", "d1", "1"), ("q1", "d3", "0")],
         "4 rows: 1 pair called right, 2 called wrong, 1 repeated, with"),
        ([("q1", "d1", ""), ("q2", "", "0"), ("q3", "", "")], "3 rows: 1 pair, 2 without a text, with"),
    ],
)  # fmt: skip
def test_the_rows_of_a_file_are_counted_with_the_reasons_for_fewer_pairs(tmp_path, rows, said):
    names = ("query", "document", "label")[: 3 if rows[0][2] else 2]
    with (tmp_path / "p.csv").open("w", newline="") as out:
        csv.writer(out).writerows([names, *(row[: len(names)] for row in rows)])
    store = Store(tmp_path / "store", home=tmp_path)
    found = experiment_file(str(tmp_path / "p.csv"), tmp_path / "p.yaml", store).splitlines()[0]
    assert f"p.csv holds {said}" in found


def test_what_more_time_would_buy_is_said_and_does_buy_it(tmp_path):
    """A second file has a name of its own: one name would be one schedule, and the newest run of both."""
    store, target = Store(tmp_path / "store", home=tmp_path), tmp_path / "short.yaml"
    said = experiment_file(str(pairs_file(tmp_path, 6000)), target, store)
    enough = said.split("(--budget ")[1].split()[0]
    assert experiments.load(str(target)).name == "short"
    assert written(tmp_path, 6000, budget=enough)["model"]["backbone"] == "transformer"


@pytest.mark.parametrize("budget", ["20s", "soon", "10", "-5m"])
def test_a_time_that_is_too_small_or_none_is_refused_before_work_with_what_is_enough(tmp_path, budget):
    with pytest.raises(ConfigError, match="--budget") as refused:
        written(tmp_path, 500, budget=budget)
    assert not (tmp_path / "faq.yaml").exists() and "\n" not in str(refused.value)
    if budget == "20s":
        enough = str(refused.value).split("--budget ")[-1].split()[0]
        assert written(tmp_path, 500, budget=enough)["model"]["backbone"] == "static"


def test_documents_are_timed_on_the_packaged_model(tmp_path):
    from noisyir.methods.experiments import from_settings

    exp = from_settings({"name": "x", "data": {"kind": "pairs", "path": str(pairs_file(tmp_path, 4))}}, [])
    timed = time_documents(exp.data)
    assert timed.texts == 4 and timed.device in ("CPU", "GPU") and not timed.why_chunk
    assert 0 < timed.encoding < 60 and 0 < timed.forward < 60


@pytest.mark.parametrize(("sentences", "passages"), [(65, None), (124, 4)])
def test_documents_that_models_would_not_read_are_cut_into_passages_and_their_number_is_timed(
    tmp_path, monkeypatch, sentences, passages
):
    """Of four words each: 260 words are two passages of 150 that overlap, and 496 are four."""
    rows = [(f"what is {n}", " ".join(f"{n} is number {word}." for word in range(sentences))) for n in range(5)]
    with (tmp_path / "long.csv").open("w", newline="") as out:
        csv.writer(out).writerows([("question", "answer"), *rows])
    monkeypatch.setattr(affordable, "time_documents", time_documents)
    monkeypatch.setattr(affordable, "quickest", quickest)
    target, store = tmp_path / "long.yaml", Store(tmp_path / "store", home=tmp_path)
    said = experiment_file(str(tmp_path / "long.csv"), target, store)
    exp = experiments.load(str(target))
    assert time_documents(exp.data).texts == 5 * (passages or 1)
    assert (exp.chunk.words, exp.chunk.overlap) == ((150, 30) if passages else (None, 0))
    assert ("such passages, and models read one" in said) == bool(passages)
    assert advised(str(tmp_path / "long.csv"), store)[1]["chunk"] == ({"words": 150, "overlap": 30} if passages else {})


def test_columns_that_were_named_are_written_and_read_again(tmp_path):
    file, target = tmp_path / "odd.csv", tmp_path / "odd.yaml"
    file.write_text("a,b,c\n" + "".join(f"what is {n},{n} is a number,x\n" for n in range(9)))
    given = ["data.columns={query: a, document: b}"]
    said = experiment_file(str(file), target, Store(tmp_path / "store", home=tmp_path), overrides=given)
    assert "with a as query, b as document; not read: c" in said
    assert dict(experiments.load(str(target)).data.open().columns) == {"query": "a", "document": "b"}


def test_a_small_folder_is_trained_as_it_is_large_and_one_without_training_pairs_is_refused(tmp_path, capsys):
    """The refusal advises an audit of the judgements, which works."""
    data = write_beir(tmp_path / "small", documents=20, train=8, held_out=3)
    assert main(["init", str(data), "--dry-run"]) == 0
    assert "30,000" not in capsys.readouterr().out
    (data / "qrels/train.tsv").unlink()
    store = Store(tmp_path / "store", home=tmp_path)
    with refuses(DataError, "app.no_training_pairs", typed=str(data)):
        experiment_file(str(data), tmp_path / "small.yaml", store)


@pytest.mark.parametrize(("documents", "share"), [(1, "100 %"), (20, "50 %"), (50, None), (5_000, None)])
def test_a_collection_in_which_chance_finds_much_is_called_too_small(documents, share):
    built = SimpleNamespace(meta=SimpleNamespace(artifacts={"corpus": SimpleNamespace(rows=documents)}))
    said = too_small(SimpleNamespace(results={"ingest": built}), queries=10)
    few = too_small(SimpleNamespace(results={"ingest": built}), queries=9)
    assert few == said if share else few.startswith("9 queries are too few")
    assert said is None if share is None else f"any order has {share} of the right ones" in said
