"""`noisyir.audit`: which pairs are wrong, and why, of pairs as Python has them."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.label_audit import Audited
from noisyir.app.label_cleaning import CleaningWords, refuse_too_much, refuse_unjudged
from noisyir.audits.columns import FLAGGED
from noisyir.base.errors import StoreError
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import json_lines
from noisyir.detection.calibration.sample import draw_sample
from noisyir.detection.noise_detector import NoiseRate, assumed_rate
from noisyir.front.api.given import Rows, as_file, documents_file, model_path
from noisyir.front.api.running import Running, Settings, running
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.experiment import Experiment

_SHOWN, _CUT = 5, 200  # pairs, and characters of a text, that a notebook shows
_PYTHON = CleaningWords(
    apply="apply()",
    judge_first="fill the column verdict (wrong, clean or unclear) of .sample(50), and call .judged(it).apply()",
    force="force=True",
    assume="settings={'detect.assume': 'random'} and force=True",
    threshold="settings={{'detect.threshold': {:g}}}",
)


def audit(
    pairs: Rows,
    corpus: Rows | None = None,
    *,
    model: Any = None,
    columns: Mapping[str, str | None] | None = None,
    judgements: Rows | None = None,
    split: str | None = None,
    budget: str | None = None,
    settings: Settings | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> "Audit":
    """Say which pairs are wrong, and why.  The same call again takes what is in the store.

    pairs: a DataFrame, a pyarrow.Table, a `datasets.Dataset`, a list of dicts or of (query, document), or a path; also
    a data set's folder, or an experiment's name.  Columns are found by their usual names, else by `columns`, such as
    {"query": "title", "document": "body"}.
    corpus: the documents where pairs only name them by doc_id: {doc_id: text}, rows of _id, title, text, or a path.
    model: reads the pairs, instead of the packaged one: a folder, a name, or a SentenceTransformer.
    split: dev or test: its relevant judgements, which nothing changes; None: the training pairs.
    judgements: verdicts of people, as `Audit.judged` takes them.  budget: how long a transformer may read: "5m".
    settings: any of an experiment, and of the machine, by name: {"detect.threshold": 0.8, "runtime.threads": 2}.
    store: where results are kept; None: $NOISYIR_HOME/store, or .noisyir/store.
    DataError for pairs that cannot be read; ConfigError for settings that do not exist.

    >>> found = noisyir.audit([("capital of France", "Paris is the capital of France."),
    ...                        ("largest planet", "Jupiter is the largest planet."),
    ...                        ("boiling point of water", "The violin has four strings.")])
    >>> found.table.num_rows
    3
    >>> found.table["query"][0].as_py()     # the most suspect first
    'boiling point of water'
    >>> print(found.rate)                   # doctest: +ELLIPSIS
    not known without judgements: ...
    """
    if columns:
        settings = {"data.columns": dict(columns), **(settings or {})}
    run, overrides = running(settings, store, progress)
    nameless = [] if isinstance(pairs, str | os.PathLike) else ["audit.title=''"]
    exp = experiment_to_audit(
        as_file(pairs, run.home, "pairs"),
        [*nameless, *overrides],
        corpus=documents_file(corpus, run.home),
        model=model_path(model, run.home),
        budget=budget,
        split=split,
    )
    return _audited(_judged_by(exp, judgements, run), run)


@dataclass(frozen=True)
class Cleaned:
    """Pairs after an audit was applied.

    pairs: all columns of the source, and `weight` in training; changes: a dict for each pair that was changed, with
    its reason; path, log: the same as files, where a folder was named.
    """

    pairs: pa.Table
    changes: list[dict[str, Any]]
    summary: str
    path: Path | None
    log: Path | None

    def __str__(self) -> str:
        """How many pairs met which fate."""
        return self.summary


@dataclass(frozen=True)
class Audit:
    """Findings on pairs; made by `noisyir.audit`."""

    _found: Audited
    _run: Running

    @property
    def table(self) -> pa.Table:
        """One row a pair, the most suspect first: query, document, suspicion, verdict, better, reason and more.

        `.to_pandas()` makes a DataFrame of it; docs/reference/audit_files.md lists the columns.
        """
        return self._found.table

    @cached_property
    def flagged(self) -> pa.Table:
        """The rows of the pairs called wrong or suspect, the most suspect first."""
        return self.table.filter(pc.is_in(self.table["verdict"], value_set=pa.array(FLAGGED)))

    @cached_property
    def rate(self) -> NoiseRate:
        """The share of wrong pairs: a number only where people judged a random sample, else what is assumed."""
        found, confidence = self._found, self._found.exp.detect.confidence
        assumed = assumed_rate(found.estimate, confidence)
        return NoiseRate(*found.noise, confidence, found.sampled, assumed.assumed) if found.sampled else assumed

    def sample(self, size: int = 50) -> pa.Table:
        """Pairs drawn at random, to be judged: fill `verdict` with wrong, clean or unclear, and give it to `judged`.

        `weight` says how many pairs each one stands for; leave it as it is.  Nothing tells what the machine thinks.
        The same audit draws the same pairs.
        """
        scores = self.table["score"].to_numpy().astype(np.float64)
        drawn = draw_sample(scores, size, np.random.default_rng(self._found.exp.seed))
        rows = self.table.select(["query_id", "doc_id", "query", "document"]).take(drawn.rows)
        empty = pa.nulls(len(drawn.rows), pa.string())
        return rows.append_column("verdict", empty).append_column("weight", pa.array(drawn.weights, pa.float64()))

    def judged(self, verdicts: Rows) -> "Audit":
        """The audit with people's verdicts, beside those given before: query_id, doc_id, verdict, perhaps weight.

        A verdict counts for its own pair; those drawn by `sample` tell the rate, and teach the machine.  DataError for
        other words, and for pairs that are not in the audit.
        """
        return _audited(_judged_by(self._found.exp, verdicts, self._run), self._run)

    def apply(
        self, folder: str | os.PathLike[str] | None = None, *, drop: bool = False, force: bool = False
    ) -> Cleaned:
        """The pairs with weights; `drop`: flagged ones left out, and no weights.

        folder: where to write them and the log of what was changed; None: nowhere.
        ConfigError where nobody judged a random sample, or more would change than that allows for, unless `force`.
        """
        refuse_unjudged(self._found.exp, force=force, words=_PYTHON)
        refuse_too_much(self._found, drop=drop, force=force, words=_PYTHON)
        with TemporaryDirectory() as work:
            applied = self._found.apply(Path(folder or work), drop=drop)
            changes = [dict(row) for _, row in json_lines(applied.log)]
            cleaned, (summary, *_) = _read(applied.pairs), applied.summary().splitlines()
        paths = (applied.pairs, applied.log) if folder else (None, None)
        return Cleaned(cleaned, changes, summary, *paths)

    def page(self, path: str | os.PathLike[str] = "audit.html") -> Path:
        """Write the page for the data's owner, which works without a server, to `path`."""
        target = Path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(
                self._found.store.builds.folder(self._found.outcome.kept["audit_files"]) / "audit.html", target
            )
        except OSError as error:
            raise StoreError("front.cannot_write_page", target=target, error=error) from error
        return target

    def __str__(self) -> str:
        """The findings, as the command line prints them."""
        return self._found.summary().strip()

    def __repr__(self) -> str:
        """The pairs and the flags in a line."""
        return f"<Audit of {self.table.num_rows:,} pairs, {self.flagged.num_rows:,} flagged>"

    def _repr_html_(self) -> str:
        """The view of a notebook: the summary, and the most suspect pairs."""
        shown = self.table.select(["query", "document", "suspicion", "reason"]).slice(0, _SHOWN).to_pylist()
        heads = "".join(f"<th>{name}</th>" for name in ("query", "document", "suspicion", "reason"))
        rows = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>" for row in shown)
        return f"<pre>{escape(str(self))}</pre><table><tr>{heads}</tr>{rows}</table>"


def _audited(exp: Experiment, run: Running) -> Audit:
    return Audit(Audited(exp, run.store, run.run(exp, audit_pairs)), run)


def _judged_by(exp: Experiment, verdicts: Rows | None, run: Running) -> Experiment:
    """The experiment with these verdicts beside those that it has."""
    if verdicts is None:
        return exp
    assert exp.audit is not None
    files = (*exp.audit.judgement_files, as_file(verdicts, run.home, "judgements", ("query_id", "doc_id", "verdict")))
    return exp.model_copy(update={"audit": exp.audit.model_copy(update={"judgements": tuple(dict.fromkeys(files))})})


def _read(path: Path) -> pa.Table:
    """A file of pairs, as its format has the values."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    file = RowFile.open(str(path), "pairs")
    return pa.Table.from_pylist([dict(row) for _, row in file.rows(list(file.columns))])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return escape(value if len(value) <= _CUT else f"{value[: _CUT - 1]}…")
