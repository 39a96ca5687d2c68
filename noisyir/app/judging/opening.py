"""From a finished audit to a session over its pairs, and to what is known at its end."""

import getpass
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from jaxtyping import Float

from noisyir.app.judging.journal import Journal
from noisyir.app.judging.learner import PairLearner
from noisyir.app.judging.learning import Known, Learner
from noisyir.app.judging.pairs import PairsToJudge, pairs_to_judge
from noisyir.app.judging.session import JudgingSession
from noisyir.app.label_audit import Audited
from noisyir.auditing.judgements import Pair, read_judgements
from noisyir.engine.locks import held_if_free
from noisyir.engine.provenance import lineage
from noisyir.engine.tables import pair_ids, read_parts
from noisyir.errors import ConfigError

FILE = "judgements.jsonl"
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
            raise ConfigError(f"another session is writing to {path}: finish it first, or choose another --out")
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


def known_from(audited: Audited, files: Sequence[str]) -> Known:
    """What files of judgements tell of the audited pairs.  DataError for pairs that were not audited."""
    pairs = _pairs(audited)
    said = read_judgements(files, pairs.audit)
    return _learner(audited, pairs).learn({pairs.row_of[pair]: judged for pair, judged in said.items()}, 0).known


def _pairs(audited: Audited) -> PairsToJudge:
    return pairs_to_judge(audited.table, audited.outcome.results["audit"].meta.input_refs(), audited.store)


def _learner(audited: Audited, pairs: PairsToJudge) -> Learner:
    _, query = np.unique([query_id for query_id, _ in pairs.ids], return_inverse=True)
    return PairLearner(pairs.scores, _features(audited, pairs), query)


def _features(audited: Audited, pairs: PairsToJudge) -> Float[np.ndarray, "pair feature"] | None:
    """What the detectors behind the audit say of each pair beside their scores; None where none of them says more."""
    store = audited.store
    behind = lineage(store, [audited.outcome.kept["audit"]])
    found = [meta.ref(_FEATURES) for meta in behind if _FEATURES in meta.artifacts]
    tables = [read_parts(store.fs, store.parts(ref), ["query_id", "doc_id", "features"]) for ref in found]
    columns = []
    for table in filter(len, tables):
        values = np.stack(table["features"].to_numpy())
        columns.append(values[_places(pair_ids(table), pairs.ids)])
    return np.column_stack(columns).astype(np.float64) if columns else None


def _places(listed: Sequence[Pair], wanted: Sequence[Pair]) -> list[int]:
    place = {pair: number for number, pair in enumerate(listed)}
    return [place[pair] for pair in wanted]
