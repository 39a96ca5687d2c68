"""Queries that a system wins and loses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Change:
    """A query, one relevant document, its rank in every system (None: not retrieved) and the gain in the measure.

    doc_id is None if the query is scored by its answers alone.
    """

    query_id: str
    doc_id: str | None
    ranks: tuple[int | None, ...]
    gain: float


@dataclass(frozen=True)
class RankChanges:
    """The largest gains and the largest losses of a system over a baseline, on one measure and split."""

    system: str
    baseline: str
    wins: list[Change]
    losses: list[Change]

    def all(self) -> list[Change]:
        """Gains first, then losses."""
        return [*self.wins, *self.losses]


def largest_changes(
    values: Mapping[str, Mapping[str, float]],
    runs: Mapping[str, pa.Table],
    qrels: pa.Table,
    *,
    system: str,
    baseline: str,
    count: int,
) -> RankChanges:
    """The `count` queries that gain most and lose most from `baseline` to `system`; equal gains by query id.

    `values` are by system and query id.  The document shown is the relevant one that any system ranks highest.
    """
    query_ids = sorted(values[system])
    gains = np.array([values[system][query_id] - values[baseline][query_id] for query_id in query_ids])
    order = np.argsort(-gains, kind="stable")
    best = [place for place in order[:count] if gains[place] > 0]
    worst = [place for place in np.argsort(gains, kind="stable")[:count] if gains[place] < 0]
    ranks = _relevant_ranks([query_ids[place] for place in (*best, *worst)], runs, qrels)

    def change(place: int) -> Change:
        of_query = ranks.get(query_ids[place])
        if of_query is None:
            return Change(query_ids[place], None, (), float(gains[place]))
        doc_id = min(of_query, key=lambda doc_id: (min((r for r in of_query[doc_id] if r), default=np.inf), doc_id))
        return Change(query_ids[place], doc_id, of_query[doc_id], float(gains[place]))

    return RankChanges(system, baseline, [change(place) for place in best], [change(place) for place in worst])


def _relevant_ranks(
    query_ids: Sequence[str], runs: Mapping[str, pa.Table], qrels: pa.Table
) -> dict[str, dict[str, tuple[int | None, ...]]]:
    """Ranks in each run, by query id and relevant document id."""
    wanted = pa.array(query_ids, pa.string())
    places: list[dict[tuple[str, str], int]] = []
    for run in runs.values():
        rows = run.filter(pc.is_in(run["query_id"], wanted))
        columns = (rows[name].to_pylist() for name in ("query_id", "doc_id", "rank"))
        places.append({(query_id, doc_id): rank for query_id, doc_id, rank in zip(*columns, strict=True)})
    relevant = qrels.filter(pc.and_(pc.is_in(qrels["query_id"], wanted), pc.greater_equal(qrels["relevance"], 1)))
    found: dict[str, dict[str, tuple[int | None, ...]]] = {}
    for query_id, doc_id in zip(relevant["query_id"].to_pylist(), relevant["doc_id"].to_pylist(), strict=True):
        found.setdefault(query_id, {})[doc_id] = tuple(ranks.get((query_id, doc_id)) for ranks in places)
    return found
