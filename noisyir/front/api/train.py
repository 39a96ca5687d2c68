"""`noisyir.train`: train a retriever on pairs from Python, and compare it with systems without training."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from noisyir.app.exports.sentence_transformers import write_folder
from noisyir.app.lookup import Finished
from noisyir.app.own_data import doubt_of, experiment_for
from noisyir.app.runs import Outcome
from noisyir.app.system_search import answer
from noisyir.app.systems import System, indexes_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.meta import Ref
from noisyir.evaluation.pages.summary import summary_rows
from noisyir.front.api.given import Rows, as_file, documents_file, model_path
from noisyir.front.api.running import Running, Settings, running
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.left_out import trials_pay
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.planning import pipeline_of

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def train(
    pairs: Rows,
    corpus: Rows | None = None,
    *,
    methods: Sequence[str] | None = None,
    model: Any = None,
    columns: Mapping[str, str | None] | None = None,
    settings: Settings | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> "Trained":
    """Train a retriever on pairs that may be partly wrong. Repeating a call reuses the results in the store.

    Args:
        pairs: As for `noisyir.audit`. A column `split` (train, dev, test) defines held-out data; otherwise some queries
            are held out, and reported.
        corpus: As for `noisyir.audit`.
        methods: Trained side by side; the last one's model is kept. dpr trusts every pair; auto, reweight,
            reweight_relabel, npc and others (docs/understand/methods.md) do not. None: auto from 5,000 pairs on, which
            trains eighteen times to test whether doubting the pairs helps; dpr for fewer; reweight for transformers.
        model: Starting point: a folder, a name or a SentenceTransformer; None: a static model, for CPUs.
        columns: As for `noisyir.audit`.
        settings: Experiment or machine settings: {"train.epochs": 3, "model.backbone": "transformer"}.
        store: As for `noisyir.audit`.
        progress: Whether to show progress.

    Raises:
        DataError: If the pairs cannot be read.
        ConfigError: If a setting or method does not exist.

    Examples:
        >>> pairs = [{"query": f"how to {verb} a {noun}",
        ...           "document": f"to {verb} it, take the {noun} and {verb} it well",
        ...           "split": "test" if noun == "cup" else "train"}
        ...          for verb in ("open", "wash", "fill", "sell") for noun in ("box", "jar", "bag", "cup")]
        >>> trained = noisyir.train(pairs, methods=["dpr"], settings={"train.epochs": 1, "bm25_index.engine": "bm25s"})
        >>> trained.model.encode("how to wash a cup").shape
        (384,)
        >>> sorted(set(trained.measures["system"].to_pylist()))
        ['bm25', 'dpr', 'dpr_hybrid', 'minilm_as_is', 'minilm_as_is_hybrid', 'zero_shot', 'zero_shot_hybrid']
        >>> trained.search("how to wash a cup", k=1)[0]["text"]
        'to wash it, take the cup and wash it well'
    """
    if isinstance(methods, str) or (methods is not None and not methods):
        raise ConfigError("front.methods_not_a_list", methods=methods)
    named = {"methods": list(methods)} if methods else {}
    given = {**named, **({"data.columns": dict(columns)} if columns else {}), **(settings or {})}
    run, overrides = running(given, store, progress)
    weights = model_path(model, run.home)
    overrides += [f"model.weights={weights}"] if weights else []
    exp = experiment_for(
        as_file(pairs, run.home, "pairs"), corpus=documents_file(corpus, run.home), overrides=overrides
    )
    exp = _with_methods(exp)
    return Trained(exp, run, run.run(exp, pipeline_of))


def _with_methods(exp: Experiment) -> Experiment:
    """Return the experiment with a default method, and the reason for it, if none is named."""
    if "methods" in exp.model_fields_set:
        return exp
    tried, why = trials_pay(exp.model.backbone, exp.data.summary().pairs)
    kind = "auto" if tried else {"static": "dpr", "transformer": "reweight"}[exp.model.backbone]
    chosen = {**exp.chosen, "methods": f"{kind}: {exp.model.backbone} backbone; {why}"}
    return exp.model_copy(update={"methods": (Method.parse(kind),), "chosen": chosen})


@dataclass(frozen=True)
class Trained:
    """A trained retriever with its measures; returned by `noisyir.train`."""

    _exp: Experiment
    _run: Running
    _outcome: Outcome

    @cached_property
    def model(self) -> "SentenceTransformer":
        """The model as a SentenceTransformer, for encoding, saving or further training."""
        from sentence_transformers import SentenceTransformer

        device = self._run.runtime.device
        return SentenceTransformer(str(self.path), device=None if device == "auto" else device, trust_remote_code=False)

    @property
    def path(self) -> Path:
        """The model's folder in the store: other tools may read but must not modify it; `save` copies it."""
        return self._run.store.builds.folder(self._ref)

    @cached_property
    def measures(self) -> pa.Table:
        """Every system's measures on the held-out queries, with intervals, and tests against the others.

        One row per system, measure and comparison: mean, low, high; baseline, difference, difference_low, p_holm and
        more.
        """
        store = self._run.store
        return store.builds.table(self._outcome.kept["comparison"])

    @property
    def chosen(self) -> dict[str, str]:
        """Defaults chosen for omitted settings, in words: the held-out data, the rate, ..."""
        return dict(self._exp.chosen)

    @cached_property
    def doubts(self) -> list[str]:
        """Reasons not to use the model, one sentence each, naming a better system; empty if there are none."""
        doubt = doubt_of(self._outcome, self._run.store, self._exp)
        return [doubt] if doubt else []

    @property
    def report(self) -> Path:
        """The report page on training and measures."""
        return self._run.store.builds.folder(self._outcome.kept["report"]) / "report.html"

    def search(self, query: str, k: int = 5) -> list[dict[str, Any]]:
        """Return the k best documents: rank, score, doc_id, title and text."""
        if k < 1 or not query.strip():
            raise ConfigError("front.empty_query")
        system = System(self._ref)
        return answer(self._run.store, system, indexes_of(self._run.store, system), query=query, k=k)

    def save(self, folder: str | os.PathLike[str], *, licence: str | None = None) -> Path:
        """Copy the model with its card to a new folder that SentenceTransformer(folder) loads.

        Args:
            folder: Must not exist yet.
            licence: The model's licence, for its card, such as "apache-2.0".

        Raises:
            StoreError: If it cannot be written.
        """
        target = Path(folder)
        if target.exists():
            raise StoreError("front.folder_exists", target=target)
        with StoreError.wrapping("front.cannot_write", target=target):
            run = Finished(self._exp.model_dump(mode="json"), dict(self._outcome.kept))
            write_folder(self._run.store, self._ref, run, target, licence)
            return target

    def __str__(self) -> str:
        """The measures as a text table, and the doubts."""
        rows = summary_rows(self.measures)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
        return "\n".join([*lines, *(f"WARNING  {doubt}" for doubt in self.doubts)])

    def __repr__(self) -> str:
        return f"<Trained {self._exp.kept} on {self._exp.name}: {self.path}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(str(self))}</pre>"

    @property
    def _ref(self) -> Ref:
        return self._outcome.kept["model"]
