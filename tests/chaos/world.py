"""The small world that is damaged: an experiment of each task with every kind of artifact, run for real in seconds."""

import hashlib
import re
import shutil
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from noisyir import experiments
from noisyir.app.runs import Outcome, run_experiment
from noisyir.engine import integrity
from noisyir.engine.observe import Silent
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.pipelines.experiment import Experiment
from noisyir.tracking.tracker import Tracker
from tests import tiny, tiny_squad
from tests.tiny_models import tiny_bert

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
READER = (*tiny_squad.SETTINGS, "reader.methods=[ds_all,cds_sw]", "reader.ensemble=[]")
SMALL = "methods=[dpr]", "mine.per_query=0", "audit=null"
ALL = Choice()
TIMES = ("report/",)  # stages whose pages hold how long builds took, which a build that was made anew has otherwise

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

    def store(self, name: str) -> Store:
        """A store beside the data, with a home of its own."""
        return Store(self.folder / name / "store", home=self.folder / name)

    def copy(self, store: Store, name: str) -> Store:
        """A copy of it, whose files are nobody else's."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        shutil.copytree(store.home, self.folder / name)
        return self.store(name)


def run(exp: Experiment, store: Store, choice: Choice = ALL, observer: Observer | None = None) -> Outcome:
    """The experiment in this process as a new one would run it: checkpoints after every step, nothing tracked."""
    forget_what_was_read()
    return run_experiment(
        exp, choice, store=store, runtime=Runtime(device="cpu", threads=1, checkpoint_seconds=1e-6),
        tracker=Tracker(), observer=observer or Silent(),
    )  # fmt: skip


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
    names = [name for name in wanted if found.get(name) != wanted[name] and not name.startswith(but)]
    return f"{len(names)} files differ, or are not there: {', '.join(names[:3])}" if names else None


def _say_in_few_words(path: Path) -> None:
    """Put words that the tiny encoder knows in place of the collection's."""
    words = {word: f"w{number}" for number, word in enumerate(chain.from_iterable(tiny.TOPICS.values()))}
    text = re.sub(r"(word|mark)(\d+)", lambda found: f"w{40 + int(found[2]) % 20}", path.read_text())
    path.write_text(re.sub(r"[a-z]+", lambda found: words.get(found[0], found[0]), text))
