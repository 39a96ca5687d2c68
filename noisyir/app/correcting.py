"""`noisyir compare --corrected`: people judge pools of two experiments' systems, on a sheet or a page."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyir.app.after_audit import session_on
from noisyir.app.comparing import Contestant, contestant, shown_texts
from noisyir.app.console import stdout_console
from noisyir.app.lookup import finished_comparison
from noisyir.audits.files import write_csv
from noisyir.audits.judging.learning import Knowledge
from noisyir.audits.judging.pairs_to_judge import PairsToJudge
from noisyir.audits.judging.server import serve_page
from noisyir.audits.judging.session import BATCH, RandomOrder
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.row_files import RowFile
from noisyir.data.spelt import number_in
from noisyir.detection.judgements import HumanJudgement, Pair, given_judgements, pairs_with_verdicts
from noisyir.engine.store import Store
from noisyir.evaluation.recommendation import scored_systems
from noisyir.evaluation.ruler import ANSWERS, DRAWING, SHEET, Drawn, Pooled, Ruler, answers_in, draw_into, pooled
from noisyir.registry.evaluation import eval_digest


def ruler(
    store: Store, names: Sequence[str], folder: Path, judgements: Sequence[str] = (), chances: str | None = None
) -> Ruler:
    """Pool the systems, draw unless the folder keeps a drawing, and read what people said.

    Args:
        judgements: Files of verdicts that are known before the drawing, as from an audit of the split.
        chances: File of a judge's chances.

    Raises:
        ConfigError: If the folder keeps a drawing, and verdicts or chances for a new one are given.
        DataError: If its drawing is of other pools.
    """
    pool, known = pools_of(store, names), given_judgements(judgements) if judgements else {}
    if not (folder / DRAWING).exists():
        drawn = draw_into(folder / DRAWING, pool, given_chances(chances) if chances else {}, known)
    elif not (drawn := Drawn.read(folder / DRAWING)).is_of(pool):
        raise DataError("app.other_pools", folder=folder, systems=", ".join(drawn.systems))
    elif chances or known:
        raise ConfigError("app.drawn_already", folder=folder)
    return Ruler(pool, drawn, {**known, **answers_in(folder)})


def pools_of(store: Store, names: Sequence[str]) -> Pooled:
    """The pools of all systems of these experiments.

    Raises:
        DataError: If two systems were not scored by the same judgements, or the test split was not scored.
    """
    asked = [contestant(store, name) for name in names]
    systems = {one.name: one for one in sorted([*asked, *_others(store, names)], key=lambda one: one.name)}
    scored = {name: next(iter(side.scored.values())) for name, side in systems.items()}
    digests = {name: eval_digest(store.builds.meta(ref)) for name, ref in scored.items()}
    first = next(iter(systems))
    if other := next((name for name in systems if digests[name] != digests[first]), None):
        raise DataError("app.other_scoring", first=first, second=other)
    return pooled(store, scored, [one.name for one in asked])


def _others(store: Store, names: Sequence[str]) -> Iterator[Contestant]:
    for experiment in dict.fromkeys(name.partition(":")[0] for name in names):
        for system in scored_systems(store, finished_comparison(store, experiment).results["comparison"]):
            yield contestant(store, f"{experiment}:{system}")


def given_chances(path: str) -> dict[Pair, float]:
    """A judge's chances that documents are relevant: query_id, doc_id and chance, or p_clean of an audit.

    Raises:
        DataError: If a column is missing or a value is no chance.
    """
    file, found = RowFile.open(path, "--chances"), dict[Pair, float]()
    column = "chance" if "chance" in file.columns else "p_clean"
    if not {"query_id", "doc_id", column} <= {*file.columns}:
        raise DataError("app.chances_lack_columns", file=path, columns=", ".join(file.columns))
    for number, row in file.rows(["query_id", "doc_id", column]):
        if row[column] in (None, ""):
            continue
        if (chance := number_in(row[column])) is None or not 0 <= chance <= 1:
            raise DataError("app.bad_chance", place=f"{file.place} {number}", column=column, value=row[column])
        found[str(row["query_id"]), str(row["doc_id"])] = chance
    return found


def write_sheet(store: Store, found: Ruler, folder: Path, count: int) -> Path | None:
    """Write the documents to judge next; None if the sheet there has verdicts."""
    path = folder / SHEET
    if path.exists() and pairs_with_verdicts(path):
        return None
    asked = _to_judge(store, found, found.open_rows(count)[:count])
    write_csv([asked.append_column("verdict", pa.repeat("", asked.num_rows))], path)
    return path


def _to_judge(store: Store, found: Ruler, rows: Sequence[int]) -> pa.Table:
    pairs = [found.pool.pairs[row] for row in rows]
    asked, texts = shown_texts(store, contestant(store, found.pool.named[0]), [doc for _, doc in pairs])
    columns = zip(*((query, doc, asked[query], texts.get(doc, "")) for query, doc in pairs), strict=True)
    names = ("query_id", "doc_id", "query", "document")
    return pa.table({name: pa.array(values, pa.string()) for name, values in zip(names, columns, strict=True)})


@dataclass(frozen=True)
class _Learner:
    """Computes the result of the answers so far."""

    found: Ruler
    pairs: PairsToJudge

    def learn(self, judged: Mapping[int, HumanJudgement]) -> Knowledge:
        """As `OrderLearner`."""
        said = {self.pairs.ids[row]: one for row, one in judged.items()}
        return Knowledge(advice=" ".join(replace(self.found, said={**self.found.said, **said}).told()))


def judge_on_page(store: Store, found: Ruler, folder: Path) -> None:
    """Serve the page of judging for the pools, by rounds, until it is finished or interrupted."""
    every = _to_judge(store, found, range(len(found.pool.pairs)))
    every = every.append_column("score", pa.repeat(0.0, every.num_rows))
    pairs, order = PairsToJudge(every, {}, lambda wanted: {}), found.open_rows(BATCH)
    drawn = RandomOrder(np.array(order, np.int64), np.full(len(order), np.nan))
    with session_on(folder / ANSWERS, pairs, _Learner(found, pairs), order=drawn) as session:
        serve_page(session, folder, lambda: session.known.advice, stdout_console().print)
