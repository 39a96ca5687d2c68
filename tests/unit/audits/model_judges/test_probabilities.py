"""Judges that give a probability: log-probabilities of yes and no, and what is done where there are none."""

import math

import pytest

from noisyir.audits.model_judges.answer import NoProbabilityError, yes_or_no
from noisyir.audits.model_judges.budget import Budget
from noisyir.audits.model_judges.judges import Question, QuestionQueue
from noisyir.audits.model_judges.judges.chat import Chat
from noisyir.base.errors import ConfigError
from noisyir.engine.runtime import Runtime
from tests.judge_server import Reaction, chances, judge_server, says, verdict
from tests.refusals import refuses

PAIRS = [Question(f"question {number}", f"document {number}") for number in range(12)]
QUICK = {"model": "m", "seconds": 5.0, "pause": 0.01, "at_once": 2}


def ask(judge, home, budget="1000", questions=PAIRS):
    judge.check(Budget.parse(budget))
    return judge.ask(QuestionQueue(questions, Budget.parse(budget), home, Runtime(), lambda *_: None))


def reply(*places):
    """A reply whose tokens each list their likeliest ones, as (token, probability)."""
    content = [
        {"token": place[0][0], "logprob": math.log(place[0][1]), "top_logprobs": [
            {"token": token, "logprob": math.log(chance)} for token, chance in place
        ]}
        for place in places
    ]  # fmt: skip
    return {"choices": [{"message": {"content": "x"}, "logprobs": {"content": content}}]}


@pytest.mark.parametrize(
    ("places", "p_wrong"),
    [
        ([[("yes", 0.6), ("no", 0.2)]], 0.25),
        ([[("Yes", 0.5), (" yes", 0.1), ("\u0120no", 0.1), ("NO.", 0.1)]], 0.25),
        ([[("\n", 0.9), ("Yes", 0.05)], [("No", 0.9), ("Yes", 0.1)]], 0.9),
        ([[("yes", 0.9), ("I", 0.05), ("The", 0.03)]], 0.03 / 0.93),  # no lies below the last that is listed
        ([[("Maybe", 0.6), ("no", 0.2), ("yes", 0.2)]], 0.5),
    ],
)
def test_the_first_word_s_probabilities_are_read(places, p_wrong):
    found = yes_or_no(reply(*places))
    assert found.p_wrong == pytest.approx(p_wrong)
    assert found.verdict == ("wrong" if p_wrong > 0.5 else "clean")


def test_what_has_no_log_probabilities_is_words_and_another_word_is_no_answer():
    for body in ({"choices": [{"message": {"content": "yes"}, "logprobs": None}]}, {}, [], {"choices": []},
                 {"choices": [{"logprobs": {"tokens": ["yes"], "token_logprobs": [-0.1]}}]}):  # fmt: skip
        with pytest.raises(NoProbabilityError):
            yes_or_no(body)
    with pytest.raises(ValueError, match="neither yes nor no") as caught:
        yes_or_no(reply([("Perhaps", 0.9)]))
    assert not isinstance(caught.value, NoProbabilityError)
    unlisted = {"choices": [{"logprobs": {"content": [{"token": "no", "logprob": -0.1, "top_logprobs": [
        {"token": "yes", "logprob": None}]}]}}]}  # fmt: skip
    assert 0 < 1 - yes_or_no(unlisted).p_wrong <= 0.5


def test_a_chat_is_asked_for_yes_or_no_and_its_probabilities_are_kept(tmp_path):
    number = lambda call: int(call.text.split("question ")[1].split()[0])  # noqa: E731
    with judge_server(lambda call, _: chances(yes=0.1 + number(call) / 20)) as (server, url):
        answers, spent, judge = ask(Chat(url=url, **QUICK), tmp_path)
        again = ask(Chat(url=url, **QUICK), tmp_path)
    assert judge == "model:m@yes_no_v1" and spent.in_words is None and spent.calls == len(server.calls) == 12
    expected = [pytest.approx(0.9 - number / 20) for number in range(12)]
    assert [answer.p_wrong for answer in answers] == [answer.p_wrong for answer in again.answers] == expected
    assert [answer.verdict for answer in answers[::11]] == ["wrong", "clean"] and again.spent.kept == 12
    body = server.calls[0].body
    assert body["logprobs"] is True and body["top_logprobs"] == 5 and body["max_tokens"] == 4
    assert "response_format" not in body and body["messages"][1]["content"].endswith("one word: yes or no.\n")


@pytest.mark.parametrize("refusal", ["none", "status", "other words"])
def test_an_endpoint_without_probabilities_is_asked_for_words(tmp_path, refusal):
    """The first question finds out, and its word is said."""
    plain = {"none": says("Yes"), "status": Reaction(400, b"logprobs: no such field"), "other words": chances(Hm=0.9)}

    def react(call, _):
        return plain[refusal] if "logprobs" in call.body else verdict("wrong")

    with judge_server(react) as (server, url):
        answers, spent, judge = ask(Chat(url=url, **QUICK), tmp_path)
        assert judge == "model:m@v1" and [answer.verdict for answer in answers] == ["wrong"] * 12
        assert [answer.p_wrong for answer in answers] == [None] * 12 and len(server.calls) == 13
        assert spent.in_words and not spent.faults and spent.stopped is None
        ask(Chat(url=url, **QUICK), tmp_path)
        assert len(server.calls) == 13  # all was kept in words: nothing is tried


def test_an_endpoint_that_is_slow_to_begin_is_not_taken_for_one_without_probabilities(tmp_path):
    def react(_, __):
        return Reaction(hang=20) if len(server.calls) == 1 else chances(yes=0.3)

    with judge_server(react) as (server, url):
        _, spent, judge = ask(Chat(url=url, **{**QUICK, "seconds": 0.5}), tmp_path)
    assert judge == "model:m@yes_no_v1" and spent.in_words is None


def test_words_where_a_probability_was_promised_end_asking(tmp_path):
    with judge_server(lambda *_: says("Yes, it is right.")) as (server, url):
        answers, spent, _ = ask(Chat(url=url, answer="probability", **{**QUICK, "at_once": 1}), tmp_path)
        assert len(server.calls) == 1 and not any(answers) and spent.left == 11
        assert "in words where a probability was promised" in spent.stopped
        assert "ask.judge.answer=words" in spent.stopped
        server.react = lambda *_: verdict("right")  # the cure that it names
        answers, spent, _ = ask(Chat(url=url, answer="words", **QUICK), tmp_path)
    assert spent.stopped is None and [answer.verdict for answer in answers] == ["clean"] * 12


def test_a_dead_endpoint_stops_however_small_the_budget(tmp_path):
    with judge_server(lambda *_: chances(yes=0.3)) as (_, url):
        ask(Chat(url=url, **QUICK), tmp_path, questions=PAIRS[:4])
    _, spent, _ = ask(Chat(url=url, retries=1, **QUICK), tmp_path, budget="3", questions=PAIRS)
    assert spent.calls and "no question was answered" in spent.stopped and "not reached" in spent.stopped


@pytest.mark.parametrize("host", ["xn--", "xn--a", "a..b", "a" * 70, "h\x7f"])
def test_hosts_that_cannot_be_are_refused_before_any_work(host):
    with refuses(ConfigError, "audits.url_impossible_host"):
        Chat(url=f"https://{host}/v1", model="m").check(Budget.parse("1"))
