"""`noisyir audit --judge-url` and `--judge-model` from the command line: a judge that errs, people who judged too."""

import json
import random
import re
import socket
from types import SimpleNamespace

import pytest

from noisyir.audits.model_judges.address import KEY
from noisyir.front.cli import main
from tests.judge_server import Reaction, chances, judge_server, verdict
from tests.tiny_models import WORDS, tiny_classifier

PAIRS, WRONG = 120, 40
QUICK = ["runtime.threads=1", "runtime.device=cpu"]
WORDS_ALONE = "ask.judge.answer=words"
SECRET = "sk-never-to-be-seen-again"


def pairs():
    """Each question names its document by a number in words; of a third, another one."""
    draw = random.Random(0)
    topics = [" ".join(draw.sample(WORDS, 5)) for _ in range(PAIRS)]
    rows = [{"query_id": f"q{n}", "query": f"{topics[n]} case {n}", "doc_id": f"d{n}"} for n in range(PAIRS)]
    named = [(n + 1) % WRONG if n < WRONG else n for n in range(PAIRS)]
    return [
        {**row, "doc_id": f"d{other}", "document": f"{topics[other]} is file {other}"}
        for row, other in zip(rows, named, strict=True)
    ]


def is_wrong(text):
    return re.search(r"case (\d+)", text)[1] != re.search(r"file (\d+)", text)[1]


def honest(call, _):
    return verdict("wrong" if is_wrong(call.text) else "right", f"the files differ, {KEY}")


def errs(call, before):
    """Every tenth verdict is the other one."""
    number = int(re.search(r"case (\d+)", call.text)[1])
    return verdict("wrong" if is_wrong(call.text) != (number % 10 == 0) else "right")


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """All commands of this module share a store: the pairs are audited once."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in pairs()))
    return path


@pytest.fixture
def noisyir(home, tmp_path, monkeypatch, capsys):
    """`noisyir("audit", ...)`: run the command in an empty folder; (exit code, stdout, stderr)."""
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    monkeypatch.delenv(KEY, raising=False)
    monkeypatch.chdir(tmp_path)
    for kept in (home / "judges").glob("*"):
        kept.unlink()

    def run(*args):
        capsys.readouterr()
        code = main([*map(str, args), *(QUICK if args[0] == "audit" else [])])
        return code, *capsys.readouterr()

    return run


def judgements(folder):
    lines = (folder / "model_judgements.jsonl").read_text().splitlines()
    return [SimpleNamespace(**json.loads(line)) for line in lines]


def test_an_endpoint_is_asked_within_its_budget_and_its_word_is_kept_apart(noisyir, file, tmp_path, home):
    code, out, err = noisyir("audit", file, "--out", "plain")
    assert code == 0, err
    with judge_server(honest) as (server, url):
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", 60, WORDS_ALONE]
        code, out, err = noisyir("audit", file, "--out", "asked", *asking)
        assert code == 0 and len(server.calls) == 60, err
        for name in ("audit.parquet", "audit.csv", "audit.html"):
            assert (tmp_path / "asked" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
        assert "judge       model:m@v1: asked 60 pairs, answered 60" in out
        assert "took        60 calls, 6,600 tokens (6,000 read, 600 written)" in out
        assert "asking the judge     60 of 60" in err
        said = judgements(tmp_path / "asked")
        truth = {(row["query_id"], row["doc_id"]): is_wrong(f"{row['query']} {row['document']}") for row in pairs()}
        assert all((one.verdict == "wrong") == truth[one.query_id, one.doc_id] for one in said)
        drawn = [one for one in said if one.draw == "random"]
        assert len(said) == 60 and len(drawn) == 15 and {one.weight for one in drawn} == {8.0}
        assert {(one.draw, one.weight) for one in said if one.draw != "random"} == {("teaching", None)}
        assert {one.judge for one in said} == {"model:m@v1"}

        code, again, _ = noisyir("audit", file, "--out", "asked", *asking)
        assert code == 0 and len(server.calls) == 60 and "60 of them kept from before" in again
        more = judgements(tmp_path / "asked")
        assert [vars(one) | {"at": ""} for one in more] == [vars(one) | {"at": ""} for one in said]


def test_its_error_is_measured_on_what_people_judged_too_and_taken_out(noisyir, file, tmp_path):
    sample = sampled(tmp_path / "sample.csv", 80, 1.5)
    with judge_server(errs) as (_, url):
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", 100, "ask.random=0.3", "ask.checked=0.6"]
        asking += [WORDS_ALONE]
        code, out, err = noisyir("audit", file, "--judgements", sample, "--out", "asked", *asking)
    assert code == 0, err
    said = judgements(tmp_path / "asked")
    assert sum(one.draw == "random" for one in said) == 30 and sum(one.draw == "" for one in said) >= 45
    found = re.search(r"its error   on (\d+) pairs that people judged, too, it finds (\d+) % .* passes (\d+) % ", out)
    assert int(found[1]) >= 60 and 75 <= int(found[2]) <= 98 and 75 <= int(found[3]) <= 98
    rate, low, high = map(float, re.search(r"corrected +([\d.]+) % \[([\d.]+) %, ([\d.]+) %\]", out).groups())
    assert low < 100 / 3 < high and abs(rate - 100 / 3) < 12 and "wrong, by people and judge" in out


def test_nothing_is_sent_unless_an_address_is_given(noisyir, file, monkeypatch):
    def refuse(*_):
        raise AssertionError("a connection was made")

    monkeypatch.setenv(KEY, SECRET)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    code, out, err = noisyir("audit", file)
    assert code == 0 and "asked" not in out, err


def test_a_key_that_is_refused_is_told_and_not_shown(noisyir, file, tmp_path, home, monkeypatch):
    monkeypatch.setenv(KEY, SECRET)
    with judge_server(lambda *_: Reaction(401, f"no such key: {SECRET}".encode())) as (server, url):
        code, out, err = noisyir("audit", file, "--out", "asked", "--judge-url", url, "--judge-name", "m")
    assert code == 1 and server.calls[0].headers["Authorization"] == f"Bearer {SECRET}"
    assert "stopped     status 401: no such key: [key]; the answers so far are kept" in out
    assert judgements(tmp_path / "asked") == []
    written = [path for folder in (tmp_path, home) for path in folder.rglob("*") if path.is_file()]
    assert SECRET not in out + err and not [path for path in written if SECRET.encode() in path.read_bytes()]


REFUSED = {
    "two": (["--judge-url", "https://h/v1", "--judge-name", "m", "--judge-model", "m"], "give one of them"),
    "no name": (["--judge-url", "https://h/v1"], "--judge-url and --judge-name"),
    "name alone": (["--judge-name", "m"], "no judge is named"),
    "setting alone": (["ask.random=0.5"], "no judge is named"),
    "name of a classifier": (["--judge-model", "m", "--judge-name", "m"], "--judge-url and --judge-name"),
    "no budget": (["--judge-url", "https://h/v1", "--judge-name", "m", "--judge-budget", "much"], "number of calls"),
    "unknown setting": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.randon=1"], "did you mean random?"),
    "setting of another": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.judge.max_len=9"], "unknown key"),
    "bad value": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.judge.at_once=0"], "at_once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_together_is_refused_before_any_work(noisyir, file, tmp_path, name):
    options, said = REFUSED[name]
    code, _, err = noisyir("audit", file, "--out", "asked", *options)
    assert code == 1 and said in err and len(err.splitlines()) == 1
    assert not (tmp_path / "asked").exists()


def test_a_classifier_is_asked_by_its_folder(noisyir, file, tmp_path):
    folder = tiny_classifier(tmp_path / "tiny-judge")
    asking = ["--judge-model", folder, "--judge-budget", 500, "ask.judge.max_len=48"]
    code, out, err = noisyir("audit", file, "--out", "asked", *asking)
    assert code == 0, err
    said = judgements(tmp_path / "asked")
    assert len(said) == PAIRS and {(one.draw, one.weight) for one in said} == {("random", 1.0)}
    assert re.search(r"judge       model:tiny-judge@[0-9a-f]{12}: asked 120 pairs, answered 120", out)


def sampled(path, count, weight):
    """A file of people's verdicts on so many pairs, drawn at random."""
    rows = random.Random(1).sample(pairs(), count)
    said = ["wrong" if is_wrong(f"{row['query']} {row['document']}") else "clean" for row in rows]
    lines = [f"{row['query_id']},{row['doc_id']},{word},{weight}" for row, word in zip(rows, said, strict=True)]
    path.write_text("\n".join(["query_id,doc_id,verdict,weight", *lines]) + "\n")
    return path


def unsure(text):
    """The chance that a pair is right, by a judge who is on the right side nine times of ten and never quite sure."""
    number = int(re.search(r"case (\d+)", text)[1])
    return 0.5 + (0.1 + number % 7 / 20) * (-1 if is_wrong(text) != (number % 10 == 0) else 1)


def test_probabilities_are_stored_counted_and_checked(noisyir, file, tmp_path):
    """`audit --judge-check` reads what the audit wrote."""
    sample = sampled(tmp_path / "sample.csv", 60, 2.0)

    with judge_server(lambda call, _: chances(yes=unsure(call.text))) as (server, url):
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", 100, "ask.random=0.4"]
        code, out, err = noisyir("audit", file, "--judgements", sample, "--out", "asked", *asking)
    assert code == 0 and len(server.calls) == 100, err
    text = {(row["query_id"], row["doc_id"]): f"{row['query']} {row['document']}" for row in pairs()}
    said = judgements(tmp_path / "asked")
    assert all(one.p_wrong == pytest.approx(1 - unsure(text[one.query_id, one.doc_id])) for one in said)
    assert {one.judge for one in said} == {"model:m@yes_no_v1"}
    low, high = map(float, re.search(r"corrected +[\d.]+ % \[([\d.]+) %, ([\d.]+) %\]", out).groups())
    assert low < 100 / 3 < high and "its chances" in out

    answers = tmp_path / "asked" / "model_judgements.jsonl"
    code, out, err = noisyir("audit", answers, "--judge-check", sample, "--json", "--error", 0.4)
    found = json.loads(out)
    assert code == 0 and found["good_enough"] and not err
    assert found["both"] <= found["labels"] == 60 and found["both"] >= 40 and found["answers"] == len(said)
    assert found["kappa"]["low"] < found["kappa"]["value"] < found["kappa"]["high"] and found["kappa"]["value"] > 0.5
    for name in ("sensitivity", "specificity"):
        assert 0.75 <= found[name]["value"] <= 1 and found[name]["low"] < found[name]["value"]
    assert (
        found["reach"]["limit"] < found["reach"]["alone"]
        and sum(g["pairs"] for g in found["calibration"]["groups"]) == found["both"]
    )
    # in the other order, and too much to ask
    code, out, _ = noisyir("audit", sample, "--judge-check", answers, "--error", 0.01)
    assert code == 3 and f"{found['both']} of its" in out and "within 1 takes about" in out


def answered(path, judge="model:m@v1", prefix="q", **more):
    rows = [
        {
            "query_id": f"{prefix}{n}",
            "doc_id": f"d{n}",
            "verdict": "wrong" if n % 3 else "clean",
            "judge": judge,
            **more,
        }
        for n in range(30)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_files_that_do_not_belong_together_are_told_in_a_line(noisyir, tmp_path):
    answers = answered(tmp_path / "a.jsonl")
    people = answered(tmp_path / "p.jsonl", judge="ann")
    strangers = answered(tmp_path / "s.jsonl", judge="ann", prefix="x")
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text(answers.read_text() + answered(tmp_path / "b.jsonl", judge="model:n@v1", prefix="y").read_text())
    odd = answered(tmp_path / "odd.jsonl", p_wrong=1.5)
    (tmp_path / "junk.jsonl").write_text('{"a": 1}\n')
    for files, said in {
        (answers, strangers): "none of the 30 answers of model:m@v1 is about one of the 30 pairs that people judged",
        (people, strangers): "holds no answer of a model",
        (answers, odd): "write a probability from 0 to 1",
        (mixed, people): "holds answers of model:m@v1 and of model:n@v1",
        (tmp_path / "junk.jsonl", people): "lacks the column query_id, doc_id, verdict",
        (answers, tmp_path / "nowhere.jsonl"): "nowhere.jsonl: set JUDGEMENTS to one",
        (answers, answers): "holds no verdict of a person",
    }.items():
        code, out, err = noisyir("audit", files[0], "--judge-check", files[1])
        assert code == 1 and not out and len(err.splitlines()) == 1 and said in err
    half = tmp_path / "half.jsonl"
    half.write_text(people.read_text() + strangers.read_text())
    code, out, _ = noisyir("audit", answers, "--judge-check", half)  # in part: how many is said
    assert (
        code == 0
        and "30 of its 30 are among the 60 of people's" in out
        and "agreement   100 % [89 %, 100 %]; kappa 1.00 [0." in out
    )
