"""Judging and the kept-pairs guarantee after an audit: `noisyir audit --judge` and `--keep-wrong-below`."""

import getpass
import shlex
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.app.audit_folder import KEPT, read_written
from noisyir.app.console import stdout_console
from noisyir.app.label_audit import Audited
from noisyir.app.label_cleaning import refuse_too_much, refuse_unjudged
from noisyir.audits.apply import log_of, refuse_existing
from noisyir.audits.files import write_pairs
from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.learning import Knowledge, OrderLearner, PairLearner
from noisyir.audits.judging.pairs_to_judge import PairsToJudge, pairs_to_judge
from noisyir.audits.judging.server import page_alone, serve_page
from noisyir.audits.judging.session import JudgingSession, RandomOrder, summary, told_guarantee
from noisyir.audits.keeping import Keeping
from noisyir.base.artifact import BY_PAIR
from noisyir.base.errors import ConfigError, NoisyirError, StoreError
from noisyir.base.pages.cells import percent
from noisyir.detection.judgements import BY_MODEL, Pair, given_judgements, pairs_with_verdicts, read_judgements
from noisyir.detection.rate import widened
from noisyir.engine.locks import held_if_free
from noisyir.engine.provenance import lineage
from noisyir.engine.tables import aligned, matrix, pair_ids, rows_in
from noisyir.retrieval.texts import among

FILE, SHEET, ALONE = "judgements.jsonl", "sample.csv", "judge.html"
_GIVEN, _FILL_IN = "uses the answers that you gave", "after you filled in its column verdict: right, wrong or unsure"
_WRITTEN_BY = {FILE: ("--judge",), SHEET: ("--sample", "50")}
_FEATURES = "pair_features"
_SAME = ["query_id", "doc_id", "query", "document"]  # equal in a pair that is the same
_LOWEST_SCORE_FIRST = [("score", "ascending"), *BY_PAIR]


class AuditArguments(NamedTuple):
    """The arguments of `noisyir audit` that select pairs and detectors."""

    data: str
    overrides: Sequence[str]
    corpus: str | None
    out: str | None
    model: str | None
    budget: str | None
    assume: str | None
    store: str | None
    split: str | None = None
    query: str | None = None
    document: str | None = None

    def with_judgements(self, *files: str | Path, apply: bool = False) -> str:
        """The shell command that audits the same pairs with files of judgements, and with `apply` cleans them."""
        given = [word for file in files for word in ("--judgements", str(file))]
        return self.typed(*given, *["--apply"] * apply)

    def to_learn_the_rate(self, folder: Path, audited: Set[Pair]) -> str:
        """The shell command that tells how many pairs are wrong, by answers on these in the folder if any; a remark."""
        for path in (folder / FILE, folder / SHEET):
            if path.exists() and set() < pairs_with_verdicts(path, unjudged=True) <= audited:
                return f"{self.with_judgements(path)}\n{'':<15} {_GIVEN if pairs_with_verdicts(path) else _FILL_IN}"
        return f"{self.typed('--judge')}\n{'':<15} check 50 pairs to know how many are wrong"

    def typed(self, *more: str) -> str:
        """The shell command that audits the same pairs, with more options."""
        named = {name: value for name, value in self._asdict().items() if name not in ("data", "overrides")}
        given = [part for name, value in named.items() if value for part in (f"--{name}", value)]
        return shlex.join(["noisyir", "audit", self.data, *self.overrides, *given, *more])


@dataclass(frozen=True)
class JudgingOptions:
    """Options of judging after an audit.

    Args:
        judge: Serve the judging page.
        name: Name of the judge; None means the login name.
        wrong: Largest share of wrong pairs among the kept ones; None writes no kept pairs.
        standalone: Write a page that works without a server.

    Raises:
        ConfigError: If options contradict each other.
    """

    command: AuditArguments
    judgements: Sequence[str] = ()
    judge: bool = False
    name: str | None = None
    wrong: float | None = None
    standalone: bool = False

    def __post_init__(self) -> None:
        if not self.judge and self.name is not None:
            raise ConfigError("app.as_without_judge")
        if self.judge and self.standalone:
            raise ConfigError("app.judge_and_standalone")
        if self.name is not None and self.name.startswith(BY_MODEL):
            raise ConfigError("app.judge_name_of_model", by_model=BY_MODEL)
        if self.wrong is not None and not 0 < self.wrong < 1:
            raise ConfigError("app.bad_keep_wrong_below", wrong=self.wrong)

    def refuse_unwritten(self, name: str) -> None:
        """Raise ConfigError if a file of judgements, which an audit writes, is not there yet."""
        for path in map(Path, self.judgements):
            if path.name in _WRITTEN_BY and path.parent != Path() and not path.exists():
                out = None if path.parent == Path(f"{name}-audit") else str(path.parent)
                command = self.command._replace(out=out).typed(*_WRITTEN_BY[path.name])
                raise ConfigError("app.not_judged_yet", path=path, command=command)

    def next_step(self, audited: Audited, folder: Path) -> str:
        """The command to type next with a remark; empty if nothing is, or can be, cleaned by the answers."""
        if self.wrong is not None and (folder / KEPT).exists():
            return f"noisyir init {shlex.quote(str(folder / KEPT))}\n{'':<15} writes an experiment on the kept pairs"
        if not audited.sampled:
            return self.command.to_learn_the_rate(folder, set(pair_ids(audited.table)))
        if not audited.flagged:
            return ""
        try:
            refuse_unjudged(audited.exp, force=False)
            refuse_too_much(audited, drop=False, force=False)
            refuse_existing(log_of(folder, audited.exp.name))
        except NoisyirError:
            return ""
        return f"{self.command.with_judgements(*self.judgements, apply=True)}\n{'':<15} writes a cleaned copy"

    def run(self, audited: Audited, folder: Path) -> str:
        """Serve or write the requested pages, and return a report, perhaps empty."""
        if self.standalone:
            return self._page_alone(audited, folder)
        if self.judge:
            return self._judged(audited, folder)
        if self.wrong is None:
            return ""
        own = folder / FILE
        if not self.judgements and not own.exists():
            return self._kept(audited, audited.keeping, folder)
        known = known_from(audited, self.judgements or [str(own)])
        return self._kept(audited, Keeping(known.bounds, audited.table.num_rows), folder)

    def _page_alone(self, audited: Audited, folder: Path) -> str:
        """Write the standalone page and return its place and the command that reads its answers."""
        command = self.command.with_judgements(Path(FILE))
        path = write_page_alone(audited, folder, command)
        return (
            f"\n{ALONE:<15} {path}\n{'':<15} a page to send: anyone with a browser can judge, and saves {FILE}\n"
            f"{'then':<15} {command}"
        )

    def _kept(self, audited: Audited, keeping: Keeping, folder: Path) -> str:
        """Report the number of pairs that may be kept, and their file."""
        assert self.wrong is not None
        return f"{told_guarantee(keeping, self.wrong)}\n{self._written(audited, keeping, folder)}".rstrip()

    def _written(self, audited: Audited, keeping: Keeping, folder: Path) -> str:
        """Write the pairs that may be kept and return a line with their path, empty if none are written."""
        if self.wrong is None:
            return ""
        (folder / KEPT).unlink(missing_ok=True)
        return f"{KEPT:<15}{write_kept(audited, most, folder)}" if (most := keeping.most(self.wrong)) else ""

    def _judged(self, audited: Audited, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        pairs, seed = _pairs(audited), audited.exp.seed
        with session_on(folder / FILE, pairs, _learner(audited, pairs), self.name, seed) as session:

            def told() -> str:
                command, cleans = self.command.with_judgements(folder / FILE), audited.exp.audited == "train"
                return summary(session, command, self.wrong, cleans=cleans)

            serve_page(session, folder, told, stdout_console().print)
            session.finish()
            kept = self._written(audited, Keeping(session.known.bounds, audited.table.num_rows), folder)
            return f"{told()}\n{kept}".rstrip()


@contextmanager
def session_on(
    path: Path,
    pairs: PairsToJudge,
    learner: OrderLearner,
    judge: str | None = None,
    seed: int = 0,
    order: RandomOrder | None = None,
) -> Iterator[JudgingSession]:
    """Open a session that continues a file of judgements.

    Args:
        judge: Name recorded with each answer; None means the login name.
        order: In which it asks; None means a random one by the seed.

    Raises:
        ConfigError: If another session is writing to the file.
    """
    with held_if_free(path) as free:
        if not free:
            raise ConfigError("app.session_open", path=path)
        session = JudgingSession(pairs, Journal(path), judge or getpass.getuser(), learner, seed, order)
        session.start()
        try:
            yield session
        finally:
            session.finish()
            if not session.journal.answers:
                path.unlink()


def known_from(audited: Audited, files: Sequence[str]) -> Knowledge:
    """Learn from files of judgements."""
    pairs = _pairs(audited)
    said = read_judgements(files, pairs.audit)
    return _learner(audited, pairs).learn({pairs.row_of[pair]: judged for pair, judged in said.items()})


class CarriedRate(NamedTuple):
    """The interval of the rate of wrong pairs today, by judgements of an earlier audit.

    Attributes:
        judged: Number of random pairs that were judged and are still there.
        new: Share of today's pairs that were not in the earlier audit, or had other texts there.
    """

    low: float
    high: float
    judged: int
    new: float

    def __str__(self) -> str:
        moved = f"; {percent(self.new, 1)} of the pairs are new since then" if self.new else ""
        rate = f"{percent(self.low, 1)} to {percent(self.high, 1)}"
        return f"{rate} of the pairs are wrong, by {self.judged:,} judgements{moved}"


def carried_rate(audited: Audited, folder: Path) -> CarriedRate | None:
    """The rate by the judgements in the folder of an earlier audit; None if none was of a random pair that is left.

    The judged pairs that are left are a random sample of all that are left; the new pairs widen its interval.

    Source: Cochran, Sampling Techniques, 1977, section 2.13 (a part of the population).
    """
    if not (folder / FILE).exists() or not pairs_with_verdicts(folder / FILE):
        return None
    pairs, said = _pairs(audited), given_judgements([str(folder / FILE)])
    left = np.flatnonzero(pc.is_valid(rows_in(read_written(folder, _SAME), pairs.audit, _SAME)))
    there = PairsToJudge(pairs.audit.take(pa.array(left)), pairs.others, pairs.read_texts)
    known = _learner(audited, there).learn({row: said[pair] for pair, row in there.row_of.items() if pair in said})
    if known.rate is None:
        return None
    new = 1 - len(left) / pairs.audit.num_rows
    return CarriedRate(*widened(known.rate.low, known.rate.high, new), known.sampled, new)


def _pairs(audited: Audited) -> PairsToJudge:
    return pairs_to_judge(audited.table, audited.outcome.results["audit"].meta.input_refs(), audited.store)


def _learner(audited: Audited, pairs: PairsToJudge) -> OrderLearner:
    _, query = np.unique([query_id for query_id, _ in pairs.ids], return_inverse=True)
    return PairLearner(pairs.scores, _features(audited, pairs), query)


def _features(audited: Audited, pairs: PairsToJudge) -> Float[np.ndarray, "pair feature"] | None:
    """Features of each pair by the audit's detectors; None if no detector has any."""
    store = audited.store
    behind = lineage(store, [audited.outcome.kept["audit"]])
    found = [meta.ref(_FEATURES) for meta in behind if _FEATURES in meta.artifacts]
    tables = [store.builds.table(ref, ["query_id", "doc_id", "features"]) for ref in found]
    there = [aligned(pairs.audit, table, ["query_id", "doc_id"]) for table in tables if len(table)]
    return np.column_stack([matrix(table["features"]) for table in there]) if there else None


def write_page_alone(audited: Audited, folder: Path, command: str) -> Path:
    """Write the judging page that needs no server; it shows the command that reads its answers.

    Raises:
        StoreError: If the folder cannot be written to.
    """
    path = folder / ALONE
    with StoreError.wrapping("app.cannot_write_folder", folder=folder):
        path.write_text(page_alone(_pairs(audited), audited.exp.seed, command), encoding="utf-8")
    return path


def write_kept(audited: Audited, most: int, folder: Path) -> Path:
    """Write the `most` audited pairs with the lowest scores, with their full texts.

    Raises:
        StoreError: If the folder cannot be written to.
    """
    kept = audited.table.sort_by(_LOWEST_SCORE_FIRST).slice(0, most).select(["query_id", "doc_id", "query", "source"])
    read = dict(audited.outcome.results["audit"].meta.input_refs())["corpus"]
    wanted = kept["doc_id"].combine_chunks().unique()
    corpus = audited.store.builds.batches(read, ("doc_id", "title", "text"))
    path = folder / KEPT
    with StoreError.wrapping("app.cannot_write_folder", folder=folder):
        write_pairs(kept, pa.Table.from_batches(among(corpus, wanted)), path)
    return path
