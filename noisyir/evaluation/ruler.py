"""Pools of test queries, and systems by the labels, by a judge, and corrected by people's judgements of the pools."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import Self
from urllib.parse import unquote

import numpy as np

from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import number, percent, signed
from noisyir.data.text_files import DAMAGED
from noisyir.detection.judgements import Judgements, Pair, given_judgements, judgements_digest, pairs_with_verdicts
from noisyir.engine.meta import Ref
from noisyir.engine.provenance import files_digest
from noisyir.engine.store import Store
from noisyir.evaluation.corrected import (
    Corrected,
    Drawing,
    Pools,
    calibrated,
    corrected,
    draw,
    labels_judge,
    outlook,
    sizes,
)
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.evaluation.significance import Difference, mean_by_t

Array = np.ndarray
DRAWING, SHEET, ANSWERS = "drawing.npz", "sample.csv", "judgements.jsonl"
_TABLES = ("systems", "pairs", "known", "pooled", "chance", "labelled", "heads", "size", "priority")  # of a drawing
DEPTH = 10
DRAWN_BY = PooledMeasure("nDCG", DEPTH)
_MEASURES = (DRAWN_BY, *(PooledMeasure(kind, DEPTH) for kind in ("RR", "R", "P")))
_HEADINGS = ("measure", "system", "by labels", "its interval", "corrected", "95 % interval", "by judge",
             f"Judged@{DEPTH}")  # fmt: skip
_RELEVANT = {"clean": 1.0, "wrong": 0.0, "unclear": np.nan}
_LESS_JUDGED = 0.8  # of another system's share of judged documents: worth a warning


@dataclass(frozen=True)
class Pooled:
    """Each system's first documents by query, best first, and the labels given; `named` are the two to compare."""

    named: Sequence[str]
    tops: Mapping[str, Mapping[str, Sequence[str]]]
    labels: Mapping[str, Mapping[str, int]]

    @property
    def systems(self) -> list[str]:
        """Names of the systems."""
        return [*self.tops]

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


def pooled(store: Store, scored: Mapping[str, Ref], named: Sequence[str], split: str = "test") -> Pooled:
    """The pools of systems that were scored by the same labels.

    Args:
        named: The two systems to compare.

    Raises:
        DataError: If the split was not scored.
    """
    folders = {name: store.builds.folder(store.builds.meta(ref).ref("trec")) for name, ref in scored.items()}
    first = next(iter(folders))
    if not (folders[first] / f"{split}.qrels").exists():
        raise DataError("evaluation.split_not_scored", split=split, system=first)
    labels: dict[str, dict[str, int]] = {}
    for query, _, doc, grade in _lines(folders[first] / f"{split}.qrels"):
        labels.setdefault(query, {})[doc] = int(grade)
    tops: dict[str, dict[str, list[str]]] = {name: {query: [] for query in labels} for name in scored}
    for name, folder in folders.items():
        for query, _, doc, rank, *_ in _lines(folder / f"{split}.run"):
            if query in labels and int(rank) <= DEPTH:
                tops[name][query].append(doc)
    return Pooled(named, tops, labels)


def _lines(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8", newline="\n") as lines:
        for line in lines:
            yield [unquote(field) for field in line.rstrip("\n").split(" ")]


@dataclass(frozen=True)
class Drawn:
    """A drawing as it is kept in a file; `known` are the verdicts from before it, as in `Pooled.right`."""

    systems: list[str]
    pairs: list[Pair]
    pools: Pools
    drawing: Drawing
    known: Array

    @classmethod
    def read(cls, path: Path) -> Self:
        """The drawing in a file.

        Raises:
            DataError: If the file is damaged, or holds something else.
        """
        faults = *DAMAGED, ValueError, KeyError, TypeError
        unreadable = DataError.wrapping("evaluation.unreadable_drawing", *faults, file=path, folder=path.parent)
        with unreadable, np.load(path) as found:
            tables = {name: found[name] for name in _TABLES}
        pools = Pools(*(tables[name] for name in ("pooled", "chance", "labelled", "heads")))
        drawing = Drawing(tables["size"], tables["priority"])
        return cls(tables["systems"].tolist(), [*map(tuple, tables["pairs"].tolist())], pools, drawing, tables["known"])

    def is_of(self, pool: Pooled) -> bool:
        """Whether its systems and their hits are those in the pools."""
        same = self.systems == pool.systems and self.pairs == pool.pairs
        return same and np.array_equal(self.pools.heads, pool.heads)

    def with_others(self, pool: Pooled) -> Pooled:
        """The pools with all drawn systems: others than the pools' own have the hits that were drawn from."""
        documents: dict[str, list[str]] = {}
        for query, doc in self.pairs:
            documents.setdefault(query, []).append(doc)
        tops: dict[str, dict[str, list[str]]] = {name: {} for name in self.systems}
        for (query, docs), heads in zip(documents.items(), self.pools.heads, strict=True):
            for top, row in zip(tops.values(), heads.tolist(), strict=True):
                top[query] = [docs[place] for place in row if place >= 0]
        return replace(pool, tops=tops | dict(pool.tops))


def draw_into(path: Path, pool: Pooled, chances: Mapping[Pair, float], known: Judgements, seed: int = 0) -> Drawn:
    """Draw and keep the drawing; a pair without a chance gets the chance that labels and ranks give it."""
    given, there, labelled = pool.table(chances, np.nan), ~np.isnan(pool.labelled), pool.labelled == 1
    guessed = labels_judge(there, labelled, pool.heads)
    chance = np.where(there, np.where(np.isnan(given), guessed, given), 0.0)
    pools, right = Pools(there, chance, labelled & np.isnan(given), pool.heads), pool.right(known)
    drawing = draw(sizes(pools, DRAWN_BY, right != -1), seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = {"systems": np.array(pool.systems), "pairs": np.array(pool.pairs), "known": right}
    np.savez_compressed(path, allow_pickle=False, **tables, **vars(pools), **vars(drawing))
    return Drawn(pool.systems, pool.pairs, pools, drawing, right)


def answers_in(folder: Path) -> Judgements:
    """People's verdicts in a folder of pools, on its sheet or of its page."""
    files = _answered(folder)
    return given_judgements(files) if files else {}


def pools_digest(folder: str | None) -> str | None:
    """A hash of a folder's drawing and verdicts, part of a stage's key; None without a folder.

    Raises:
        ConfigError: If it lacks one of them.
    """
    if folder is None:
        return None
    place, files = Path(folder), _answered(Path(folder))
    if not files or not (place / DRAWING).is_file():
        raise ConfigError("evaluation.no_judged_pools", folder=folder, sheet=place / SHEET)
    return f"{files_digest(place, [place / DRAWING])} {judgements_digest(files)}"


def _answered(folder: Path) -> list[str]:
    return [str(path) for path in (folder / SHEET, folder / ANSWERS) if path.exists() and pairs_with_verdicts(path)]


@dataclass(frozen=True)
class Ruler:
    """Systems with their pools, and what people said of them."""

    pool: Pooled
    drawn: Drawn
    said: Judgements

    @cached_property
    def right(self) -> Array:
        """1, 0 or NaN for unsure; -1 without a verdict."""
        return np.where(self.drawn.known == -1, self.pool.right(self.said), self.drawn.known)

    @cached_property
    def judged(self) -> Array:
        """The chance with which each document was judged, 0 if it does not count."""
        return self.drawn.drawing.chances(self.right != -1)

    @cached_property
    def chance(self) -> Array:
        """The judge's chances, after a lesson by what people said."""
        return calibrated(self.drawn.pools, self.judged, self.right)

    def corrected(self, measure: PooledMeasure) -> Corrected:
        """Every query's corrected values."""
        return corrected(self.drawn.pools, measure, self.drawn.drawing, self.right, self.judged, self.chance)

    def by_labels(self, measure: PooledMeasure) -> Array:
        """Every query's value of each system by the labels given."""
        return np.asarray(measure.values(np.nan_to_num(self.pool.labelled), self.pool.heads))

    @cached_property
    def share_judged(self) -> Array:
        """The share of each system's first documents that a label or a person judged: Judged@k."""
        labels = self.pool.table({(query, doc): 1.0 for query, docs in self.pool.labels.items() for doc in docs})
        known, heads = (labels == 1) | (self.right != -1), self.pool.heads
        found = np.take_along_axis(known[:, None, :], np.maximum(heads, 0), axis=2) & (heads >= 0)
        return np.asarray(found.sum(axis=(0, 2)) / np.maximum((heads >= 0).sum(axis=(0, 2)), 1))

    def rows(self) -> list[list[str]]:
        """A row for each measure and system with 95 % intervals, headings first."""
        rows = [[*_HEADINGS]]
        systems = np.eye(len(self.pool.systems))
        for measure in _MEASURES:
            labels, found = self.by_labels(measure), self.corrected(measure)
            judge = measure.values(self.chance, self.pool.heads).mean(axis=0)
            for place, name in enumerate(self.pool.systems):
                by = _level(mean_by_t(labels[:, place], max(len(labels) - 1, 1)))
                told = _level(found.interval(systems[place])) if found.queries > 1 else ["", ""]
                share = percent(self.share_judged[place])
                rows.append([str(measure), name, *by, *told, number(judge[place]), share])
        return rows

    @cached_property
    def turned(self) -> str | None:
        """The systems that corrected values order otherwise than labels do, by their intervals; None if none is."""
        names, found, labels = self.pool.systems, self.corrected(DRAWN_BY), self.by_labels(DRAWN_BY).mean(axis=0)
        systems, turned = np.eye(len(names)), []
        for one, other in combinations(range(len(names)), 2):
            test = found.interval(systems[other] - systems[one])
            better, worse = (other, one) if test.mean > 0 else (one, other)
            if test.low * test.high > 0 and (labels[other] - labels[one]) * test.mean <= 0:
                turned.append(f"{names[better]} is above {names[worse]}")
        return f"Judgements change the order: {', '.join(turned)}." if turned and found.queries > 1 else None

    def told(self) -> Iterator[str]:
        """The result in sentences."""
        names, found, labels = self.pool.systems, self.corrected(DRAWN_BY), self.by_labels(DRAWN_BY).mean(axis=0)
        systems, (first, second) = np.eye(len(names)), map(names.index, self.pool.named)
        if found.queries > 1:
            test = found.interval(systems[second] - systems[first])
            by_labels = signed(labels[second] - labels[first])
            yield (f"{names[second]} less {names[first]}, {DRAWN_BY}: {by_labels} by the labels, {signed(test.mean)} "
                   f"[{signed(test.low)}, {signed(test.high)}] corrected by {found.judgements:,} "
                   f"judgements on {found.queries:,} of {len(self.right):,} queries.")  # fmt: skip
            yield self.turned or "No order of systems is shown to change."
        else:
            yield self._outlook(systems[second] - systems[first], f"{names[second]} from {names[first]}")
        share = self.share_judged
        least, most = int(share.argmin()), int(share.argmax())
        if share[least] < _LESS_JUDGED * share[most]:
            yield (f"Warning: {percent(share[least])} of {names[least]}'s documents are judged, and "
                   f"{percent(share[most])} of {names[most]}'s: the labels are unfair to the first.")  # fmt: skip

    def _outlook(self, weights: Array, both: str) -> str:
        found, pooled = outlook(self.drawn.pools, DRAWN_BY, self.drawn.drawing, weights), len(self.pool.pairs)
        if found.judgements:
            return f"About {found.judgements:,} judgements of {pooled:,} documents tell {both}, if the judge is right."
        more = f"that takes about {found.queries:,} test queries" if found.queries else "it sees no difference"
        return f"Judging all {pooled:,} documents would not tell {both}, if the judge is right: {more}."

    @cached_property
    def relevant(self) -> dict[Pair, bool]:
        """People's decided verdicts, also those from before the drawing."""
        said = zip(self.pool.pairs, self.right[self.drawn.pools.pooled].tolist(), strict=True)
        return {pair: now == 1 for pair, now in said if now in (0, 1)}

    def open_rows(self, at_once: int) -> list[int]:
        """Pairs without an answer, in the order drawn by rounds: by query, its documents in random order."""
        priority = self.drawn.drawing.priority[self.drawn.pools.pooled]
        nobody = (self.right == -1)[self.drawn.pools.pooled]
        rows = [row for row in np.argsort(priority, kind="stable").tolist() if nobody[row]]
        mixed = np.random.default_rng(0).permutation(len(priority))
        parts = (rows[start : start + at_once] for start in range(0, len(rows), max(at_once, 1)))
        return [row for part in parts for row in sorted(part, key=lambda row: (self.pool.pairs[row][0], mixed[row]))]


def _level(test: Difference) -> list[str]:
    mean, low, high = (number(min(max(value, 0.0), 1.0)) for value in test[:3])  # few judgements correct beyond these
    return [mean, f"[{low}, {high}]"]
