"""An endpoint of the chat protocol, asked over real sockets: what it may answer, and what comes of it."""

import json
import logging
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from noisyir.audits.model_judges.address import KEY, address_of
from noisyir.audits.model_judges.budget import Budget
from noisyir.audits.model_judges.conversation import seconds_of
from noisyir.audits.model_judges.judges import Answer, Question, QuestionQueue
from noisyir.audits.model_judges.judges.chat import Chat
from noisyir.audits.model_judges.kept_answers import KEPT, KeptAnswers
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.runtime import Runtime
from tests.judge_server import GARBAGE, Reaction, judge_server, says, verdict
from tests.refusals import refuses

SECRET = "sk-very-secret/0123456789"
PAIRS = [Question(f"question {number}", f"document {number}") for number in range(20)]
QUICK = {"seconds": 5.0, "pause": 0.01, "at_once": 4}


@pytest.fixture(autouse=True)
def no_key(monkeypatch):
    monkeypatch.delenv(KEY, raising=False)


def ask(url, home, questions=PAIRS, budget="1000", **settings):
    seen = []
    judge = Chat(url=url, model="m", **{"answer": "words", **QUICK, **settings})
    judge.check(Budget.parse(budget))
    asking = QuestionQueue(questions, Budget.parse(budget), home, Runtime(), lambda *values: seen.append(values))
    answers, spent, _ = judge.ask(asking)
    return answers, spent, seen


def count_kept(home):
    with closing(sqlite3.connect(home / KEPT)) as database:
        return database.execute("SELECT count(*) FROM answers").fetchone()[0]


def words(answers):
    return [answer and answer.verdict for answer in answers]


def test_each_pair_gets_its_own_verdict(tmp_path):
    said = ["right", "wrong", "unsure"]

    def react(call, _):
        time.sleep(0.005)
        return verdict(said[int(call.text.split("question ")[1].split()[0]) % 3])

    with judge_server(react) as (server, url):
        answers, spent, seen = ask(url, tmp_path)
    assert words(answers) == [["clean", "wrong", "unclear"][number % 3] for number in range(20)]
    assert [(answer.p_wrong, answer.surely_wrong) for answer in answers[:3]] == [(None, 0.0), (None, 1.0), (None, 0.5)]
    assert (spent.calls, spent.prompt_tokens, spent.completion_tokens, spent.left) == (20, 2000, 200, 0)
    assert seen[-1][:2] == (20, 20) and "20 calls, 2,200 tokens" in seen[-1][2]
    assert 1 < server.most_at_once <= 4


def test_what_is_sent_is_the_protocol_and_the_prompt(tmp_path):
    with judge_server(lambda *_: verdict("right")) as (server, url):
        ask(url, tmp_path, [Question("what is {x}?", "a document")])
        ask(url + "/chat/completions/", tmp_path / "other", [Question("q", "d" * 500)], json_mode=False, text_chars=100)
    first, second = server.calls
    assert first.path == second.path == "/v1/chat/completions"
    assert first.body["model"] == "m" and first.body["temperature"] == 0
    assert first.body["response_format"] == {"type": "json_object"} and "response_format" not in second.body
    assert "Authorization" not in first.headers
    assert "what is {x}?" in first.text and "a document" in first.text
    assert "d" * 100 in second.text and "d" * 101 not in second.text
    marks = re.findall(r"==== (?:END OF )?(?:QUERY|DOCUMENT) ([0-9a-f]{16})", first.text)
    assert len(marks) == 4 and len(set(marks)) == 1 and marks[0] in first.body["messages"][0]["content"]
    assert marks[0] not in second.text


NO_ANSWER = {
    "garbage": Reaction(body=GARBAGE),
    "half JSON": Reaction(body=verdict("right").body[:40]),
    "nothing": Reaction(),
    "no choices": Reaction(body=b'{"choices": []}'),
    "a list": Reaction(body=b"[1]"),
    "no content": Reaction(body=b'{"choices": [{"message": {"content": null}}]}'),
    "empty message": says(" "),
    "prose": says("The document is right."),
    "fenced": says('```json\n{"verdict": "right", "reason": "r"}\n```'),
    "half an object": says('{"verdict": "ri'),
    "two objects": says('{"verdict": "right", "reason": "a"} {"verdict": "wrong", "reason": "b"}'),
    "said twice": says('{"verdict": "right", "verdict": "wrong", "reason": "b"}'),
    "wrong schema": says('{"judgement": "right", "reason": "r"}'),
    "no reason": says('{"verdict": "right"}'),
    "more than asked": says('{"verdict": "right", "reason": "r", "sure": 1}'),
    "no word": says('{"verdict": true, "reason": "r"}'),
    "another word": says('{"verdict": "clean", "reason": "r"}'),
    "another case": says('{"verdict": "Right", "reason": "r"}'),
    "deep": says("[" * 100_000),
    "huge": says("x" * 1_200_000),
}


@pytest.mark.parametrize("name", NO_ANSWER)
def test_what_is_no_answer_is_asked_for_again_twice_and_no_more(tmp_path, name):
    with judge_server(lambda *_: NO_ANSWER[name]) as (server, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:2])
        assert words(answers) == [None, None] and spent.calls == len(server.calls) == 6
        assert sum(spent.faults.values()) == 6 and spent.left == 0
        assert spent.stopped.startswith("no question was answered; the last: a reply ")
        server.react = lambda *_: verdict("wrong")
        answers, spent, _ = ask(url, tmp_path, PAIRS[:2])  # no answer is no answer to keep
        assert words(answers) == ["wrong", "wrong"] and spent.kept == 0


@pytest.mark.parametrize("name", ["garbage", "another word", "nothing"])
def test_an_answer_at_the_third_time_counts(tmp_path, name):
    with judge_server(lambda _, before: verdict("wrong") if before == 2 else NO_ANSWER[name]) as (_, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:2])
    assert words(answers) == ["wrong", "wrong"] and spent.calls == 6


def test_a_hanging_endpoint_is_left_after_the_time_of_a_call(tmp_path):
    with judge_server(lambda *_: Reaction(hang=30)) as (_, url):
        began = time.monotonic()
        answers, spent, _ = ask(url, tmp_path, PAIRS[:2], seconds=0.2)
        assert time.monotonic() - began < 5
        assert words(answers) == [None, None] and spent.calls == 6
        assert spent.faults == {"no answer within 0.2 s": 6}


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_or_broken_endpoint_is_asked_again_until_it_answers(tmp_path, status):
    with judge_server(lambda _, before: verdict("wrong") if before == 3 else Reaction(status)) as (_, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:3])
    assert words(answers) == ["wrong"] * 3 and spent.calls == 12


def test_retries_have_an_end(tmp_path):
    with judge_server(lambda *_: Reaction(500, b"out of memory")) as (server, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:2], retries=2)
    assert words(answers) == [None, None] and spent.calls == len(server.calls) == 6
    assert spent.faults == {"status 500: out of memory": 6}


@pytest.mark.parametrize("date", [False, True])
def test_retry_after_is_kept_by_all_questions(tmp_path, date):
    arrivals: list[float] = []
    begun = time.monotonic()

    def react(_, before):
        arrivals.append(time.monotonic() - begun)
        until = format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True)
        return (
            Reaction(429, headers={"Retry-After": until if date else "1"}) if len(arrivals) == 1 else verdict("wrong")
        )

    with judge_server(react) as (_, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:3], at_once=1)
    assert words(answers) == ["wrong"] * 3 and spent.calls == 4
    assert arrivals[1] - arrivals[0] >= (0.9 if date else 1.0)


def test_who_asks_to_wait_for_long_is_asked_no_more(tmp_path):
    with judge_server(lambda *_: Reaction(429, headers={"Retry-After": "7200"})) as (server, url):
        began = time.monotonic()
        _, spent, _ = ask(url, tmp_path, at_once=1)
    assert len(server.calls) == 1 and time.monotonic() - began < 5
    assert spent.stopped == "status 429; it asks to wait 7,200 s" and spent.left == 19


def test_a_refusal_of_one_text_ends_that_question_alone(tmp_path):
    with judge_server(
        lambda call, _: Reaction(413) if "question 1 " in call.text.replace("\n", " ") else verdict("right")
    ) as (_, url):
        answers, spent, _ = ask(url, tmp_path, PAIRS[:4])
    assert words(answers) == ["clean", None, "clean", "clean"] and spent.calls == 4


@pytest.mark.parametrize(("status", "said"), [(401, "status 401: no"), (404, "status 404: no"), (307, "elsewhere")])
def test_a_refusal_of_all_ends_asking(tmp_path, status, said):
    with judge_server(lambda *_: Reaction(status, b"no", {"Location": "http://127.0.0.1:9/"})) as (server, url):
        answers, spent, _ = ask(url, tmp_path, at_once=1)
    assert len(server.calls) == 1 and not any(answers) and said in spent.stopped and spent.left == 19


def test_an_endpoint_that_never_answers_is_given_up(tmp_path):
    with judge_server(lambda *_: Reaction(body=GARBAGE)) as (server, url):
        _, spent, _ = ask(url, tmp_path, [Question(str(number), "") for number in range(200)], at_once=1)
    assert len(server.calls) == 30 and spent.left == 190
    assert spent.stopped == "10 questions in succession got no answer; the last: a reply that is not JSON"


def test_nobody_at_the_address(tmp_path):
    with judge_server(lambda *_: verdict("right")) as (_, url):
        pass
    answers, spent, _ = ask(url, tmp_path, PAIRS[:2], retries=1)
    assert words(answers) == [None, None] and spent.calls == 4
    assert all("not reached" in said for said in spent.faults)


@pytest.mark.parametrize("budget", [1, 7, 20, 33])
def test_a_budget_of_calls_is_never_exceeded(tmp_path, budget):
    """Whatever is sent again, and however many are under way."""

    def react(call, before):
        time.sleep(0.002)
        return [Reaction(503), Reaction(body=GARBAGE), verdict("wrong")][min(before, 2)]

    with judge_server(react) as (server, url):
        answers, spent, _ = ask(url, tmp_path, budget=str(budget), at_once=8)
    assert len(server.calls) == spent.calls == min(budget, 60)
    assert sum(answer is not None for answer in answers) <= budget // 3


def test_a_budget_of_tokens_is_never_exceeded(tmp_path):
    """Each call of 1,000 tokens may have been one of 1,600, as far as one knew when it was sent."""
    used = {"prompt_tokens": 700, "completion_tokens": 300}

    def react(call, before):
        time.sleep(0.002)
        return [Reaction(body=says("?", used).body), says('{"verdict": "wrong", "reason": ""}', used)][min(before, 1)]

    with judge_server(react) as (server, url):
        answers, spent, _ = ask(url, tmp_path, budget="10k tokens", at_once=8)
    assert 8 <= len(server.calls) <= 10 and spent.prompt_tokens + spent.completion_tokens == 1000 * len(server.calls)
    assert sum(answer is not None for answer in answers) <= 5


def test_tokens_that_nobody_tells_count_as_the_most_that_they_may_be(tmp_path):
    with judge_server(lambda *_: says('{"verdict": "wrong", "reason": ""}')) as (server, url):
        answers, spent, _ = ask(url, tmp_path, budget="10k tokens", at_once=8)
    most = [sum(len(message["content"]) for message in call.body["messages"]) + 300 for call in server.calls]
    assert sum(most) <= 10_000 < sum(most) + 2 * max(most)
    assert spent.unmetered == len(server.calls) == sum(answer is not None for answer in answers)
    assert spent.left == 20 - len(server.calls)


def test_a_call_that_the_budget_cannot_hold_is_not_sent(tmp_path):
    with judge_server(lambda *_: verdict("right")) as (server, url):
        answers, spent, _ = ask(url, tmp_path, budget="1000 tokens")
    assert not server.calls and not any(answers) and spent.left == 20


def test_answers_are_kept_by_texts_prompt_and_model(tmp_path, monkeypatch):
    with judge_server(lambda *_: verdict("wrong")) as (server, url):
        ask(url, tmp_path)
        answers, spent, _ = ask(url, tmp_path)
        assert len(server.calls) == 20 and spent.calls == 0 and spent.kept == 20 and words(answers) == ["wrong"] * 20
        asking = QuestionQueue(PAIRS, Budget.parse("1000"), tmp_path, Runtime(), lambda *_: None)
        assert Chat(url=url, model="another", answer="words", **QUICK).ask(asking).spent.calls == 20
        assert ask(url, tmp_path, [Question("question 1", "document 2")])[1].calls == 1
    kept = (tmp_path / KEPT).read_bytes()
    assert count_kept(tmp_path) == 41 and b"question" not in kept and b"document" not in kept
    assert (tmp_path / KEPT).stat().st_mode & 0o077 == 0


def test_equal_texts_are_sent_once(tmp_path):
    with judge_server(lambda *_: verdict("wrong")) as (server, url):
        answers, _, _ = ask(url, tmp_path, [PAIRS[0]] * 5)
    assert len(server.calls) == 1 and words(answers) == ["wrong"] * 5


def test_a_place_that_takes_no_answers_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / KEPT).write_bytes(b"no database, however long" * 9)
    with judge_server(lambda *_: verdict("wrong")) as (server, url):
        for home in (tmp_path / "file", tmp_path):
            with refuses(StoreError, "audits.cannot_keep_answers"):
                ask(url, home)
        assert not server.calls


def test_two_processes_keep_answers_in_one_file(tmp_path):
    with KeptAnswers(tmp_path / KEPT) as one, KeptAnswers(tmp_path / KEPT) as other:
        one.load({"a", "b"})
        other.load({"a", "b"})
        for number in range(20):
            one.add("a", Answer("wrong", number / 20, "first"), "model:m@v1")
            other.add("b", Answer("clean", None, "second"), "model:m@v1")
        other.load({"a", "b", "c"})
    assert other.found == {"a": Answer("wrong", 0.95, "first"), "b": Answer("clean", None, "second")}


KILLED = """
import sys
from pathlib import Path
from noisyir.engine.runtime import Runtime
from noisyir.audits.model_judges.judges import QuestionQueue
from noisyir.audits.model_judges.judges.chat import Chat
from noisyir.audits.model_judges.budget import Budget
from tests.unit.audits.model_judges.test_chat import PAIRS, QUICK
tell = lambda done, *_: print(done, flush=True)
asking = QuestionQueue(PAIRS, Budget.parse("1000"), Path(sys.argv[2]), Runtime(), tell)
Chat(url=sys.argv[1], model="m", answer="words", **QUICK).ask(asking)
"""


def test_a_killed_session_goes_on_without_asking_again(tmp_path):
    with judge_server(lambda *_: verdict("wrong")) as (server, url):
        server.react = lambda *_: Reaction(**{**vars(verdict("wrong")), "hang": 0.02 if len(server.calls) < 9 else 60})
        command = [sys.executable, "-c", KILLED, url, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[4]) as process:
            for line in process.stdout:
                if int(line) >= 6:
                    break
            os.kill(process.pid, signal.SIGKILL)
        answered = count_kept(tmp_path)
        assert 6 <= answered < 20
        server.react = lambda *_: verdict("wrong")
        server.calls.clear()
        answers, spent, _ = ask(url, tmp_path)
    assert words(answers) == ["wrong"] * 20 and spent.kept == answered
    assert len(server.calls) == 20 - answered


def test_the_key_is_a_header_and_stands_nowhere_else(tmp_path, monkeypatch, caplog, capfd):
    monkeypatch.setenv(KEY, f" {SECRET}\n")
    caplog.set_level(logging.DEBUG)
    echo = json.dumps(SECRET)[1:-1]

    def react(call, before):
        number = int(call.text.split("question ")[1].split()[0])
        escaped = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
        return [
            verdict("wrong", f"you sent {SECRET}"),
            says('{"verdict": "wrong", "reason": "' + escaped + '"}'),
            Reaction(500, f"bad key {echo}".encode()),
            says(f'{{"verdict": "{SECRET}", "reason": ""}}'),
            Reaction(body=f'{{"{SECRET}": 1}}'.encode()),
        ][number % 5]

    with judge_server(react) as (server, url):
        answers, spent, seen = ask(url, tmp_path, PAIRS[:5], retries=1)
        server.react = lambda *_: Reaction(401, f"the key {SECRET} is unknown".encode())
        _, stopped, _ = ask(url, tmp_path / "stopped", PAIRS[:5])
    assert {call.headers["Authorization"] for call in server.calls} == {f"Bearer {SECRET}"}
    assert answers[0].reason == "you sent [key]" and answers[1].reason == "[key]"
    assert "[key]" in stopped.stopped
    told = [repr(answers), repr(spent), repr(stopped), repr(seen), caplog.text, *capfd.readouterr()]
    told += [path.read_bytes().decode("latin-1") for path in tmp_path.rglob("*") if path.is_file()]
    told += [repr(address_of("https://host/v1")), repr(Chat(url=url, model="m"))]
    for text in told:
        assert SECRET not in text and echo not in text


REFUSED = {
    "https://user:hunter2@host/v1": "may hold no user, password or query",
    "https://hunter2@host/v1": "may hold no user, password or query",
    "https://host/v1?api_key=hunter2": "may hold no user, password or query",
    "https://host/v1#hunter2": "may hold no user, password or query",
    "ftp://host/hunter2": "must begin with http:// or https://",
    "host/hunter2": "must begin with http:// or https://",
    "": "must begin with http:// or https://",
    "https://host:hunter2/v1": "is no address",
    "https://[hunter2/v1": "is no address",
}


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_that_hold_secrets_or_are_none_are_refused(url):
    with pytest.raises(ConfigError, match=REFUSED[url]) as caught:
        Chat(url=url, model="m").check(Budget.parse("1"))
    assert "hunter2" not in str(caught.value)


def test_a_key_does_not_travel_in_plain_text(monkeypatch):
    assert address_of("http://gpu-box:8000/v1").url == "http://gpu-box:8000/v1/chat/completions"
    monkeypatch.setenv(KEY, SECRET)
    with refuses(ConfigError, "audits.key_in_plain_text") as caught:
        address_of("http://gpu-box:8000/v1")
    assert SECRET not in str(caught.value)
    for local in ("http://localhost:1/v1", "http://127.0.0.1:1/v1", "http://[::1]:1/v1", "https://gpu-box/v1"):
        assert address_of(local).key is not None
    monkeypatch.setenv(KEY, "two words-of-a-secret")
    with refuses(ConfigError, "audits.key_odd_character") as caught:
        address_of("https://host/v1")
    assert "secret" not in str(caught.value)


def test_budgets_in_words():
    assert Budget.parse("200") == (200, "calls") and Budget.parse("2k calls") == (2000, "calls")
    assert Budget.parse(" 1.5M tokens ") == (1_500_000, "tokens") and Budget.parse("1 token") == (1, "tokens")
    for wrong in ("", "0", "-3", "many", "10 euros", "1e9", "0.2"):
        with refuses(ConfigError, "audits.budget_malformed"):
            Budget.parse(wrong)


def test_waiting_as_a_server_says_it():
    assert seconds_of("12") == 12 and seconds_of(None) is None and seconds_of("soon") is None
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    assert 50 < seconds_of(format_datetime(datetime.now(UTC) + timedelta(seconds=60))) <= 60
