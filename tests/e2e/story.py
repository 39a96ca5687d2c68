"""What happens to a pairs file under a schedule: typed commands, nights, decisions, a judge, a killed worker."""

import csv
import random
import re
import shlex
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

from noisyir.engine.store import Store
from noisyir.registry.promote import Decision, decisions
from tests.channel import Told
from tests.e2e.site import Site, kill, wait_until
from tests.judging_client import address_in, answer_pairs
from tests.tiny import write_words

MODEL = "noisyir-retriever"
ROWS = {range(70): 300, range(70, 100): 100, range(100, 130): 100, range(130, 160): 100}  # by their words
JUDGED = 40  # pairs
PATIENCE = 1800  # seconds for a night, on a machine that others use, too
EXPERIMENT = """\
data: {{kind: pairs, path: pairs.csv, hold_out: {{dev: 0.4, test: 0.1}}}}
methods: [dpr]
model: {{backbone: static, weights: {words}}}
bm25_index: {{engine: bm25s}}
train: {{epochs: 30, batch_size: 16, learning_rate: 0.01}}
"""


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
