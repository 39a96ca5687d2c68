"""A pairs file that grows under a schedule of each minute: a judge, refusals and cures, promotions, a killed worker."""

import csv
import json
import random
import re
import shlex
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from bench.tables import record
from noisyir.engine.store import Store
from noisyir.registry.promote import Decision, decisions
from tests.channel import Told
from tests.e2e.site import FINAL, Site, kill, wait_until
from tests.judging_client import address_in, answer_pairs
from tests.tiny import write_words

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7200)]
MODEL = "noisyir-retriever"
ROWS = {range(70): 300, range(70, 100): 100, range(100, 130): 100, range(130, 160): 100}  # by their words
JUDGED, ASK_ABOVE = 40, "0.6"  # the new pairs of all growths may be wrong
WITH_QUERIES = "data.promotion_share=0.5"
CLAIM = (
    "Under a schedule of each minute a file grows three times: the judge is asked once, refusals end by their cures, "
    "nothing is stuck, and each message is true and comes once."
)
PATIENCE = 1800  # seconds for a night, on a machine that others use, too
EXPERIMENT = """\
data: {{kind: pairs, path: pairs.csv, hold_out: {{dev: 0.4, test: 0.1}}}}
methods: [dpr]
model: {{backbone: static, weights: {words}}}
bm25_index: {{engine: bm25s}}
train: {{epochs: 30, batch_size: 16, learning_rate: 0.01}}
"""


@pytest.fixture
def story(webhook: Told, tmp_path: Path) -> Iterator["Story"]:
    """Servers of their own, which supervisord watches, and which tell the webhook."""
    with tempfile.TemporaryDirectory(prefix="noisyir-growing-") as name:
        Path(name).chmod(0o755)
        site = Site(Path(name))
        site.environment |= {"NOISYIR_WATCH": "1", "NOISYIR_WEBHOOK": webhook.url}
        try:
            site.up()
            yield Story(site, webhook, tmp_path)
        finally:
            site.down()


class Story:
    """A schedule, its file, and the things that happen, by the time since its beginning."""

    def __init__(self, site: Site, channel: Told, folder: Path) -> None:
        self.site, self.channel, self.folder = site, channel, folder
        self.store, self.began = Store(site.home / "store", home=site.home), time.monotonic()
        self.happened, self.known = [["what happened", "minute"]], 0
        self.growth = iter(ROWS.items())
        (folder / "pairs.csv").write_text("query,document\n")
        (folder / "pairs.yaml").write_text(EXPERIMENT.format(words=write_words(folder / "words")))

    def note(self, what: str) -> None:
        """A line of the record."""
        minute = f"{(time.monotonic() - self.began) / 60:.1f}"
        self.happened.append([what.replace(f"{self.folder}/", ""), minute])

    def grow(self) -> None:
        """Rows of words that no earlier row has: a query has three words, and its document their partners."""
        words, count = next(self.growth)
        self.idle()
        draw = random.Random(words.start)
        with (self.folder / "pairs.csv").open("a", newline="") as file:
            for some in (draw.sample(words, 5) for _ in range(count)):
                texts = (f"word{n}" for n in draw.sample(some, 3)), (f"mark{n}" for n in some)
                csv.writer(file).writerow([" ".join(text) for text in texts])
        self.note(f"{count} rows are added")

    def type(self, *words: str) -> None:
        """Type a command of noisyir."""
        self.site.noisyir(*words)
        self.note(f"typed: noisyir {shlex.join(words)}")

    def decisions(self) -> list[Decision]:
        """The log, oldest first, without decisions that repeat the last one on their version."""
        log = [Decision.from_record(one) for one in reversed(decisions(self.store, MODEL))]
        of = {version: [one for one in log if one.version == version] for version in {one.version for one in log}}
        again = [two for some in of.values() for one, two in pairwise(some) if one.summary == two.summary]
        return [one for one in log if one not in again]

    def decision(self) -> Decision:
        """The next of them."""
        self.known += 1
        wait_until(lambda: len(self.decisions()) >= self.known, "a decision", PATIENCE)
        found = self.decisions()[self.known - 1]
        self.note(found.summary)
        return found

    def nights(self, **states: Any) -> list[dict[str, Any]]:
        """The flow runs of the schedule that have begun or ended, oldest first."""
        found = self.site.flow_runs(flows={"name": {"any_": ["nightly"]}}, flow_runs={"state": states})
        return [run for run in found if run["state_type"] != "SCHEDULED"]

    def idle(self) -> None:
        """Wait until no night is at work, nor begins within seconds."""
        at_work = {"any_": ["RUNNING", "PENDING"]}
        wait_until(lambda: time.gmtime().tm_sec < 40 and not self.nights(type=at_work), "no night", PATIENCE)

    def answer(self) -> str:
        """A judge answers where the question's page says, and resumes the night that asks; its id."""
        asks = wait_until(lambda: self.nights(type={"any_": ["PAUSED"]}), "a question", PATIENCE)[0]["id"]
        self.note("a night asks, and is suspended")
        wanted = {"artifacts": {"flow_run_id": {"any_": [asks]}, "key": {"any_": ["judging-page"]}}}
        (page,) = self.site.api.post("/artifacts/filter", json=wanted).raise_for_status().json()
        (typed,) = re.findall(r"^    noisyir (.*--judge)$", page["description"], re.MULTILINE)
        with (self.folder / "said").open("w") as said, self.site.typed(*shlex.split(typed), stdout=said) as command:
            answer_pairs(address_in(self.folder / "said", PATIENCE), ["clean"] * JUDGED)
            assert command.wait(PATIENCE) == 0
        self.note(f"a judge finds {JUDGED} pairs right")
        self.idle()
        resumed = self.site.api.post(f"/flow_runs/{asks}/resume").raise_for_status().json()
        assert resumed["status"] == "ACCEPT", resumed
        self.note("the night is resumed")
        return str(asks)

    def kill_gpu_worker(self) -> None:
        """kill -9, while a stage trains on its pool."""
        at_work = {"state": {"type": {"any_": ["RUNNING"]}}, "name": {"like_": "train_dpr"}}
        wait_until(lambda: self.site.flow_runs(flow_runs=at_work), "a stage that trains", PATIENCE)
        dead = self.site.pid("gpu")
        kill(dead)
        self.note("kill -9 of the GPU worker, while stages of its pool train and encode")
        wait_until(lambda: self.site.pids().get("gpu", dead) != dead, "the worker's next process")

    def alarms(self) -> Counter[str]:
        """The messages so far, with the id of the flow run in place of its page."""
        return Counter(
            re.sub(r"^nightly/.* is (\w+): .*/", r"\1 ", one["text"]) for one in list(self.channel.messages.queue)
        )


def test_a_file_that_grows_under_a_schedule_of_each_minute(story, request):
    scheduled = ("schedule", str(story.folder / "pairs.yaml"))
    often = ("--cron", "* * * * *", "--min-seeds", "1", "--ask-above", ASK_ABOVE)
    story.grow()
    story.type(*scheduled, *often)
    asks = story.answer()
    first = story.decision()
    (cure,) = re.findall(r"noisyir (run \S+ (?:\S+=\S+?)),", first.summary)
    assert first.verdict == "refused" and cure.endswith(WITH_QUERIES), first.summary
    story.type(*shlex.split(cure))
    story.type(*scheduled, WITH_QUERIES, *often)
    assert story.decision().verdict == "promoted"

    story.grow()
    story.kill_gpu_worker()
    second = story.decision()
    assert second.verdict == "promoted", second.summary
    story.type("promote", MODEL, "--roll-back", "--experiment", "pairs")
    assert story.decision().verdict == "rolled back"
    refused = story.decision()
    cure = re.search(r"(--version \d+) has it judged nevertheless", refused.summary)
    assert refused.verdict == "refused" and cure, refused.summary
    story.type("promote", MODEL, *cure[1].split(), "--min-seeds", "1")
    assert story.decision().verdict == "promoted"

    story.grow()
    third = story.decision()
    assert third.verdict == "promoted" or "the gain may be chance" in third.summary, third.summary
    story.grow()
    last = story.decision()
    assert last.verdict == "promoted", last.summary
    story.idle()
    story.type(*scheduled, "--remove")
    nothing_is_stuck(story)

    nights, told = story.nights(), story.decisions()
    assert {run["id"]: run["state_type"] for run in nights}[asks] == "COMPLETED"
    left_out = [run["id"] for run in nights if run["state_type"] == "CANCELLED"]
    (question,) = [one for one in story.alarms() if "nobody has judged" in one]
    decided = [one.summary for one in told if one.flow_run]
    expected = Counter([question, *decided, *(f"Cancelled {run}" for run in left_out)])
    wait_until(lambda: story.alarms().total() >= expected.total(), "the last alarm")
    assert story.alarms() == expected
    champions = [one.version for one in told if one.verdict == "promoted"]
    assert len(champions) == 4 + (third.verdict == "promoted")
    assert told[-1] == last, "the same file is decided on once"
    story.note(f"{len(nights)} nights, {len(left_out)} of them left out; {len(decided) + 1} other messages")
    if request.config.getoption("--record"):
        record("growing_file", story.happened, left=1, claim=CLAIM, champions=champions, nights=len(nights))


def nothing_is_stuck(story: Story) -> None:
    """Every flow run has ended, and holds no slot, lock or half a build."""
    site, store = story.site, story.site.home / "store"
    wait_until(lambda: {run["state_type"] for run in site.flow_runs()} <= FINAL, "the end of all", PATIENCE)
    nights = [run["id"] for run in story.nights()]
    assert {run["state_type"] for run in story.nights()} == {"COMPLETED", "CANCELLED"}
    others = Counter(run["state_type"] for run in site.flow_runs() if run["id"] not in nights)
    assert others.keys() <= {"COMPLETED", "CRASHED"} and others["CRASHED"] <= 1, others  # of the killed worker
    wait_until(lambda: not any(limit["active_slots"] for limit in site.limits()), "free slots")
    assert "damaged" not in site.noisyir("store", "verify")
    assert {run["state"] for run in json.loads(site.noisyir("status", "--json"))["runs"]} == {"done"}
    assert not [path for name in (".staging", ".leases", ".work") for path in (store / name).glob("*")]
