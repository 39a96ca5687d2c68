"""Pools of two experiments' queries, with the first documents of all their systems, and a drawing from them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

import numpy as np

from noisyir.app.comparing import Contestant, contestant
from noisyir.app.lookup import finished_comparison
from noisyir.base.errors import DataError
from noisyir.data.row_files import RowFile
from noisyir.detection.judgements import Judgements, Pair
from noisyir.engine.store import Store
from noisyir.evaluation.corrected import Drawing, Pools, draw, labels_judge, sizes
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.registry.evaluation import eval_digest, read_evaluation

Array = np.ndarray
DEPTH, DRAWING = 10, "drawing.npz"
DRAWN_BY = PooledMeasure("nDCG", DEPTH)
_RELEVANT = {"clean": 1.0, "wrong": 0.0, "unclear": np.nan}


@dataclass(frozen=True)
class Pooled:
    """Each system's first documents by query, best first, and the labels given; `named` are the two to compare."""

    named: Sequence[str]
    systems: Mapping[str, Contestant]
    tops: Mapping[str, Mapping[str, Sequence[str]]]
    labels: Mapping[str, Mapping[str, int]]

    @cached_property
    def documents(self) -> dict[str, list[str]]:
        """Each query's pool: documents that a system found or a label calls relevant."""
        found = {query: {doc for doc, grade in docs.items() if grade >= 1} for query, docs in self.labels.items()}
        return {q: sorted(found[q].union(*(top.get(q, ()) for top in self.tops.values()))) for q in sorted(found)}

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

    def right(self, said: Judgements) -> Array:
        """People's verdict on each document: 1, 0 or NaN for unsure; -1 without a verdict."""
        return self.table({pair: _RELEVANT[one.verdict] for pair, one in said.items()}, -1.0)

    @cached_property
    def labelled(self) -> Array:
        """Whether a label calls each document relevant, 1 or 0; NaN for padding."""
        return self.table({(q, d): float(g >= 1) for q, docs in self.labels.items() for d, g in docs.items()})

    @cached_property
    def heads(self) -> Array:
        """The place in the pool of each system's documents, -1 past the last."""
        heads = np.full((len(self.documents), len(self.tops), DEPTH), -1)
        for row, (query, pool) in enumerate(self.documents.items()):
            for system, top in enumerate(self.tops.values()):
                ids = top.get(query, ())
                heads[row, system, : len(ids)] = [pool.index(doc) for doc in ids]
        return heads


def pooled(store: Store, names: Sequence[str], split: str) -> Pooled:
    """The pools of all systems of these experiments.

    Raises:
        DataError: If two systems were not scored by the same judgements, or the split was not scored.
    """
    asked = [contestant(store, name) for name in names]
    systems = {one.name: one for one in sorted([*asked, *_others(store, names)], key=lambda one: one.name)}
    metas = {name: store.builds.meta(next(iter(side.scored.values()))) for name, side in systems.items()}
    digests = {name: eval_digest(meta) for name, meta in metas.items()}
    first = next(iter(systems))
    if other := next((name for name in systems if digests[name] != digests[first]), None):
        raise DataError("app.other_scoring", first=first, second=other)
    folders = {name: store.builds.folder(meta.ref("trec")) for name, meta in metas.items()}
    if not (folders[first] / f"{split}.qrels").exists():
        raise DataError("app.split_not_scored", split=split, system=first)
    labels: dict[str, dict[str, int]] = {}
    for query, _, doc, grade in _lines(folders[first] / f"{split}.qrels"):
        labels.setdefault(query, {})[doc] = int(grade)
    tops: dict[str, dict[str, list[str]]] = {name: {query: [] for query in labels} for name in systems}
    for name, folder in folders.items():
        for query, _, doc, rank, *_ in _lines(folder / f"{split}.run"):
            if query in labels and int(rank) <= DEPTH:
                tops[name][query].append(doc)
    return Pooled([one.name for one in asked], systems, tops, labels)


def _others(store: Store, names: Sequence[str]) -> Iterator[Contestant]:
    for experiment in dict.fromkeys(name.partition(":")[0] for name in names):
        for system in read_evaluation(store, finished_comparison(store, experiment).results["comparison"]).scored:
            yield contestant(store, f"{experiment}:{system}")


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield [unquote(field) for field in line.rstrip("\n").split(" ")]


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
        try:
            chance = float(row[column])
        except (TypeError, ValueError):
            chance = -1.0
        if not 0 <= chance <= 1:
            raise DataError("app.bad_chance", place=f"{file.place} {number}", column=column, value=row[column])
        found[str(row["query_id"]), str(row["doc_id"])] = chance
    return found


@dataclass(frozen=True)
class Drawn:
    """A drawing that is kept in a folder; `known` are the verdicts from before it, as in `Pooled.right`."""

    pools: Pools
    drawing: Drawing
    known: Array


def drawn_in(folder: Path, pool: Pooled) -> Drawn | None:
    """The drawing that a folder keeps; None if it keeps none.

    Raises:
        DataError: If it is of other systems, or their hits are others now.
    """
    if not (folder / DRAWING).exists():
        return None
    with np.load(folder / DRAWING) as found:
        tables = dict(found)
    pairs = list(map(tuple, tables["pairs"].tolist()))
    if tables["systems"].tolist() != [*pool.systems] or pairs != pool.pairs or (tables["heads"] != pool.heads).any():
        raise DataError("app.other_pools", folder=folder, systems=", ".join(tables["systems"]))
    pools = Pools(*(tables[name] for name in ("pooled", "chance", "labelled", "heads")))
    return Drawn(pools, Drawing(tables["size"], tables["priority"]), tables["known"])


def draw_into(folder: Path, pool: Pooled, chances: Mapping[Pair, float], known: Judgements, seed: int = 0) -> Drawn:
    """Draw and keep the drawing; a pair without a chance gets the chance that labels and ranks give it."""
    given, there, labelled = pool.table(chances, np.nan), ~np.isnan(pool.labelled), pool.labelled == 1
    guessed = labels_judge(there, labelled, pool.heads)
    chance = np.where(there, np.where(np.isnan(given), guessed, given), 0.0)
    pools, right = Pools(there, chance, labelled & np.isnan(given), pool.heads), pool.right(known)
    drawing = draw(sizes(pools, DRAWN_BY, right != -1), seed)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {"systems": np.array([*pool.systems]), "pairs": np.array(pool.pairs), "known": right}
    np.savez_compressed(folder / DRAWING, allow_pickle=False, **tables, **vars(pools), **vars(drawing))
    return Drawn(pools, drawing, right)
