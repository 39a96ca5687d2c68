"""What `noisyir audit` does when it is asked to judge, or for a guarantee."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from noisyir.app.judging.closing import summary, told_guarantee
from noisyir.app.judging.opening import FILE, known_from, session_on
from noisyir.app.label_audit import Audited
from noisyir.errors import ConfigError


class AuditCommand(NamedTuple):
    """The arguments of `noisyir audit` that say which pairs are audited, and how."""

    data: str
    overrides: Sequence[str]
    corpus: str | None
    out: str | None
    model: str | None
    store: str | None

    def with_judgements(self, path: Path) -> str:
        """The command that audits the same pairs by a file of judgements, as a shell takes it."""
        options = {"--corpus": self.corpus, "--out": self.out, "--model": self.model, "--store": self.store}
        given = [part for name, value in options.items() if value for part in (name, value)]
        return shlex.join(["noisyir", "audit", self.data, *self.overrides, *given, "--judgements", str(path)])


def judged(
    audited: Audited,
    folder: Path,
    command: AuditCommand,
    judge: str | None = None,
    terminal: bool | None = None,
    wrong: float | None = None,
) -> str:
    """Let a person judge; what came of it.

    terminal: there, or else on a page; None: on a page where there is a display.  wrong: as `told_guarantee` has it.
    """
    from noisyir.app.judging.serving import has_display, serve_page
    from noisyir.app.judging.terminal import judge_in_terminal

    with session_on(audited, folder, judge) as session:

        def told() -> str:
            return summary(session, command.with_judgements(folder / FILE), wrong)

        if not has_display() if terminal is None else terminal:
            judge_in_terminal(session)
        else:
            serve_page(session, folder, told, announce=lambda line: print(line, flush=True))
        session.finish()
        return told()


def guaranteed(audited: Audited, files: Sequence[str], folder: Path, wrong: float) -> str:
    """How many pairs to keep so that at most this share of them is wrong.

    files: of judgements; without any, those of the folder's own session.  ConfigError where there are none.
    """
    own = folder / FILE
    if not files and not own.exists():
        raise ConfigError("--keep-wrong-below rests on judgements: give --judgements FILE, or --judge first")
    return told_guarantee(known_from(audited, files or [str(own)]), wrong, audited.table.num_rows)
