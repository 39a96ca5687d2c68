"""From a finished audit to a session over its pairs, and to what is known at its end."""

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from noisyir.app.judging.journal import Journal
from noisyir.app.judging.learning import Known, Learner
from noisyir.app.judging.pairs import PairsToJudge, pairs_to_judge
from noisyir.app.judging.sample_learner import SampleLearner
from noisyir.app.judging.session import JudgingSession
from noisyir.app.label_audit import Audited
from noisyir.engine.locks import held_if_free
from noisyir.errors import ConfigError
from noisyir.verdicts.judgements import read_judgements

FILE = "judgements.jsonl"


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
            raise ConfigError(f"another session is writing to {path}: finish it first, or choose another --out")
        pairs = _pairs(audited)
        session = JudgingSession(pairs, Journal(path), judge or getpass.getuser(), _learner(pairs), audited.exp.seed)
        session.start()
        try:
            yield session
        finally:
            session.finish()
            if not session.journal.answers:
                path.unlink()


def known_from(audited: Audited, files: Sequence[str]) -> Known:
    """What files of judgements tell of the audited pairs.  DataError for pairs that were not audited."""
    pairs = _pairs(audited)
    said = read_judgements(files, pairs.audit)
    return _learner(pairs).learn({pairs.row_of[pair]: judged for pair, judged in said.items()}, 0).known


def _pairs(audited: Audited) -> PairsToJudge:
    return pairs_to_judge(audited.table, audited.outcome.results["audit"].meta.input_refs(), audited.store)


def _learner(pairs: PairsToJudge) -> Learner:
    return SampleLearner(pairs.scores)
