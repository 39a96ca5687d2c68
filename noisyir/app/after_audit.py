"""Judging, and the guarantee, after an audit: `noisyir audit --judge` and `--keep-wrong-below`."""

import getpass
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.app.console import stdout_console
from noisyir.app.label_audit import KEPT, Audited
from noisyir.audits.files import write_pairs
from noisyir.audits.judgements import BY_MODEL, read_judgements
from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.learning import Knowledge, OrderLearner, PairLearner
from noisyir.audits.judging.pairs_to_judge import PairsToJudge, pairs_to_judge
from noisyir.audits.judging.server import has_display, page_alone, serve_page
from noisyir.audits.judging.session import JudgingSession, summary, told_guarantee
from noisyir.audits.judging.terminal import judge_in_terminal
from noisyir.audits.keeping import Keeping
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.locks import held_if_free
from noisyir.engine.provenance import lineage
from noisyir.engine.tables import aligned, matrix


class AuditArguments(NamedTuple):
    """The arguments of `noisyir audit` that say which pairs are audited, and how."""

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

    @property
    def named(self) -> dict[str, str | None]:
        """The arguments that say how the data is read and how detectors judge, by name."""
        return {name: getattr(self, name) for name in ("corpus", "model", "budget", "assume", "split")}

    def with_judgements(self, path: Path) -> str:
        """The command that audits the same pairs by a file of judgements, as a shell takes it."""
        return self._with("--judgements", str(path))

    def to_judge(self) -> str:
        """The command that judges some of the same pairs, as a shell takes it."""
        return self._with("--judge")

    def _with(self, *more: str) -> str:
        named = {name: value for name, value in self._asdict().items() if name not in ("data", "overrides")}
        given = [part for name, value in named.items() if value for part in (f"--{name}", value)]
        return shlex.join(["noisyir", "audit", self.data, *self.overrides, *given, *more])


@dataclass(frozen=True)
class JudgingOptions:
    """Wishes beside an audit's files.

    judgements: files of verdicts.  judge: let a person judge: in the terminal or else on a page; None: on a page where
    there is a display.  name: the judge's, the login name where None.  wrong: say how many pairs to keep so that at
    most this share of them is wrong.  standalone: write a page that judges without a server.
    """

    command: AuditArguments
    judgements: Sequence[str] = ()
    judge: bool = False
    terminal: bool | None = None
    name: str | None = None
    wrong: float | None = None
    standalone: bool = False

    def __post_init__(self) -> None:
        """ConfigError for what makes no sense together."""
        if not self.judge and (self.terminal is not None or self.name is not None):
            raise ConfigError("app.terminal_page_say_how")
        if self.judge and self.standalone:
            raise ConfigError("app.judge_asks_standalone_writes")
        if self.name is not None and self.name.startswith(BY_MODEL):
            raise ConfigError("app.names_person_names_begin", by_model=BY_MODEL)
        if self.wrong is not None and not 0 < self.wrong < 1:
            raise ConfigError("app.keep_wrong_below_share", wrong=self.wrong)

    def run(self, audited: Audited, folder: Path) -> str:
        """Do what is wished for; what came of it, empty where nothing is.

        Without any judgements what may be kept is known under an assumption alone.
        """
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
        return self._kept(audited, known.keeping(audited.table.num_rows), folder)

    def _page_alone(self, audited: Audited, folder: Path) -> str:
        """Write the page for somebody without noisyir; where it is, and how the answers come back."""
        path, command = folder / ALONE, self.command.with_judgements(Path(FILE))
        try:
            path.write_text(page_alone(_pairs(audited), audited.exp.seed, command), encoding="utf-8")
        except OSError as error:
            raise StoreError("app.cannot_write_folder_choose", folder=folder, error=error) from error
        return (
            f"\n{ALONE:<15} {path}\n{'':<15} a page to send: anyone with a browser can judge, and saves {FILE}\n"
            f"{'then':<15} {command}"
        )

    def _kept(self, audited: Audited, keeping: Keeping, folder: Path) -> str:
        """The line that says how many pairs may be kept, and where they are."""
        assert self.wrong is not None
        return f"{told_guarantee(keeping, self.wrong)}\n{self._written(audited, keeping, folder)}".rstrip()

    def _written(self, audited: Audited, keeping: Keeping, folder: Path) -> str:
        """Write the pairs that may be kept; a line that says where, empty where there are none or nobody asked."""
        if self.wrong is None:
            return ""
        (folder / KEPT).unlink(missing_ok=True)
        most = keeping.most(self.wrong)
        return f"{KEPT:<23}{write_kept(audited, most, folder)}" if most else ""

    def _judged(self, audited: Audited, folder: Path) -> str:
        with session_on(audited, folder, self.name) as session:

            def told() -> str:
                command, cleans = self.command.with_judgements(folder / FILE), audited.exp.audited == "train"
                return summary(session, command, self.wrong, cleans=cleans)

            if not has_display() if self.terminal is None else self.terminal:
                judge_in_terminal(session)
            else:
                serve_page(session, folder, told, stdout_console().print)
            session.finish()
            kept = self._written(audited, session.known.keeping(audited.table.num_rows), folder)
            return f"{told()}\n{kept}".rstrip()


FILE, ALONE = "judgements.jsonl", "judge.html"
_FEATURES = "pair_features"


@contextmanager
def session_on(audited: Audited, folder: Path, judge: str | None) -> Iterator[JudgingSession]:
    """A session that writes to the folder's file of judgements and goes on where that ends.

    judge: the name that answers carry; the login name where none is given.  ConfigError while another session writes
    to the same file.
    """
    path = folder / FILE
    folder.mkdir(parents=True, exist_ok=True)
    with held_if_free(path) as free:
        if not free:
            raise ConfigError("app.another_session_writing_finish", path=path)
        pairs = _pairs(audited)
        session = JudgingSession(
            pairs, Journal(path), judge or getpass.getuser(), _learner(audited, pairs), audited.exp.seed
        )
        session.start()
        try:
            yield session
        finally:
            session.finish()
            if not session.journal.answers:
                path.unlink()


def known_from(audited: Audited, files: Sequence[str]) -> Knowledge:
    """Judgements of the audited pairs, from files.  DataError for pairs that were not audited."""
    pairs = _pairs(audited)
    said = read_judgements(files, pairs.audit)
    return _learner(audited, pairs).learn({pairs.row_of[pair]: judged for pair, judged in said.items()})


def _pairs(audited: Audited) -> PairsToJudge:
    return pairs_to_judge(audited.table, audited.outcome.results["audit"].meta.input_refs(), audited.store)


def _learner(audited: Audited, pairs: PairsToJudge) -> OrderLearner:
    _, query = np.unique([query_id for query_id, _ in pairs.ids], return_inverse=True)
    return PairLearner(pairs.scores, _features(audited, pairs), query)


def _features(audited: Audited, pairs: PairsToJudge) -> Float[np.ndarray, "pair feature"] | None:
    """Features of each pair by the detectors behind the audit; None where none of them has any."""
    store = audited.store
    behind = lineage(store, [audited.outcome.kept["audit"]])
    found = [meta.ref(_FEATURES) for meta in behind if _FEATURES in meta.artifacts]
    tables = [store.builds.table(ref, ["query_id", "doc_id", "features"]) for ref in found]
    columns = []
    for table in filter(len, tables):
        columns.append(matrix(aligned(pairs.audit, table, ["query_id", "doc_id"])["features"]))
    return np.column_stack(columns) if columns else None


_LOWEST_SCORE_FIRST = [("score", "ascending"), ("query_id", "ascending"), ("doc_id", "ascending")]


def write_kept(audited: Audited, most: int, folder: Path) -> Path:
    """The `most` audited pairs of the lowest score, with whole texts; one of an earlier audit gives way.

    StoreError where the folder cannot be written to.
    """
    kept = audited.table.sort_by(_LOWEST_SCORE_FIRST).slice(0, most).select(["query_id", "doc_id", "query", "source"])
    read = dict(audited.outcome.results["audit"].meta.input_refs())["corpus"]
    wanted = kept["doc_id"].combine_chunks().unique()
    corpus = audited.store.builds.batches(read, ("doc_id", "title", "text"))
    found = [batch.filter(pc.is_in(batch["doc_id"], value_set=wanted)) for batch in corpus]
    path = folder / KEPT
    try:
        write_pairs(kept, pa.Table.from_batches(found), path)
    except OSError as error:
        raise StoreError("app.cannot_write_folder_choose", folder=folder, error=error) from error
    return path
