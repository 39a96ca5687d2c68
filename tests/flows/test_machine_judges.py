"""`noisyir audit --judge-url` and `--judge-model` from the command line: a judge that errs, people who judged too."""

import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from noisyir.auditing.asking.address import KEY
from noisyir.auditing.asking.answer_records import ModelJudgement
from noisyir.auditing.asking.judges.endpoint import KEPT
from noisyir.cli import main
from tests.judge_server import Reaction, judge_server, verdict
from tests.tiny_models import WORDS, tiny_classifier

PAIRS, WRONG = 120, 40
QUICK = ["runtime.threads=1", "runtime.device=cpu"]
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
        code = main([*map(str, args), *QUICK])
        return code, *capsys.readouterr()

    return run


def judgements(folder):
    return [ModelJudgement(**json.loads(line)) for line in (folder / "model_judgements.jsonl").read_text().splitlines()]


def test_an_endpoint_is_asked_within_its_budget_and_its_word_is_kept_apart(noisyir, file, tmp_path, home):
    code, out, err = noisyir("audit", file, "--out", "plain")
    assert code == 0, err
    with judge_server(honest) as (server, url):
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", 60, "ask.judge.price_in=0.5"]
        code, out, err = noisyir("audit", file, "--out", "asked", *asking)
        assert code == 0 and len(server.calls) == 60, err
        for name in ("audit.parquet", "audit.csv", "audit.html"):
            assert (tmp_path / "asked" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()
        assert "judge       model:m@v1: asked 60 pairs, answered 60" in out
        assert "took        60 calls, 6,600 tokens (6,000 read, 600 written), cost 3" in out
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
        assert [one.model_dump(exclude={"at"}) for one in more] == [one.model_dump(exclude={"at"}) for one in said]


def test_its_error_is_measured_on_what_people_judged_too_and_taken_out(noisyir, file, tmp_path):
    sample = tmp_path / "sample.csv"
    rows = random.Random(1).sample(pairs(), 80)
    said = ["wrong" if is_wrong(f"{row['query']} {row['document']}") else "clean" for row in rows]
    lines = [f"{row['query_id']},{row['doc_id']},{word},1.5" for row, word in zip(rows, said, strict=True)]
    sample.write_text("\n".join(["query_id,doc_id,verdict,weight", *lines]) + "\n")
    with judge_server(errs) as (_, url):
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", 100, "ask.random=0.3", "ask.checked=0.6"]
        code, out, err = noisyir("audit", file, "--judgements", sample, "--out", "asked", *asking)
    assert code == 0, err
    said = judgements(tmp_path / "asked")
    assert sum(one.draw == "random" for one in said) == 30 and sum(one.draw == "" for one in said) >= 45
    found = re.search(r"its error   on (\d+) pairs that people judged, too, it finds (\d+)% .* passes (\d+)% ", out)
    assert int(found[1]) >= 60 and 75 <= int(found[2]) <= 98 and 75 <= int(found[3]) <= 98
    rate, low, high = map(float, re.search(r"corrected +([\d.]+)% \[([\d.]+)%, ([\d.]+)%\]", out).groups())
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
    assert "stopped     status 401: no such key: [key]; what was answered is kept" in out
    assert judgements(tmp_path / "asked") == []
    written = [path for folder in (tmp_path, home) for path in folder.rglob("*") if path.is_file()]
    assert SECRET not in out + err and not [path for path in written if SECRET.encode() in path.read_bytes()]


REFUSED = {
    "two": (["--judge-url", "https://h/v1", "--judge-name", "m", "--judge-model", "m"], "give one of them"),
    "no name": (["--judge-url", "https://h/v1"], "--judge-url needs --judge-name"),
    "name alone": (["--judge-name", "m"], "nobody is asked"),
    "budget alone": (["--judge-budget", "5"], "nobody is asked"),
    "setting alone": (["ask.random=0.5"], "nobody is asked"),
    "name of a classifier": (["--judge-model", "m", "--judge-name", "m"], "--judge-url needs --judge-name"),
    "password": (["--judge-url", "https://u:hunter2@h/v1", "--judge-name", "m"], "may hold no user, password or query"),
    "no budget": (["--judge-url", "https://h/v1", "--judge-name", "m", "--judge-budget", "much"], "number of calls"),
    "no model": (["--judge-model", "./nowhere"], "--judge-model=./nowhere is not a model"),
    "unknown setting": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.randon=1"], "did you mean random?"),
    "setting of another": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.judge.max_len=9"], "unknown key"),
    "bad value": (["--judge-url", "https://h/v1", "--judge-name", "m", "ask.judge.at_once=0"], "at_once"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_together_is_refused_before_any_work(noisyir, file, tmp_path, name):
    options, said = REFUSED[name]
    code, _, err = noisyir("audit", file, "--out", "asked", *options)
    assert code == 1 and said in err and "hunter2" not in err and len(err.splitlines()) == 1
    assert not (tmp_path / "asked").exists()


def test_a_classifier_is_asked_by_its_folder(noisyir, file, tmp_path):
    folder = tiny_classifier(tmp_path / "tiny-judge")
    asking = ["--judge-model", folder, "--judge-budget", 500, "ask.judge.max_len=48"]
    code, out, err = noisyir("audit", file, "--out", "asked", *asking)
    assert code == 0, err
    said = judgements(tmp_path / "asked")
    assert len(said) == PAIRS and {(one.draw, one.weight) for one in said} == {("random", 1.0)}
    assert re.search(r"judge       model:tiny-judge@[0-9a-f]{12}: asked 120 pairs, answered 120", out)


def test_a_killed_command_goes_on_without_asking_again(noisyir, file, tmp_path, home):
    assert noisyir("audit", file)[0] == 0
    with judge_server(honest) as (server, url):
        server.react = lambda call, before: honest(call, before) if len(server.calls) < 25 else Reaction(hang=120)
        asking = ["--judge-url", url, "--judge-name", "m", "--judge-budget", "60"]
        command = [sys.executable, "-m", "noisyir.cli", "audit", str(file), "--out", "asked", *asking, *QUICK]
        environment = {**os.environ, "NOISYIR_HOME": str(home), "PYTHONPATH": str(Path(__file__).parents[2])}
        with subprocess.Popen(command, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            for line in process.stderr:
                if re.search(r"asking the judge +(18|19|2\d) of 60", line):
                    break
            os.kill(process.pid, signal.SIGKILL)
        answered = len((home / "judges" / KEPT).read_bytes().splitlines())
        assert 18 <= answered <= 25
        server.react = honest
        server.calls.clear()
        code, out, err = noisyir("audit", file, "--out", "asked", *asking)
    assert code == 0 and len(server.calls) == 60 - answered, err
    assert f"answered 60, {answered} of them kept from before" in out and len(judgements(tmp_path / "asked")) == 60
