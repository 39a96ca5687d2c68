"""A person judges pairs: the command, its page in a real browser, and a server that is killed."""

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from queue import Queue
from threading import Event, Thread

import pyarrow.parquet as pq
import pytest

from noisyir.audits.judging.server import serve_page
from tests.flows import test_audit_page
from tests.flows.test_audit_page import browser, faults, look, page  # noqa: F401 - fixtures
from tests.local import until
from tests.unit.app.judging_world import Learner, session

pytestmark = test_audit_page.pytestmark

NOISYIR = str(Path(sys.executable).parent / "noisyir")
PAIRS = 240
SHOWN = "document.querySelector('#pair .id')?.textContent ?? ''"
NEXT = f"new Promise(done => {{ const look = () => %s.includes({SHOWN}) ? setTimeout(look, 4) : done(); look(); }})"
UNREACHABLE = "net::ERR_CONNECTION_REFUSED"


class Owner:
    """Someone with pairs of which every third has another's document, and who judges them without an error."""

    def __init__(self, home):
        rng, folder = random.Random(0), home.parent
        self.folder, self.env = folder, os.environ | {"NOISYIR_HOME": str(home), "OMP_NUM_THREADS": "1"}
        texts = [
            f"Thing{i} lies in town{i % 83} by river{i * 7 % 89}. <b>It</b> is {'old ' * (i % 4)}and open."
            for i in range(PAIRS)
        ]
        self.wrong = {f"q{i}" for i in range(0, PAIRS, 3)}
        rows = []
        for i in range(PAIRS):
            j = (i + rng.randrange(1, PAIRS)) % PAIRS if f"q{i}" in self.wrong else i
            query = f"where is thing{i} of town{i % 83} at river{i * 7 % 89}?"
            rows.append({"query_id": f"q{i}", "query": query, "doc_id": f"d{j}", "document": texts[j]})
        (folder / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def answers(self, out):
        path = self.folder / out / "judgements.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def key(self, shown):
        """What she presses when she sees a query's id."""
        return "w" if shown in self.wrong else "r"


class Anyone:
    """Finds every pair right."""

    key = staticmethod(lambda shown: "r")


class Server:
    """The command at work; `url` is what it prints."""

    def __init__(self, owner, out):
        command = [NOISYIR, *"audit mine.jsonl runtime.threads=1 --judge --as ann --out".split(), out]
        self.process = subprocess.Popen(
            command, cwd=owner.folder, env=owner.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        lines = iter(self.process.stdout.readline, "")
        self.url = next(found.group() for line in lines if (found := re.search(r"http://127\.0\.0\.1:\d+/\S+/", line)))

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("owner") / "home"


@pytest.fixture(scope="module")
def owner(home):
    return Owner(home)


@pytest.fixture
def typed(noisyir, owner, monkeypatch):
    """What a command says that she types in her folder, in this process."""
    monkeypatch.chdir(owner.folder)

    def said(*words):
        code, out, err = noisyir(*words)
        assert code == 0, err
        return out

    return said


def visit(page, url):  # noqa: F811
    page.send("Page.navigate", url=url)
    page.until(f"location.href === {url!r} && ({SHOWN}) !== ''")


def judge(page, owner, count):  # noqa: F811
    """Answer by keyboard, each time once the next pair is there."""
    for _ in range(count):
        shown = page(SHOWN)
        page.press(owner.key(shown))
        page(NEXT % repr([shown, ""]))


@pytest.mark.slow
def test_a_hundred_pairs_by_keyboard_and_the_command_that_uses_them(page, owner, typed):  # noqa: F811
    with Server(owner, "hundred") as server:
        visit(page, server.url)
        assert page("document.querySelector('#main') !== null && document.activeElement === document.body")
        for width in (390, 800, 1440):
            for scheme in ("light", "dark"):
                look(page, width, scheme)
                assert faults(page) == []
        began = time.monotonic()
        judge(page, owner, 100)
        until(lambda: len(owner.answers("hundred")) >= 100)
        seconds = time.monotonic() - began
        assert seconds < 20, "of the machine, for a hundred pairs: 8 on two idle cores, and others may be at work"
        answers = owner.answers("hundred")
        assert {answer["query_id"]: answer["verdict"] for answer in answers} == {
            answer["query_id"]: "wrong" if answer["query_id"] in owner.wrong else "clean" for answer in answers
        }
        page.until("document.getElementById('judged').textContent === '100' && !state.learning")
        low, high = page("state.known.rate.slice(1)")
        assert low < 1 / 3 < high and not page("document.getElementById('guarantee').hidden")
        page("byId('keep').value = 0; byId('keep').dispatchEvent(new Event('input'))")
        assert re.search(
            r"at most [\d.]+ % of these are wrong, with 90 % confidence", page("byId('bound').textContent")
        )
        judge(page, owner, 2)  # after the last figures
        page("document.getElementById('finish').click()")
        page.until("!document.getElementById('ended').hidden")
        summary = page("document.getElementById('summary').textContent")
        assert page("[...document.querySelectorAll('#commands code')].map(code => code.textContent.trim())") == [
            line.strip() for line in summary.splitlines() if line.startswith("  noisyir ")
        ]
        assert "By 102 pairs" in page("document.querySelector('#result .big').textContent") and faults(page) == []
        assert server.process.wait(30) == 0
        assert f"102 pairs judged by ann: {Path('hundred') / 'judgements.jsonl'}" in summary
        assert not (owner.folder / "hundred" / "judging.json").exists()
    *_, command, _, cleans = map(shlex.split, summary.splitlines())
    assert command[0] == "noisyir" and "--judgements" in command and cleans == [*command, "--apply"]
    out = typed(*command[1:], "--apply")
    assert "judged" in out
    rows = pq.read_table(owner.folder / "hundred" / "audit.parquet").to_pylist()
    assert sum(row["judged"] is not None for row in rows) == 102
    assert all((row["judged"] == "wrong") == (row["query_id"] in owner.wrong) for row in rows if row["judged"])
    kept = typed(*command[1:], "--keep-wrong-below", "0.2")
    told = re.search(r"guarantee +keep the (\d+) of 240 pairs with the lowest score: at most [\d.]+ % of them", kept)
    written = (owner.folder / "hundred" / "kept.jsonl").read_text().splitlines()
    assert told and len(written) == int(told[1]) and all(json.loads(line)["document"] for line in written)
    alone = [*command[1 : command.index("--judgements")], "--out", "alone"]
    unjudged = typed(*alone, "--keep-wrong-below", "0.2")
    assert "nothing can be said with 90 % confidence: judge 50 pairs" in unjudged
    assumed = typed(*alone, "--keep-wrong-below", "0.2", "--assume", "random")
    assert re.search(r"guarantee +if wrong pairs have random documents, (keep the|no part of)", assumed)


class SlowLearner(Learner):
    """Learns nothing before it is let."""

    def __init__(self):
        super().__init__()
        self.let = Event()

    def learn(self, judged):
        self.let.wait(60)
        return super().learn(judged)


HOLD = """
const held = new Promise((release) => (window.release = release));
const direct = window.fetch;
window.fetch = async (path, init) => {
  const reply = await direct(path, init);
  if (path.startsWith("pairs?count=10")) await held;
  return reply;
};
"""


@pytest.mark.slow
def test_the_page_waits_for_a_slow_learner_and_keeps_to_the_newest_reply(page, tmp_path):  # noqa: F811
    learner, told = SlowLearner(), Queue()
    made = session(tmp_path, learner=learner)
    serving = Thread(target=serve_page, args=(made, tmp_path, lambda: "", told.put), daemon=True)
    serving.start()
    visit(page, re.search(r"http:\S+/", told.get(timeout=30)).group())
    time.sleep(2.5)
    assert page("state.learning"), "two looks found the same state"
    learner.let.set()
    page.until("!state.learning")
    page(f"(() => {{ {HOLD} }})()")
    judge(page, Anyone, 8)  # the next pairs are asked for after the fifth answer, and their reply is held
    page.until("state.judged === 8")
    page("window.release()")
    page.until("!fetching")
    assert page("state.judged") == 8
    page("byId('finish').click()")
    serving.join(30)
    assert not serving.is_alive()


@pytest.mark.slow
def test_the_page_goes_on_after_the_server_was_killed(page, owner):  # noqa: F811
    with Server(owner, "killed") as server:
        visit(page, server.url)
        judge(page, owner, 5)
        until(lambda: len(owner.answers("killed")) == 5)
        server.kill()
        judge(page, owner, 3)
        page.until("!document.getElementById('banner').hidden")
        assert "Start it again with the same command" in page("document.getElementById('banner').textContent")
    with (owner.folder / "killed" / "judgements.jsonl").open("a") as file:
        file.write('{"query_id": "q1", "doc')  # as a kill in the middle of a line would leave it
    with Server(owner, "killed") as server:
        assert page("location.href") == server.url, "the same address"
        until(lambda: len(owner.answers("killed")) == 8)
        page.until("document.getElementById('banner').hidden")
        judge(page, owner, 10)
        until(lambda: len(owner.answers("killed")) == 18)
        page.send("Page.reload")
        page.until(f"document.readyState === 'complete' && ({SHOWN}) !== ''")
        assert page("document.getElementById('judged').textContent") == "18"
        last = owner.answers("killed")[-1]["query_id"]
        page.press("z")  # also what was answered before the page was loaded
        page.until(f"({SHOWN}) === {last!r}")
        judge(page, owner, 1)
        answers = owner.answers("killed")
        until(lambda: len(owner.answers("killed")) == 20)
        assert len({answer["query_id"] for answer in answers}) == 18
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(30) == 0
        assert "18 pairs judged by ann" in server.process.stdout.read()
    assert all(UNREACHABLE in error or "ERR_" in error for error in page.errors)
    page.errors.clear()


def test_answers_given_while_the_server_is_down_survive_a_reload(page, owner):  # noqa: F811
    with Server(owner, "reloaded") as server:
        visit(page, server.url)
        judge(page, owner, 2)
        until(lambda: len(owner.answers("reloaded")) == 2)
        server.kill()
        judge(page, owner, 2)
        page.send("Page.navigate", url="about:blank")
    with Server(owner, "reloaded") as server:
        visit(page, server.url)
        until(lambda: len(owner.answers("reloaded")) == 4)
    page.errors.clear()


def test_keys_accept_skip_help_and_what_stands_on_the_page(page, owner):  # noqa: F811
    with Server(owner, "keys") as server:
        visit(page, server.url)
        first = page(SHOWN)
        better = page("document.querySelector('.others .id').textContent")
        page.press("1")
        until(lambda: len(owner.answers("keys")) == 1)
        (answer,) = owner.answers("keys")
        assert (answer["query_id"], answer["verdict"], answer["replacement"]) == (first, "wrong", better)
        second = page(SHOWN)
        page.press("n")
        assert page(SHOWN) != second
        page.press("z")
        page.until(f"({SHOWN}) === {first!r}")
        page.press("?")
        assert page("document.getElementById('help').open")
        page.press("w")  # no answer while the help is open
        page("document.getElementById('help').close()")
        assert page(SHOWN) == first
        page("document.getElementById('keys').checked = false")
        page.press("w")
        assert page(SHOWN) == first
        assert page("document.querySelectorAll('#pair b, #pair img').length") == 0, "texts are no markup"
        assert page("[...document.querySelectorAll('button')].every(button => button.textContent.trim())")
        assert page("[...document.querySelectorAll('input')].every(input => input.labels.length)")
        assert page("document.querySelectorAll('main:not([hidden])').length") == 1
        assert "score" not in page("document.querySelector('#pair').textContent")
        page.send("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=False)
        assert page("document.documentElement.scrollWidth") <= 390


def test_a_page_alone_asks_the_sessions_pairs_and_saves_what_the_command_takes(page, owner, typed, tmp_path):  # noqa: F811
    told = typed(*"audit mine.jsonl runtime.threads=1 --standalone --out alone-page".split())
    command = shlex.split(told.splitlines()[-1].removeprefix("then"))
    html = owner.folder / "alone-page" / "judge.html"
    assert not re.search(r"(?:src|href)=\"(?!data:)", html.read_text()), "it loads nothing"
    page.open(html)
    page.until(f"({SHOWN}) !== ''")
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    for width in (390, 800, 1440):
        for scheme in ("light", "dark"):
            look(page, width, scheme)
            assert faults(page) == []
    judge(page, owner, 30)
    page.press("z")
    judge(page, owner, 1)
    page.press("n")
    page("byId('finish').click()")
    assert page("byId('saved').textContent") == "Write your name first."
    page("byId('name').focus()")
    for key in "wren":  # two of them are keys that answer elsewhere
        page.press(key)
    page.send("Page.reload")
    page.until(f"document.readyState === 'complete' && ({SHOWN}) !== ''")
    assert page("byId('judged').textContent") == "30" and page("byId('name').value") == "wren"
    page("byId('finish').click()")
    until((tmp_path / "judgements.jsonl").exists)
    saved = [json.loads(line) for line in (tmp_path / "judgements.jsonl").read_text().splitlines()]
    assert len(saved) == 30 and {line["judge"] for line in saved} == {"wren"}
    assert all((line["verdict"] == "wrong") == (line["query_id"] in owner.wrong) for line in saved)
    with Server(owner, "as-alone") as server:
        visit(page, server.url)
        judge(page, owner, 30)
        until(lambda: len(owner.answers("as-alone")) == 30)
    asked = {(line["query_id"], line["doc_id"]): line["weight"] for line in owner.answers("as-alone")}
    assert asked == {(line["query_id"], line["doc_id"]): line["weight"] for line in saved}
    command[command.index("judgements.jsonl")] = str(tmp_path / "judgements.jsonl")
    assert "30 of them were drawn at random" in typed(*command[1:], "--apply")
