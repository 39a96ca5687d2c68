"""`noisyir.train`: a retriever from pairs as Python has them, measured beside BM25 and the untrained model."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from noisyir.api.given import Rows, as_file, documents_file, model_path
from noisyir.api.running import Running, Settings, running
from noisyir.app.answering import answer
from noisyir.app.label_audit import experiment_to_audit
from noisyir.app.lookup import search_inputs
from noisyir.app.runs import Outcome
from noisyir.engine.builds import Ref
from noisyir.engine.tables import read_parts
from noisyir.errors import ConfigError, StoreError
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.readers import pipeline_of
from noisyir.report.summary import summary_rows

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def train(
    pairs: Rows,
    corpus: Rows | None = None,
    *,
    methods: Sequence[str] = ("npc_relabel",),
    model: Any = None,
    columns: Mapping[str, str | None] | None = None,
    settings: Settings | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> "Trained":
    """Train a retriever on pairs of which some may be wrong.  The same call again takes what is in the store.

    pairs, corpus, columns, store: as of `noisyir.audit`.  A column `split` (train, dev, test) says what is held out;
    without one a part of the queries is, and it is said which.
    methods: trained side by side; the last one's model is kept.  dpr believes every pair; npc_relabel, npc, reweight,
    relabel, drop, auto and others (docs/noise.md) do not.
    model: what training starts from, a folder, a name or a SentenceTransformer; None: a static model, for CPUs.
    settings: any of an experiment, and of the machine: {"train.epochs": 3, "model.backbone": "transformer"}.
    DataError for pairs that cannot be read; ConfigError for settings and methods that do not exist.

    >>> pairs = [{"query": f"how to {verb} a {noun}", "document": f"to {verb} it, take the {noun} and {verb} it well",
    ...           "split": "test" if noun == "cup" else "train"}
    ...          for verb in ("open", "wash", "fill", "sell") for noun in ("box", "jar", "bag", "cup")]
    >>> trained = noisyir.train(pairs, methods=["dpr"], settings={"train.epochs": 1, "bm25_index.engine": "bm25s"})
    >>> trained.model.encode("how to wash a cup").shape
    (384,)
    >>> sorted(set(trained.measures["system"].to_pylist()))
    ['bm25', 'dpr', 'zero_shot']
    >>> trained.search("how to wash a cup", k=1)[0]["text"]
    'to wash it, take the cup and wash it well'
    """
    if isinstance(methods, str) or not methods:
        raise ConfigError(f"methods is a list of names such as ['npc_relabel'], not {methods!r}")
    given = {"methods": list(methods), **({"data.columns": dict(columns)} if columns else {}), **(settings or {})}
    run, overrides = running(given, store, progress)
    weights = model_path(model, run.home)
    overrides += [f"model.weights={weights}"] if weights else []
    named = experiment_to_audit(as_file(pairs, run.home, "pairs"), overrides, corpus=documents_file(corpus, run.home))
    exp = named.model_copy(update={"audit": None})
    return Trained(exp, run, run.run(exp, pipeline_of))


@dataclass(frozen=True)
class Trained:
    """A trained retriever, and what it was measured to be; made by `noisyir.train`."""

    _exp: Experiment
    _run: Running
    _outcome: Outcome

    @cached_property
    def model(self) -> "SentenceTransformer":
        """The model, to encode with, to save, to train further: a SentenceTransformer."""
        from sentence_transformers import SentenceTransformer

        return SentenceTransformer(str(self.path), device=None if self._run.runtime.device == "auto" else "cpu")

    @property
    def path(self) -> Path:
        """The model's folder in the store, which other tools may read and nobody may change; `save` copies it."""
        return self._run.store.folder(self._ref)

    @cached_property
    def measures(self) -> pa.Table:
        """Every system's measures on the held-out queries, with intervals, and tests against the others.

        A row a system, measure and comparison: mean, low, high; baseline, difference, difference_low, p_holm and more.
        """
        store = self._run.store
        return read_parts(store.fs, store.parts(self._outcome.kept["comparison"]))

    @property
    def report(self) -> Path:
        """The page that tells what was trained and measured."""
        return self._run.store.folder(self._outcome.kept["report"]) / "report.html"

    def search(self, query: str, k: int = 5) -> list[dict[str, Any]]:
        """The k best documents: rank, score, doc_id, title and text."""
        if k < 1 or not query.strip():
            raise ConfigError("search needs a query with words in it, and k of at least 1")
        index, corpus = search_inputs(self._run.store, self._ref)
        return answer(self._run.store, self._ref, index, corpus, query=query, k=k)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Copy the model to a folder that does not exist yet, which SentenceTransformer(folder) loads."""
        target = Path(folder)
        if target.exists():
            raise StoreError(f"{target} exists already: name a new path")
        try:
            return Path(shutil.copytree(self.path, target))
        except OSError as error:
            raise StoreError(f"cannot write {target}: {error}") from error

    def __str__(self) -> str:
        """The measures as a table of text."""
        rows = summary_rows(self.measures)
        widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
        )

    def __repr__(self) -> str:
        """What was trained, in a line."""
        return f"<Trained {self._exp.kept} on {self._exp.name}: {self.path}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    @property
    def _ref(self) -> Ref:
        return self._outcome.kept["model"]
