"""`noisyir compare --corrected`: values of systems by labels, by a judge, and corrected by people's judgements."""

import getpass
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyir.app.comparing import texts_of_systems
from noisyir.app.pooling import Pooled, draw_into, drawn_in, given_chances, pooled
from noisyir.audits.files import write_csv, write_jsonl
from noisyir.audits.judgements import Judgements, given_judgements, has_verdicts
from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.learning import Knowledge
from noisyir.audits.judging.pairs_to_judge import PairsToJudge
from noisyir.audits.judging.server import serve_page
from noisyir.audits.judging.session import JudgingSession, RandomOrder
from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import number, signed
from noisyir.engine.locks import held_if_free
from noisyir.engine.store import Store
from noisyir.evaluation.corrected import Corrected, Drawing, Pools, calibrated, corrected, judgements_needed, queries_needed
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.evaluation.significance import Difference
from noisyir.retrieval.trec import write_qrels

Array = np.ndarray
SHEET, ANSWERS, MENDED, LOG = "sample.csv", "judgements.jsonl", "mended.qrels", "mended_log.jsonl"
_MEASURES, _FIRST, _ROUND = ("nDCG@10", "RR@10", "R@10", "P@10"), 100, 50
_LESS_JUDGED = 0.8  # of another system's share of judged hits: worth a warning
_VALUE = {"clean": 1.0, "wrong": 0.0, "unclear": np.nan}


@dataclass(frozen=True)
class Ruler:
    """Two systems among all of their experiments, and what people said of the pools in a folder."""

    pool: Pooled
    pools: Pools
    drawing: Drawing
    folder: Path
    said: Judgements

    @property
    def names(self) -> list[str]:
        """Of the systems, the two that are compared last."""
        return list(self.pool.systems)

    @property
    def measures(self) -> list[PooledMeasure]:
        """The first one decides what is drawn."""
        return [PooledMeasure.parse(name) for name in _MEASURES]

    @cached_property
    def right(self) -> Array:
        """What people say of each document: 1, 0, or NaN for unsure."""
        return self.pool.table({pair: _VALUE[said.verdict] for pair, said in self.said.items()})

    @cached_property
    def judged(self) -> Array:
        """The chance with which each document was judged, 0 if it does not count."""
        return self.drawing.chances(self.pool.table({pair: 1.0 for pair in self.said}) == 1)

    def by_labels(self, measure: PooledMeasure) -> Array:
        """Each system's value by the labels given."""
        rows = self.pool.labels.items()
        grades = self.pool.table({(query, doc): float(g >= 1) for query, found in rows for doc, g in found.items()})
        return np.asarray(measure.values(np.nan_to_num(grades), self.pools.heads).mean(axis=0))

    def by_judge(self, measure: PooledMeasure) -> Array:
        """Each system's value by the judge alone, who is taught by what people said."""
        return np.asarray(measure.values(self._chance, self.pools.heads).mean(axis=0))

    def corrected(self, measure: PooledMeasure) -> Corrected:
        """Every query's corrected values."""
        return corrected(self.pools, measure, self.drawing, self.right, self.judged, self._chance)

    @cached_property
    def _chance(self) -> Array:
        return calibrated(self.pools, self.judged, self.right)

    def is_judged(self, depth: int) -> Array:
        """The share of each system's first documents that a label or a person judged: Judged@k."""
        pairs = {(query, doc): 1.0 for query, found in self.pool.labels.items() for doc in found}
        known = self.pool.table(pairs | {pair: 1.0 for pair in self.said}) == 1
        heads = self.pools.heads[..., :depth]
        found = np.take_along_axis(known[:, None, :], np.maximum(heads, 0), axis=2) & (heads >= 0)
        return np.asarray(found.sum(axis=(0, 2)) / np.maximum((heads >= 0).sum(axis=(0, 2)), 1))

    def between(self, first: int, second: int) -> Array:
        """The weights of the difference second less first."""
        systems = np.eye(len(self.names))
        return np.asarray(systems[second] - systems[first])

    def rows(self) -> list[list[str]]:
        """A row for each measure and system, headings first."""
        rows = [["measure", "system", "by labels", "by the judge", "corrected", "95 % interval", "judged"]]
        for measure in self.measures:
            labels, judge, judged = self.by_labels(measure), self.by_judge(measure), self.is_judged(measure.depth)
            found = self.corrected(measure)
            for place, name in enumerate(self.names):
                value = found.interval(np.eye(len(self.names))[place])
                told = [number(value.mean), _ends(value)] if found.queries > 1 else ["", ""]
                rows.append([str(measure), name, number(labels[place]), number(judge[place]), *told, f"{judged[place]:.0%}"])
        return rows

    def told(self) -> Iterator[str]:
        """The result in sentences."""
        measure, last = self.measures[0], len(self.names) - 1
        found, labels = self.corrected(measure), self.by_labels(measure)
        weights, names = self.between(last - 1, last), self.names
        if found.queries > 1:
            between = found.interval(weights)
            yield (f"{names[-1]} less {names[-2]}, {measure}: {signed(between.mean)} {_ends(between)} corrected by "
                   f"{found.judgements:,} judgements on {found.queries:,} of {len(self.pools.pooled):,} queries; "
                   f"{signed(float(labels @ weights))} by the labels.")  # fmt: skip
            yield from self._order(found, labels)
        else:
            yield from self._needed(measure, weights)
        yield from self._less_judged(measure.depth)

    def _order(self, found: Corrected, labels: Array) -> Iterator[str]:
        changed = []
        for one, other in combinations(range(len(self.names)), 2):
            test = found.interval(self.between(one, other))
            if (test.low > 0 or test.high < 0) and (labels[other] - labels[one]) * test.mean <= 0:
                better, worse = (other, one) if test.mean > 0 else (one, other)
                changed.append(f"{self.names[better]} above {self.names[worse]} ({_ends(test)})")
        yield f"The order changes: {'; '.join(changed)}." if changed else "No order that the labels give is shown wrong."

    def _needed(self, measure: PooledMeasure, weights: Array) -> Iterator[str]:
        needed, pooled = judgements_needed(self.pools, measure, self.drawing, weights), int(self.pools.pooled.sum())
        both = f"{self.names[-1]} from {self.names[-2]}"
        if needed is not None:
            yield f"About {needed:,} judgements of the {pooled:,} pooled documents tell {both}, if the judge is right."
        elif more := queries_needed(self.pools, measure, weights):
            yield (f"Judging all {pooled:,} pooled documents does not tell {both}, if the judge is right: that takes "
                   f"about {more:,} test queries.")  # fmt: skip
        else:
            yield f"The judge sees no difference between {both.replace(' from ', ' and ')}: no number can be foretold."

    def _less_judged(self, depth: int) -> Iterator[str]:
        judged = self.is_judged(depth)
        least, most = int(judged.argmin()), int(judged.argmax())
        if judged[least] < _LESS_JUDGED * judged[most]:
            yield (f"Warning: {judged[least]:.0%} of the first {depth} documents of {self.names[least]} are judged, and "
                   f"{judged[most]:.0%} of {self.names[most]}: by the labels the first is at a disadvantage.")  # fmt: skip

    def write_mended(self) -> str:
        """Write the labels as people mended them, and a log of what changed; the data's own file stays."""
        mended = {query: dict(found) for query, found in self.pool.labels.items()}
        log = []
        for (query, doc), said in self.said.items():
            was, now = self.pool.labels.get(query, {}).get(doc), {"clean": 1, "wrong": 0}.get(said.verdict)
            if query in mended and now is not None and (was is None or (was >= 1) != (now == 1)):
                mended[query][doc] = now
                log.append({"query_id": query, "doc_id": doc, "was": was, "is": now})
        write_qrels(mended, self.folder / MENDED)
        write_jsonl(log, self.folder / LOG)
        return f"{len(log):,} labels mended: {self.folder / MENDED}, log {self.folder / LOG}"


def _ends(value: Difference) -> str:
    return f"[{signed(value.low)}, {signed(value.high)}]" if value.low < 0 else f"[{number(value.low)}, {number(value.high)}]"


@dataclass(frozen=True)
class CorrectedOptions:
    """Where the drawing is kept, and what is known before it.

    Attributes:
        judgements: Files of verdicts, as an audit of the split takes them, that are known before the drawing.
        chances: File of a judge's chances.
        count: Documents on a sheet.
    """

    folder: Path
    split: str = "test"
    judgements: Sequence[str] = ()
    chances: str | None = None
    count: int = _FIRST


def ruler(store: Store, first: str, second: str, options: CorrectedOptions) -> Ruler:
    """Pool the systems, draw what is to be judged unless the folder has a drawing, and read what people said.

    Raises:
        DataError: If the folder's drawing is of other pools.
    """
    measure = PooledMeasure.parse(_MEASURES[0])
    pool = pooled(store, (first, second), options.split, measure.depth)
    known = given_judgements(options.judgements) if options.judgements else {}
    found = drawn_in(options.folder, pool, measure)
    if found is None:
        chances = given_chances(options.chances) if options.chances else {}
        found = draw_into(options.folder, pool, measure, chances, known, seed=0)
    elif options.chances:
        raise ConfigError("app.drawn_already", folder=options.folder)
    files = [str(path) for path in (options.folder / SHEET, options.folder / ANSWERS) if path.exists() and has_verdicts(path)]
    of_folder = given_judgements(files) if files else {}
    there = set(pool.pairs)
    said = {pair: verdict for pair, verdict in {**known, **of_folder}.items() if pair in there}
    return Ruler(pool, *found, options.folder, said)


def write_sheet(store: Store, ruler: Ruler, count: int) -> Path | None:
    """Write the documents to judge first, by query and in random order; None if the sheet there has verdicts."""
    path = ruler.folder / SHEET
    if path.exists() and has_verdicts(path):
        return None
    chosen = [ruler.pool.pairs[row] for row in _in_rounds(ruler)[:count]]
    asked, texts = texts_of_systems(store, next(iter(ruler.pool.systems.values())), [doc for _, doc in chosen])
    columns = {
        "query_id": [query for query, _ in chosen],
        "doc_id": [doc for _, doc in chosen],
        "query": [asked[query] for query, _ in chosen],
        "document": [texts.get(doc, "") for _, doc in chosen],
        "verdict": [""] * len(chosen),
    }
    write_csv([pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})], path)
    return path


def _in_rounds(ruler: Ruler) -> list[int]:
    """Rows of the pairs without an answer: in rounds by priority, each by query, a query's documents in random order."""
    priority = ruler.drawing.priority[ruler.pools.pooled]
    open_rows = [row for row in np.argsort(priority, kind="stable").tolist() if ruler.pool.pairs[row] not in ruler.said]
    mixed = np.random.default_rng(0).permutation(len(priority))
    found: list[int] = []
    for start in range(0, len(open_rows), _ROUND):
        part = open_rows[start : start + _ROUND]
        found += sorted(part, key=lambda row: (ruler.pool.pairs[row][0], mixed[row]))
    return found
