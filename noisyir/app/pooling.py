"""The pools of two experiments' test queries, as people judge them: first documents of all systems, and the labels."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from noisyir.app.comparing import Contestant, contestant
from noisyir.app.lookup import finished_comparison
from noisyir.audits.judgements import Judgements, Pair
from noisyir.base.errors import DataError
from noisyir.data.row_files import RowFile
from noisyir.engine.store import Store
from noisyir.evaluation.corrected import Drawing, Pools, draw, labels_judge, sizes
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.methods import experiments
from noisyir.registry.evaluation import eval_digest, read_evaluation

Array = np.ndarray
DRAWING = "drawing.parquet"
_ABOUT, _SETTING = b"noisyir.drawing", "--chances"
_CHANCES = {"chance": False, "p_clean": False, "p_wrong": True}  # columns, and whether they say the opposite


@dataclass(frozen=True)
class Pooled:
    """Pools of the systems of experiments, in the order of the queries' ids.

    Attributes:
        systems: Each with the side that was scored.
        tops: Each system's documents by query, best first.
        labels: The labels given, by query and document.
    """

    systems: Mapping[str, Contestant]
    tops: Mapping[str, Mapping[str, Sequence[str]]]
    labels: Mapping[str, Mapping[str, int]]

    @cached_property
    def documents(self) -> dict[str, list[str]]:
        """Each query's pool: what a system found, and what is labelled relevant."""
        labelled = {query: {doc for doc, grade in found.items() if grade >= 1} for query, found in self.labels.items()}
        found = {q: {doc for top in self.tops.values() for doc in top.get(q, ())} for q in self.labels}
        return {query: sorted(found[query] | labelled[query]) for query in sorted(self.labels)}

    @cached_property
    def pairs(self) -> list[Pair]:
        """Query and document of each place of the pools, by row."""
        return [(query, doc) for query, pool in self.documents.items() for doc in pool]

    def table(self, value: Mapping[Pair, float], otherwise: float = 0.0) -> Array:
        """The values by query and place in the pool, NaN for padding."""
        table = np.full((len(self.documents), max(map(len, self.documents.values()))), np.nan)
        for row, (query, pool) in enumerate(self.documents.items()):
            table[row, : len(pool)] = [value.get((query, doc), otherwise) for doc in pool]
        return table

    def heads(self, depth: int) -> Array:
        """The place in the pool of each system's documents."""
        heads = np.full((len(self.documents), len(self.tops), depth), -1)
        for row, (query, pool) in enumerate(self.documents.items()):
            place = {doc: number for number, doc in enumerate(pool)}
            for system, top in enumerate(self.tops.values()):
                ids = top.get(query, ())[:depth]
                heads[row, system, : len(ids)] = [place[doc] for doc in ids]
        return heads

    def as_pools(self, measure: PooledMeasure, chances: Mapping[Pair, float]) -> Pools:
        """Pools with these chances; a pair without one gets the chance that labels and ranks give it."""
        labelled = self.table({(q, d): float(g >= 1) for q, found in self.labels.items() for d, g in found.items()})
        given, heads, there = self.table(chances, np.nan), self.heads(measure.depth), ~np.isnan(labelled)
        guessed = labels_judge(there, labelled == 1, heads)
        chance = np.where(there, np.where(np.isnan(given), guessed, given), 0.0)
        return Pools(there, chance, (labelled == 1) & np.isnan(given), heads)


def pooled(store: Store, names: Sequence[str], split: str, depth: int) -> Pooled:
    """The pools of all systems of these experiments.

    Raises:
        DataError: If two systems were not scored by the same judgements, or the split was not scored.
    """
    systems = dict(_systems(store, names))
    metas = {name: store.builds.meta(next(iter(side.scored.values()))) for name, side in systems.items()}
    first, *others = metas
    for other in others:
        if eval_digest(metas[other]) != eval_digest(metas[first]):
            raise DataError("app.other_scoring", first=first, second=other)
    folders = {name: store.builds.folder(meta.ref("trec")) for name, meta in metas.items()}
    if not (folders[first] / f"{split}.qrels").exists():
        raise DataError("app.split_not_scored", split=split, system=first)
    labels: dict[str, dict[str, int]] = {}
    for query, _, doc, grade in _lines(folders[first] / f"{split}.qrels"):
        labels.setdefault(query, {})[doc] = int(grade)
    tops: dict[str, dict[str, list[str]]] = {name: {} for name in systems}
    for name, folder in folders.items():
        for query, _, doc, *_ in _lines(folder / f"{split}.run"):
            if query in labels and len(top := tops[name].setdefault(query, [])) < depth:
                top.append(doc)
    return Pooled(systems, tops, labels)


def _systems(store: Store, names: Sequence[str]) -> Iterator[tuple[str, Contestant]]:
    """All systems of the experiments, those that are named last."""
    asked = [contestant(store, name) for name in names]
    for experiment in dict.fromkeys(name.partition(":")[0] for name in names):
        for system in read_evaluation(store, finished_comparison(store, experiment).results["comparison"]).scored:
            if f"{experiments.name_of(experiment)}:{system}" not in [one.name for one in asked]:
                found = contestant(store, f"{experiment}:{system}")
                yield found.name, found
    yield from ((one.name, one) for one in asked)


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield [unquote(field) for field in line.rstrip("\n").split(" ")]


def given_chances(path: str) -> dict[Pair, float]:
    """A judge's chances to be relevant: query_id, doc_id and chance or p_clean, or p_wrong for one less it.

    Raises:
        DataError: If a column is missing or a value is no chance.
    """
    file = RowFile.open(path, _SETTING)
    column = next((name for name in _CHANCES if name in file.columns), None)
    if column is None or not {"query_id", "doc_id"} <= set(file.columns):
        raise DataError("app.chances_lack_columns", file=path, columns=", ".join(file.columns))
    found: dict[Pair, float] = {}
    for number, row in file.rows(["query_id", "doc_id", column]):
        if row[column] is None:
            continue
        try:
            chance = float(row[column])
        except (TypeError, ValueError):
            chance = -1.0
        if not 0 <= chance <= 1:
            raise DataError("app.bad_chance", place=f"{file.place} {number}", value=row[column])
        found[str(row["query_id"]), str(row["doc_id"])] = 1 - chance if _CHANCES[column] else chance
    return found


def drawn_in(folder: Path, pool: Pooled, measure: PooledMeasure) -> tuple[Pools, Drawing] | None:
    """The drawing that a folder keeps; None if it keeps none.

    Raises:
        DataError: If it is of other systems, or their hits are others now.
    """
    path = folder / DRAWING
    if not path.exists():
        return None
    table = pq.read_table(path)
    about = json.loads((table.schema.metadata or {}).get(_ABOUT, b"{}"))
    pairs = list(zip(table["query_id"].to_pylist(), table["doc_id"].to_pylist(), strict=True))
    if about.get("systems") != list(pool.systems) or about.get("measure") != str(measure) or pairs != pool.pairs:
        raise DataError("app.other_pools", folder=folder, systems=", ".join(about.get("systems", ())))
    chance, label, size, priority = (
        pool.table(dict(zip(pairs, table[name].to_pylist(), strict=True)))
        for name in ("chance", "labelled", "size", "priority")
    )
    there = ~np.isnan(size)
    pools = Pools(there, np.where(there, chance, 0.0), label == 1, pool.heads(measure.depth))
    return pools, Drawing(np.where(there, size, 0.0), np.where(there, priority, np.inf))


def draw_into(
    folder: Path, pool: Pooled, measure: PooledMeasure, chances: Mapping[Pair, float], known: Judgements, seed: int
) -> tuple[Pools, Drawing]:
    """Draw, and keep the drawing; what is known already is not drawn."""
    pools = pool.as_pools(measure, chances)
    drawing = draw(sizes(pools, measure, pool.table({pair: 1.0 for pair in known}) == 1), seed)
    columns = {"chance": pools.chance, "labelled": pools.labelled.astype(float)}
    columns |= {"size": drawing.size, "priority": drawing.priority}
    ids = {"query_id": [query for query, _ in pool.pairs], "doc_id": [doc for _, doc in pool.pairs]}
    table = pa.table(ids | {name: values[pools.pooled] for name, values in columns.items()})
    about = {"systems": list(pool.systems), "measure": str(measure)}
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(table.replace_schema_metadata({_ABOUT: json.dumps(about)}), folder / DRAWING)
    return pools, drawing
