"""`noisyir compare --corrected`: systems by the labels, by a judge, and corrected by people's judgements of pools."""

import getpass
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyir.app.comparing import shown_texts
from noisyir.app.console import stdout_console
from noisyir.app.pooling import DEPTH, DRAWN_BY, Drawn, Pooled, draw_into, drawn_in, given_chances, pooled
from noisyir.audits.files import write_csv, write_jsonl
from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.learning import Knowledge
from noisyir.audits.judging.pairs_to_judge import PairsToJudge
from noisyir.audits.judging.server import serve_page
from noisyir.audits.judging.session import BATCH, JudgingSession, RandomOrder
from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import number, signed
from noisyir.base.pages.charts import Estimate
from noisyir.detection.judgements import HumanJudgement, Judgements, given_judgements, has_verdicts
from noisyir.engine.locks import held_if_free
from noisyir.engine.store import Store
from noisyir.evaluation.corrected import Corrected, calibrated, corrected, outlook
from noisyir.evaluation.pages.ruler import ruler_page
from noisyir.evaluation.pooled import PooledMeasure
from noisyir.retrieval.trec import write_qrels

Array = np.ndarray
SHEET, ANSWERS, MENDED, LOG = "sample.csv", "judgements.jsonl", "mended.qrels", "mended.jsonl"
_MEASURES = (DRAWN_BY, *(PooledMeasure(kind, DEPTH) for kind in ("RR", "R", "P")))
_ROUND = BATCH  # judgements after which a session may end without loss
_LESS_JUDGED = 0.8  # of another system's share of judged documents: worth a warning


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
        """Each system's value by the labels given."""
        return np.asarray(measure.values(np.nan_to_num(self.pool.labelled), self.pool.heads).mean(axis=0))

    @cached_property
    def share_judged(self) -> Array:
        """The share of each system's first documents that a label or a person judged: Judged@k."""
        labels = self.pool.table({(query, doc): 1.0 for query, docs in self.pool.labels.items() for doc in docs})
        known, heads = (labels == 1) | (self.right != -1), self.pool.heads
        found = np.take_along_axis(known[:, None, :], np.maximum(heads, 0), axis=2) & (heads >= 0)
        return np.asarray(found.sum(axis=(0, 2)) / np.maximum((heads >= 0).sum(axis=(0, 2)), 1))

    def rows(self) -> list[list[str]]:
        """A row for each measure and system, headings first."""
        rows = [["measure", "system", "by labels", "by judge", "corrected", "95 % interval", f"Judged@{DEPTH}"]]
        systems = np.eye(len(self.pool.systems))
        for measure in _MEASURES:
            labels, found = self.by_labels(measure), self.corrected(measure)
            judge = measure.values(self.chance, self.pool.heads).mean(axis=0)
            for place, name in enumerate(self.pool.systems):
                test, share = found.interval(systems[place]), f"{self.share_judged[place]:.0%}"
                told = [number(test.mean), f"[{number(test.low)}, {number(test.high)}]"]
                by = [number(labels[place]), number(judge[place])]
                rows.append([str(measure), name, *by, *(told if found.queries > 1 else ["", ""]), share])
        return rows

    def page(self) -> str:
        """The page as HTML text."""
        found, systems = self.corrected(DRAWN_BY), self.pool.systems
        tests = map(found.interval, np.eye(len(systems))) if found.queries > 1 else ()
        main = [Estimate(name, *test[:3]) for name, test in zip(systems, tests, strict=False)]
        return ruler_page(" vs ".join(reversed(self.pool.named)), [*self.told()], self.rows(), main)

    def told(self) -> Iterator[str]:
        """The result in sentences."""
        names, found, labels = [*self.pool.systems], self.corrected(DRAWN_BY), self.by_labels(DRAWN_BY)
        systems, (first, second) = np.eye(len(names)), map(names.index, self.pool.named)
        if found.queries > 1:
            test = found.interval(systems[second] - systems[first])
            by_labels = signed(labels[second] - labels[first])
            yield (f"{names[second]} less {names[first]}, {DRAWN_BY}: {by_labels} by the labels, {signed(test.mean)} "
                   f"[{signed(test.low)}, {signed(test.high)}] corrected by {found.judgements:,} "
                   f"judgements on {found.queries:,} of {len(self.right):,} queries.")  # fmt: skip
            turned = []
            for one, other in combinations(range(len(names)), 2):
                test = found.interval(systems[other] - systems[one])
                better, worse = (other, one) if test.mean > 0 else (one, other)
                if test.low * test.high > 0 and (labels[other] - labels[one]) * test.mean <= 0:
                    turned.append(f"{names[better]} is above {names[worse]}")
            yield f"The order changes: {', '.join(turned)}." if turned else "No order of systems is shown to change."
        else:
            yield self._outlook(systems[second] - systems[first], f"{names[second]} from {names[first]}")
        share = self.share_judged
        least, most = int(share.argmin()), int(share.argmax())
        if share[least] < _LESS_JUDGED * share[most]:
            yield (f"Warning: {share[least]:.0%} of {names[least]}'s documents are judged, and {share[most]:.0%} of "
                   f"{names[most]}'s: the labels are unfair to the first.")  # fmt: skip

    def _outlook(self, weights: Array, both: str) -> str:
        found, pooled = outlook(self.drawn.pools, DRAWN_BY, self.drawn.drawing, weights), len(self.pool.pairs)
        if found.judgements:
            return f"About {found.judgements:,} judgements of {pooled:,} documents tell {both}, if the judge is right."
        more = f"that takes about {found.queries:,} test queries" if found.queries else "it sees no difference"
        return f"All {pooled:,} documents judged do not tell {both}, if the judge is right: {more}."

    def write_mended(self, folder: Path) -> str:
        """Write the labels as corrected by people, and a log of the changes; the data's own file stays."""
        mended = {query: dict(docs) for query, docs in self.pool.labels.items()}
        log = []
        for (query, doc), now in zip(self.pool.pairs, self.right[self.drawn.pools.pooled].tolist(), strict=True):
            was = mended[query].get(doc)
            if now in (0, 1) and (was is None or (was >= 1) != (now == 1)):
                mended[query][doc] = int(now)
                log.append({"query_id": query, "doc_id": doc, "was": was, "is": int(now)})
        write_qrels(mended, folder / MENDED)
        write_jsonl(log, folder / LOG)
        return f"mended      {folder / MENDED}: {len(log):,} labels new or changed, each in {folder / LOG}"

    def open_rows(self, at_once: int = _ROUND) -> list[int]:
        """Pairs without an answer, in the order drawn by rounds: by query, its documents in random order."""
        priority = self.drawn.drawing.priority[self.drawn.pools.pooled]
        nobody = (self.right == -1)[self.drawn.pools.pooled]
        rows = [row for row in np.argsort(priority, kind="stable").tolist() if nobody[row]]
        mixed = np.random.default_rng(0).permutation(len(priority))
        parts = (rows[start : start + at_once] for start in range(0, len(rows), max(at_once, 1)))
        return [row for part in parts for row in sorted(part, key=lambda row: (self.pool.pairs[row][0], mixed[row]))]


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
    pool, known = pooled(store, names, "test"), given_judgements(judgements) if judgements else {}
    if (drawn := drawn_in(folder, pool)) is None:
        drawn = draw_into(folder, pool, given_chances(chances) if chances else {}, known)
    elif chances or known:
        raise ConfigError("app.drawn_already", folder=folder)
    files = [folder / name for name in (SHEET, ANSWERS)]
    answered = [str(path) for path in files if path.exists() and has_verdicts(path)]
    return Ruler(pool, drawn, {**known, **(given_judgements(answered) if answered else {})})


def write_sheet(store: Store, found: Ruler, folder: Path, count: int) -> Path | None:
    """Write the documents to judge next; None if the sheet there has verdicts."""
    path = folder / SHEET
    if path.exists() and has_verdicts(path):
        return None
    asked = _to_judge(store, found, found.open_rows(count)[:count])
    write_csv([asked.append_column("verdict", pa.repeat("", asked.num_rows))], path)
    return path


def _to_judge(store: Store, found: Ruler, rows: Sequence[int]) -> pa.Table:
    """Query, document and their texts of these pairs."""
    pairs = [found.pool.pairs[row] for row in rows]
    side = next(iter(found.pool.systems.values()))
    asked, texts = shown_texts(store, side, [doc for _, doc in pairs])
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
    """Serve the page of judging for the pools, by rounds, until it is finished or interrupted.

    Raises:
        ConfigError: If another session is writing to the file.
    """
    every = _to_judge(store, found, range(len(found.pool.pairs)))
    every = every.append_column("score", pa.repeat(0.0, every.num_rows))
    pairs, order = PairsToJudge(every, {}, lambda wanted: {}), found.open_rows()
    size = found.drawn.drawing.size[found.drawn.pools.pooled]
    with held_if_free(folder / ANSWERS) as free:
        if not free:
            raise ConfigError("app.session_open", path=folder / ANSWERS)
        learner, journal = _Learner(found, pairs), Journal(folder / ANSWERS)
        drawn = RandomOrder(np.array(order, np.int64), 1 / size[order])
        session = JudgingSession(pairs, journal, getpass.getuser(), learner, order=drawn)
        session.start()
        serve_page(session, folder, lambda: session.known.advice, stdout_console().print)
        session.finish()
