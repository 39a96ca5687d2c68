"""What `noisyir audit` does when it is asked to judge, or for a guarantee."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from noisyir.app.console import stdout_console
from noisyir.app.judging.closing import summary, told_guarantee
from noisyir.app.judging.opening import FILE, known_from, session_on
from noisyir.app.judging.serving import has_display, serve_page
from noisyir.app.judging.terminal import judge_in_terminal
from noisyir.app.kept_pairs import write_kept
from noisyir.app.label_audit import KEPT, Audited
from noisyir.auditing.judgements import BY_MODEL
from noisyir.auditing.keeping import Keeping
from noisyir.errors import ConfigError


class AuditCommand(NamedTuple):
    """The arguments of `noisyir audit` that say which pairs are audited, and how."""

    data: str
    overrides: Sequence[str]
    corpus: str | None
    out: str | None
    model: str | None
    budget: str | None
    store: str | None

    def with_judgements(self, path: Path) -> str:
        """The command that audits the same pairs by a file of judgements, as a shell takes it."""
        named = {name: value for name, value in self._asdict().items() if name not in ("data", "overrides")}
        given = [part for name, value in named.items() if value for part in (f"--{name}", value)]
        return shlex.join(["noisyir", "audit", self.data, *self.overrides, *given, "--judgements", str(path)])


@dataclass(frozen=True)
class Wishes:
    """What is wanted of an audit beside its files.

    judgements: files of verdicts.  judge: let a person judge: in the terminal or else on a page; None: on a page where
    there is a display.  name: the judge's, the login name where None.  wrong: say how many pairs to keep so that at
    most this share of them is wrong.
    """

    command: AuditCommand
    judgements: Sequence[str] = ()
    judge: bool = False
    terminal: bool | None = None
    name: str | None = None
    wrong: float | None = None

    def __post_init__(self) -> None:
        """ConfigError for what makes no sense together."""
        if not self.judge and (self.terminal is not None or self.name is not None):
            raise ConfigError("--terminal, --page and --as say how to judge: give them with --judge")
        if self.name is not None and self.name.startswith(BY_MODEL):
            raise ConfigError(f"--as names a person; names that begin with {BY_MODEL} are those of models")
        if self.wrong is not None and not 0 < self.wrong < 1:
            raise ConfigError(f"--keep-wrong-below is a share between 0 and 1, such as 0.05, not {self.wrong}")

    def met(self, audited: Audited, folder: Path) -> str:
        """Do what is wished for; what came of it, empty where nothing is.

        Without any judgements what may be kept rests on made-up pairs.
        """
        if self.judge:
            return self._judged(audited, folder)
        if self.wrong is None:
            return ""
        own = folder / FILE
        if not self.judgements and not own.exists():
            return self._kept(audited, audited.keeping, folder)
        known = known_from(audited, self.judgements or [str(own)])
        return self._kept(audited, known.keeping(audited.table.num_rows), folder)

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
                return summary(session, self.command.with_judgements(folder / FILE), self.wrong)

            if not has_display() if self.terminal is None else self.terminal:
                judge_in_terminal(session)
            else:
                serve_page(session, folder, told, stdout_console().print)
            session.finish()
            kept = self._written(audited, session.learnt.known.keeping(audited.table.num_rows), folder)
            return f"{told()}\n{kept}".rstrip()
