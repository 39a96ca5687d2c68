"""The small world that is damaged: what people run, with every kind of artifact, made for real in seconds."""

import hashlib
import json
import re
import shutil
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from pathlib import Path
from typing import Any

from noisyir.app.lookup import find_model, newest_index
from noisyir.app.refresh import plan_of
from noisyir.app.runs import Execution, Outcome
from noisyir.app.runs import run as run_plan
from noisyir.base.settings import Params
from noisyir.data.settings import JoinCorpusParams
from noisyir.engine import integrity
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.planning import bench_of, pipeline_of
from noisyir.methods.plans.settings import RefreshCorpusParams
from noisyir.methods.plans.suite import Suite
from tests import tiny, tiny_squad
from tests.tiny_models import tiny_bert, tiny_classifier

TASKS = ("retriever", "reader", "further", "bench", "refresh")  # in an order in which they can run

RETRIEVER = (
    *tiny.SETTINGS,
    "methods=[dpr,ar2,npc_relabel,npc]",
    "audit={}",
    "encode.shard_rows=16",
    "mine={per_query: 6, rank_to: 20, run: dense}",
    "ar2={rounds: 2, ranker_steps: 3, retriever_steps: 4, n: 5, ranker_batch_size: 8}",
    "ranker.warm_up={epochs: 1, batch_size: 16, n: 5}",
    "ranker.init.max_len=32",
)
FURTHER = (
    "methods=[{kind: auto, candidates: [reweight], seeds: 2}, rocketqa, distill_contrast]",
    "teacher={kind: ranker, epochs: 1, n: 3}",
    "pool={depth: 5}",
    "lists={size: 4}",
    "mine={run: dense, per_query: 3, rank_to: 10, judges: [sieve, cross_encoder]}",
    "judges={sieve: {}}",
    "ranker.warm_up.loss=pointwise",
    "rocketqa={hard_negatives: 1, epochs: 1, augment: {min_positive: 0.2, queries: all}}",
)
BENCHED = (
    "methods=[dpr]",
    "mine={run: dense, per_query: 3, rank_to: 10}",
    "loss_groups={}",
    "refresh={rounds: 1, epochs: 1, hard_negatives: 1}",
)
BENCH: dict[str, Any] = {
    "name": "bench",
    "noise": [{"kind": "uniform", "rate": 0.3}],
    "hide": [{"kind": "near_duplicates", "rate": 0.3}],
    "methods": ["ance"],
    "seeds": [0],
    "table": {"baseline": "ance", "reference": None},
}
READER = (*tiny_squad.SETTINGS, "reader.methods=[ds_all,cds_sw]", "reader.ensemble=[]")
SMALL = "methods=[dpr]", "mine.per_query=0", "audit=null"
ALL = Choice()
TIMES = ("report/*", "noise_table/*/bench_page/*")  # how long builds took, which one that was made anew has otherwise

Digests = dict[str, str]
"""sha256 by stage/key/artifact/file."""


@dataclass(frozen=True)
class World:
    """Raw data, weights and settings in a folder; stores are made beside them."""

    folder: Path

    @classmethod
    def make(cls, folder: Path) -> "World":
        """Write the collections and the tiny encoder."""
        tiny.write_beir(folder / "beir")
        for file in ("corpus.jsonl", "queries.jsonl"):
            _say_in_few_words(folder / "beir" / file)
        (folder / "squad").mkdir()
        tiny_squad.write_squad(folder / "squad")
        tiny_bert(folder / "bert")
        tiny_classifier(folder / "judge")
        new = [{"_id": f"new{n}", "title": "", "text": f"w{n} w{n + 1} w{n}"} for n in range(8)]
        (folder / "new.jsonl").write_text("".join(json.dumps(row) + "\n" for row in new))
        (folder / "reader.yaml").write_text("name: reader\n")
        return cls(folder)

    def name(self, task: str) -> str:
        """What the command line calls the experiment of a task: retriever or reader."""
        return str(self.folder / "reader.yaml") if task == "reader" else "demo"

    def settings(self, task: str) -> list[str]:
        """What the command line gives after the experiment's name."""
        bert = self.folder / "bert"
        if task == "reader":
            return [*READER, f"data.path={self.folder / 'squad'}", f"reader.init.weights={bert}"]
        own = (f"data.path={self.folder / 'beir'}", f"model.weights={bert}", f"ranker.init.weights={bert}")
        return [*RETRIEVER, *own]

    def experiment(self, task: str, *more: str) -> Experiment:
        """The experiment of a task, with more settings."""
        return experiments.load(self.name(task), [*self.settings(task), *more])

    def task(self, name: str, store: Store | None = None) -> "Task":
        """What a person runs, by its name among TASKS.  store: where a refresh finds what it refreshes."""
        if name == "refresh":
            assert store is not None
            new = JoinCorpusParams(path=str(self.folder / "new.jsonl"))
            settings = RefreshCorpusParams(model="demo", data=new)
            return Task(name, settings, plan_of(settings, store, newest_index(store, find_model(store, "demo"))))
        if name == "bench":
            suite = Suite.model_validate({**BENCH, "experiment": self.experiment("retriever", *BENCHED)})
            return Task(name, suite, bench_of(suite))
        further = (
            *FURTHER,
            f"judges.cross_encoder={{weights: {self.folder / 'judge'}, max_len: 32, max_relevance: 0.9}}",
        )
        exp = self.experiment("retriever", *further) if name == "further" else self.experiment(name)
        return Task(exp.name, exp, pipeline_of(exp))

    def store(self, name: str) -> Store:
        """A store beside the data, with a home of its own."""
        return Store(self.folder / name / "store", home=self.folder / name)

    def copy(self, store: Store, name: str) -> Store:
        """A copy of it, whose files are nobody else's."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(store.home, self.folder / name)
        return self.store(name)


@dataclass(frozen=True)
class Task:
    """What is run, and its steps.  name: in the record of the run."""

    name: str
    settings: Params
    plan: Plan


def run(task: Task, store: Store, choice: Choice = ALL, observer: Observer | None = None) -> Outcome:
    """The task in this process as a new one would run it: checkpoints after every step, nothing tracked."""
    forget_what_was_read()
    return run_plan(
        task.plan,
        choice,
        Execution(
            store=store,
            runtime=Runtime(device="cpu", threads=1, checkpoint_seconds=1e-06),
            observer=observer or Observer(),
        ),
        name=task.name,
        settings=task.settings,
    )


def forget_what_was_read() -> None:
    """Be, for the store, another process."""
    integrity._read_here.clear()


def digests(store: Store) -> Digests:
    """Of the bytes on the disk of every artifact's files, the newest build's, whatever metas say."""
    found: Digests = {}
    for path in sorted(Path(store.root).glob("[!.]*/*/*/*/**/*"), reverse=True):
        if path.is_file():
            stage, key, _, *inside = path.relative_to(store.root).parts
            found.setdefault("/".join((stage, key, *inside)), hashlib.sha256(path.read_bytes()).hexdigest())
    return found


def differences(found: Digests, wanted: Digests, but: tuple[str, ...] = ()) -> str | None:
    """What of a store is other than in one that was never damaged; None where nothing is."""
    names = [name for name in wanted if found.get(name) != wanted[name] and not is_one_of(name, but)]
    return f"{len(names)} files differ, or are not there: {', '.join(names[:3])}" if names else None


def is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a file's name is of one of these patterns."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _say_in_few_words(path: Path) -> None:
    """Put words that the tiny encoder knows in place of the collection's."""
    words = {word: f"w{number}" for number, word in enumerate(chain.from_iterable(tiny.TOPICS.values()))}
    text = re.sub(r"(word|mark)(\d+)", lambda found: f"w{40 + int(found[2]) % 20}", path.read_text())
    path.write_text(re.sub(r"[a-z]+", lambda found: words.get(found[0], found[0]), text))
