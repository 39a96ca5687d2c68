"""`noisyir.audit`: wrong pairs and the reasons, for pairs from Python."""

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
from noisyir.base.pages.cells import shorten
from noisyir.data.row_files import RowFile
from noisyir.data.text_files import json_lines
from noisyir.detection.calibration.sample import draw_sample
from noisyir.detection.noise_detector import NoiseRate, assumed_rate
from noisyir.front.api.given import Rows, as_file, documents_file, model_path
from noisyir.front.api.running import Running, Settings, running
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.experiment import Experiment

_SHOWN, _CUT = 5, 200  # pairs, and characters per text, shown in a notebook
_PYTHON = CleaningWords(
    apply="apply()",
    judge_first="fill the column verdict (right, wrong or unsure) of .sample(50), and call .judged(it).apply()",
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
    """Find the wrong pairs, with reasons. Repeating a call reuses the results in the store.

    Args:
        pairs: A DataFrame, a pyarrow.Table, a `datasets.Dataset`, a list of dicts or of (query, document), or a path;
            also a data set's folder, or an experiment's name.
        corpus: The documents, if pairs name them only by doc_id: {doc_id: text}, rows of _id, title, text, or a path.
        model: Model that reads the pairs instead of the packaged one: a folder, a name, or a SentenceTransformer.
        columns: Column names, such as {"query": "title", "document": "body"}; None: the usual names.
        judgements: Human verdicts, in the format of `Audit.judged`.
        split: dev or test, to audit its relevant judgements without changing them; None: the training pairs.
        budget: Time limit for reading with a transformer, such as "5m".
        settings: Experiment or machine settings by name: {"detect.threshold": 0.8, "runtime.threads": 2}.
        store: Where results are kept; None: $NOISYIR_HOME/store, or .noisyir/store.
        progress: Whether to show progress.

    Raises:
        DataError: If the pairs cannot be read.
        ConfigError: If a setting does not exist.

    Examples:
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

    Attributes:
        pairs: All columns of the source, and `weight` for training.
        changes: A dict for each changed pair, with its reason.
        summary: Number of pairs by fate.
    """

    pairs: pa.Table
    changes: list[dict[str, Any]]
    summary: str
    path: Path | None
    log: Path | None

    def __str__(self) -> str:
        return self.summary


@dataclass(frozen=True)
class Audit:
    """Findings on pairs; returned by `noisyir.audit`."""

    _found: Audited
    _run: Running

    @property
    def table(self) -> pa.Table:
        """One row per pair, most suspect first: query, document, suspicion, verdict, better, reason and more.

        `.to_pandas()` converts it to a DataFrame; docs/reference/audit_files.md lists the columns.  Rows count from 1:
        `pairs.iloc[row - 1]` is the row of a DataFrame that was given.
        """
        return self._found.with_rows

    @cached_property
    def flagged(self) -> pa.Table:
        """The rows of pairs called wrong or suspect, most suspect first."""
        return self.table.filter(pc.is_in(self.table["verdict"], value_set=pa.array(FLAGGED)))

    @cached_property
    def rate(self) -> NoiseRate:
        """The share of wrong pairs: a number only if people judged a random sample, otherwise the assumed rate."""
        found, confidence = self._found, self._found.exp.detect.confidence
        assumed = assumed_rate(found.estimate, confidence)
        return NoiseRate(*found.noise, confidence, found.sampled, assumed.assumed) if found.sampled else assumed

    def sample(self, size: int = 50) -> pa.Table:
        """Draw random pairs to judge: fill `verdict` with right, wrong or unsure, and pass the rows to `judged`.

        `weight` is the number of pairs each row represents; leave it unchanged. The rows do not reveal the machine's
        opinion. The same audit draws the same pairs.
        """
        scores = self._found.table["score"].to_numpy().astype(np.float64)
        drawn = draw_sample(scores, size, np.random.default_rng(self._found.exp.seed))
        rows = self._found.table.select(["query_id", "doc_id", "query", "document"]).take(drawn.rows)
        empty = pa.nulls(len(drawn.rows), pa.string())
        return rows.append_column("verdict", empty).append_column("weight", pa.array(drawn.weights, pa.float64()))

    def judged(self, verdicts: Rows) -> "Audit":
        """Return the audit with added human verdicts: query_id, doc_id, verdict, optionally weight.

        A verdict applies to its own pair; verdicts on pairs drawn by `sample` also determine the rate and train the
        detector.

        Raises:
            DataError: If a verdict is invalid, or a pair is not in the audit.
        """
        return _audited(_judged_by(self._found.exp, verdicts, self._run), self._run)

    def apply(
        self, folder: str | os.PathLike[str] | None = None, *, drop: bool = False, force: bool = False
    ) -> Cleaned:
        """Return the pairs with weights, or with flagged ones dropped.

        Args:
            folder: Where to write the pairs and the log of changes; None: nowhere.
            drop: Drop flagged pairs instead of weighting.
            force: Skip the checks below.

        Raises:
            ConfigError: If no random sample was judged, or it does not support this many changes, unless `force`.
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
        """Write the page for the data's owner, which needs no server, to `path`."""
        target = Path(path)
        with StoreError.wrapping("front.cannot_write_page", target=target):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(
                self._found.store.builds.folder(self._found.outcome.kept["audit_files"]) / "audit.html", target
            )
        return target

    def __str__(self) -> str:
        return self._found.summary().strip()

    def __repr__(self) -> str:
        return f"<Audit of {self._found.table.num_rows:,} pairs, {self._found.flagged:,} flagged>"

    def _repr_html_(self) -> str:
        """The notebook view: the summary, and the most suspect pairs."""
        shown = self._found.table.select(["query", "document", "suspicion", "reason"]).slice(0, _SHOWN).to_pylist()
        heads = "".join(f"<th>{name}</th>" for name in ("query", "document", "suspicion", "reason"))
        rows = "".join(f"<tr>{''.join(f'<td>{_cell(value)}</td>' for value in row.values())}</tr>" for row in shown)
        return f"<pre>{escape(str(self))}</pre><table><tr>{heads}</tr>{rows}</table>"


def _audited(exp: Experiment, run: Running) -> Audit:
    return Audit(Audited(exp, run.store, run.run(exp, audit_pairs)), run)


def _judged_by(exp: Experiment, verdicts: Rows | None, run: Running) -> Experiment:
    """Return the experiment with these verdicts added."""
    if verdicts is None:
        return exp
    assert exp.audit is not None
    files = (*exp.audit.judgement_files, as_file(verdicts, run.home, "judgements", ("query_id", "doc_id", "verdict")))
    return exp.model_copy(update={"audit": exp.audit.model_copy(update={"judgements": tuple(dict.fromkeys(files))})})


def _read(path: Path) -> pa.Table:
    """Read a file of pairs, with values parsed by its format."""
    if path.suffix == ".parquet":
        return pq.read_table(path)
    file = RowFile.open(str(path), "pairs")
    return pa.Table.from_pylist([dict(row) for _, row in file.rows(list(file.columns))])


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    return escape(shorten(value, _CUT))
