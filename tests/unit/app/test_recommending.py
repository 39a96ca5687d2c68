"""Advice for a file of pairs: its numbers, the sets near it, what is expected, and the regret of what is advised."""

import json
import math
import re
import shlex
from pathlib import Path

import pytest
import yaml

from bench.recommended import regrets
from noisyir.app.recommending import (
    Advice,
    Expected,
    KnownSet,
    Profile,
    advise,
    expected,
    known_sets,
    near_sets,
    profile_of,
    sentences,
)
from noisyir.front.cli import main
from noisyir.methods import experiments

pytestmark = pytest.mark.usefixtures("timed")

HERE = Profile(2000, 0.5, 0.1, 10.0, 100.0, 0.5, 0.0, 1.0)


def sets(*gains: dict[str, float], profile: Profile = HERE) -> list[KnownSet]:
    """Sets that lie close together, each with its gains."""
    return [KnownSet(f"set{n}", "f", profile._replace(pairs=2000 + n), found, found) for n, found in enumerate(gains)]


def test_a_profile_is_counted_by_hand():
    pairs = [("red boat", "a red boat sails"), ("red boat", "cook eggs"), ("Öl", "öl und wein")]
    found = profile_of(pairs)
    assert found is not None
    assert (
        found.pairs == 3 and found.overlap == pytest.approx((1 + 0 + 1) / 3) and found.without == pytest.approx(1 / 3)
    )
    assert found.query_words == pytest.approx(5 / 3) and found.document_words == 3 and found.documents == 1
    assert found.repeated == pytest.approx(2 / 3) and found.latin == 1
    assert profile_of([]) is None and profile_of([("вопрос", "ответ")]).latin == 0


def test_the_interval_is_that_of_one_more_set():
    gains = [0.01, 0.02, 0.03]
    found = expected(gains)
    reach = 4.302652729911275 * 0.01 * math.sqrt(1 + 1 / 3)  # t of two degrees of freedom
    assert found.mean == pytest.approx(0.02) and found.high - found.mean == pytest.approx(reach)
    assert found.mean - found.low == pytest.approx(reach)


def test_the_best_method_that_lost_nowhere_much_is_advised():
    near = sets(
        {"auto": 0.010, "relabel": 0.03, "reweight": 0.010},
        {"auto": 0.011, "relabel": -0.006, "reweight": 0.0105},
        {"auto": 0.012, "relabel": 0.05, "reweight": 0.0115},
        {"auto": 0.011, "relabel": 0.05, "reweight": 0.0105},
    )
    found = advise(HERE, "static", near, 2000)
    assert found.method == "reweight", "auto gains less than a thousandth more, and costs 18 trainings"
    assert found.assume == "best" and ("with", "detect.assume=best, as its gain was measured") in sentences(found, None)
    assert found.gain == expected([0.010, 0.0105, 0.0115, 0.0105]) and set(found.near) == {f"set{n}" for n in range(4)}
    worse = sets(*[{"auto": -0.001, "reweight": -0.002}] * 4)
    assert advise(HERE, "static", worse, 2000)[0] == "dpr" and advise(HERE, "static", worse, 2000).assume is None
    assert advise(HERE, "static", worse, 2000).gain == Expected(0, 0, 0)


@pytest.mark.parametrize(
    ("profile", "backbone", "pairs", "most_wrong", "method"),
    [
        (HERE._replace(pairs=10, query_words=900.0), "static", 10, None, "dpr"),
        (HERE._replace(document_words=90000.0), "static", 20_000, None, "auto"),
        (None, "static", 20_000, None, "auto"),
        (HERE, "transformer", 20_000, None, "dpr"),
        (HERE, "static", 20_000, 0.04, "dpr"),  # people found few wrong pairs
    ],
)
def test_where_nothing_is_near_the_gain_is_not_known(profile, backbone, pairs, most_wrong, method):
    found = advise(profile, backbone, known_sets(), pairs, most_wrong)
    assert (found.method, found.gain, found.near) == (method, None, ())


@pytest.mark.parametrize(("most_wrong", "method"), [(None, "reweight"), (0.4, "reweight"), (0.04, "dpr")])
def test_a_transformer_is_trained_with_weights_too_if_there_is_time(most_wrong, method):
    found = advise(HERE, "transformer", known_sets(), 20_000, most_wrong, weighs=True)
    assert (found.method, found.assume) == (method, "best" if method == "reweight" else None)


def test_every_known_set_is_near_itself():
    for one in known_sets():
        assert near_sets(one.profile, known_sets())[0].profile == one.profile


def test_regret_on_sets_left_out_is_small():
    rows = [row for row in regrets(known_sets()) if row["left out"] == "set"]
    assert len(rows) >= 8
    assert sum(row["regret"] for row in rows) / len(rows) <= 0.005
    assert max(row["regret"] for row in rows) <= 0.0161, "0.015 is aimed at"
    assert min(row["gain"] for row in rows) >= -0.005, "never much worse than plain training"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch) -> str:
    """A file of pairs, in a folder that is the user's, too."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    (tmp_path / "mine.csv").write_text("query,document\n" + "".join(f"cup {n}?,take cup {n}\n" for n in range(60)))
    return str(tmp_path / "mine.csv")


def test_init_writes_the_assumption_that_the_advice_rests_on(mine: str, tmp_path: Path, monkeypatch):
    for method, assumed in (("reweight", "best"), ("dpr", None)):
        advice = Advice(method, "it gains", Expected(0.01, 0.0, 0.02), ["one"])
        monkeypatch.setattr("noisyir.app.init.advise", lambda *_, advice=advice, **__: advice)
        written = tmp_path / f"{method}.yaml"
        assert main(["init", mine, "--to", str(written)]) == 0
        exp = experiments.load(str(written))
        assert exp.methods[-1].kind == method and exp.detect.assume == assumed


def test_a_column_of_weights_is_used_or_left_unread_as_the_error_says(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    for name, weight in (("kept", 0.5), ("stars", 7)):
        rows = "".join(f"cup {n}?,take cup {n},{weight}\n" for n in range(60))
        Path(f"{name}.csv").write_text("query,document,weight\n" + rows)
    assert main(["init", "kept.csv"]) == 0
    assert yaml.safe_load(Path("kept.yaml").read_text())["methods"] == ["static", "dpr"]
    assert "the pairs have weights" in capsys.readouterr().out
    assert main(["init", "stars.csv"]) == 1
    cure = shlex.split(re.search("noisyir (init .*) leaves", capsys.readouterr().err)[1])
    assert main([*cure, "--dry-run"]) == 0
    *_, advised = shlex.split(re.search("^next +noisyir init (.*)$", capsys.readouterr().out, re.MULTILINE)[1])
    assert main(["init", "stars.csv", advised]) == 0
    assert main(["run", "stars.yaml", "--dry-run"]) == 0
    assert main(["init", "kept.csv", "train.epochs=3", "--to", "other.yaml"]) == 1 and not Path("other.yaml").exists()


def test_what_people_judged_is_not_asked_for_again(mine: str, tmp_path, monkeypatch, capsys):
    rows = [{"query": f"cup {n}?", "document": f"take cup {n}", "weight": 0.5} for n in range(60)]
    (tmp_path / "cleaned.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", str(tmp_path / "cleaned.jsonl"), "--dry-run"]) == 0
    assert "not needed: the pairs have weights" in capsys.readouterr().out
    monkeypatch.setattr("noisyir.app.init.most_wrong", lambda *_: 0.31)
    assert main(["init", mine, "--dry-run"]) == 0
    assert "done: at most 31 % of the pairs are wrong by your judgements" in capsys.readouterr().out


def test_the_command_says_what_init_writes(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    rows = [{"query": f"how do I wash cup {n}", "document": f"take cup {n} and wash it"} for n in range(60)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["init", str(tmp_path / "mine.jsonl"), "--json", "--dry-run"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert main(["init", str(tmp_path / "mine.jsonl")]) == 0
    assert yaml.safe_load((tmp_path / "mine.yaml").read_text())["methods"][-1] == found["method"]
    assert found["profile"]["pairs"] == 60 and found["gain"] is None
    capsys.readouterr()
    assert main(["init", str(tmp_path / "mine.jsonl"), "--dry-run"]) == 0
    assert "gain        not known" in capsys.readouterr().out
    assert main(["init", str(tmp_path / "nothing.jsonl"), "--dry-run"]) == 1
    capsys.readouterr()
    leaking = [{**row, "split": split} for row in rows for split in ("train", "test")]
    (tmp_path / "leaking.jsonl").write_text("".join(json.dumps(row) + "\n" for row in leaking))
    assert main(["init", str(tmp_path / "leaking.jsonl"), "--dry-run"]) == 0
    (told,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("leaks"))
    assert "60 of 60" in told and f"noisyir check {tmp_path / 'leaking.jsonl'}" in told
    assert main(["check", str(tmp_path / "leaking.jsonl"), "--fail-on", "leaks"]) == 3
    apart = [{"query": row["query"], "doc_id": row["document"][9:], "split": row["split"]} for row in leaking]
    (tmp_path / "apart.jsonl").write_text("".join(json.dumps(row) + "\n" for row in apart))
    documents = {row["document"][9:]: row["document"] for row in rows}
    (tmp_path / "corpus.jsonl").write_text(
        "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in documents.items())
    )
    capsys.readouterr()
    assert main(["init", str(tmp_path / "apart.jsonl"), "--corpus", str(tmp_path / "corpus.jsonl"), "--dry-run"]) == 0
    said = capsys.readouterr().out
    for verb, code in (("check", 0), ("init", 0)):
        (typed,) = re.findall(rf"noisyir ({verb} \S*apart[^)\n]*)", said)
        assert main(shlex.split(typed)) == code
    capsys.readouterr()
    assert main(["init", str(tmp_path / "nothing.jsonl"), "--dry-run"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_commands_that_advice_names_hold_the_columns_and_the_budget_that_were_typed(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    rows = [
        {"Frage": f"how do I wash cup {n}", "Antwort": f"take cup {n} and wash it", "split": split}
        for n in range(60)
        for split in ("train", "test")
    ]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = ["--query", "Frage", "--document", "Antwort"]
    assert main(["init", str(tmp_path / "mine.jsonl"), *columns, "--budget", "20m", "--dry-run"]) == 0
    told = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert main(shlex.split(re.search(r"\(noisyir (check .*)\)", told["leaks"])[1])) == 0
    assert "Keep each query in one split." in capsys.readouterr().out
    assert main(shlex.split(told["next"])[1:]) == 0 and "20m may be taken" in (tmp_path / "mine.yaml").read_text()
