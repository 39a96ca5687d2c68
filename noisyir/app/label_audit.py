"""A finished audit: its findings, its files, and the cleaning of its pairs."""

import shutil
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from textwrap import fill, wrap
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.app.audit_folder import CSV, DATA, LOG, MENDED, PAGE, TABLE, data_name, files_of, write_mended
from noisyir.app.own_data import said_of_length
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.audits.apply import Applied, apply_audit
from noisyir.audits.by_hand import how_many
from noisyir.audits.columns import FLAGGED, ROW
from noisyir.audits.files import cut, write_csv
from noisyir.audits.keeping import Keeping, kept_if_assumed
from noisyir.audits.pairs_to_clean import FileOfPairs, PairsToClean, TableOfPairs
from noisyir.audits.settings import AuditParams
from noisyir.audits.slipped_rows import Slip, slipped_rows
from noisyir.audits.stages.audit_negatives import JUDGE_NEGATIVES
from noisyir.audits.texts import opening
from noisyir.base.durations import duration
from noisyir.base.errors import ConfigError, StoreError
from noisyir.base.pages.cells import percent
from noisyir.base.settings import HELD_OUT
from noisyir.data.examples import ShapedRows
from noisyir.data.formats.pairs import PairsFile
from noisyir.data.stages.chunk import CHUNK
from noisyir.detection.judgements import Pair, drawn_at_random, given_judgements, read_judgements
from noisyir.detection.null import named_null
from noisyir.detection.rate import Interval
from noisyir.detection.rate_sentences import NOT_SAID, by_each_null, in_terminal, why_none_is_flagged
from noisyir.engine.meta import Ref
from noisyir.engine.plan import Choice
from noisyir.engine.provenance import lineage
from noisyir.engine.remote.fetched import located
from noisyir.engine.store import Store
from noisyir.engine.tables import aligned, beside, pair_ids, with_values
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.experiment import Experiment
from noisyir.retrieval.measures import judged
from noisyir.training.flags import last_estimate

_COMPARE = "compare them with their source"
_TOLD = 2  # pairs that the terminal shows
_AT_ONCE = 8192  # rows of the csv that are Python objects


@dataclass(frozen=True)
class Audited:
    """A finished audit of an experiment's pairs."""

    exp: Experiment
    store: Store
    outcome: Outcome

    @cached_property
    def table(self) -> pa.Table:
        """One row per pair, the most suspect first."""
        return self.store.builds.table(self.outcome.kept["audit"])

    @cached_property
    def with_rows(self) -> pa.Table:
        """The table with `row`, where in the file each pair first stands; null for data of several files."""
        opened, first = located(self.exp.data).open(), dict[Pair, int]()
        if isinstance(opened, PairsFile | ShapedRows):
            for row, pair in FileOfPairs(opened).pairs():
                first.setdefault(pair, row)
        found = pa.array([first.get(pair) for pair in pair_ids(self._of_documents())], pa.int64())
        return self.table.add_column(self.table.column_names.index("source"), ROW, found)

    @cached_property
    def slipped(self) -> Slip | None:
        """Rows of the file in which documents have slipped against their queries."""
        known = self.with_rows.filter(pc.is_valid(self.with_rows[ROW]))
        others = [next(iter(better), None) for better in known["better"].to_pylist()]
        return slipped_rows(known[ROW].to_numpy(), known["doc_id"].to_pylist(), others)

    @property
    def flagged(self) -> int:
        """Number of pairs called wrong or suspect."""
        return pc.sum(pc.is_in(self.table["verdict"], value_set=pa.array(FLAGGED))).as_py() or 0

    @property
    def judgements(self) -> dict[str, Any] | None:
        """Notes on judgements by hand and their effects, if there are any."""
        return self.outcome.results["audit"].meta.notes.get("judgements")

    @property
    def sampled(self) -> int:
        """Number of judged pairs that were drawn at random."""
        return self.judgements["sampled"] if self.judgements else 0

    @property
    def held_out(self) -> int:
        """Number of held-out queries."""
        ref = self.outcome.results["ingest"].meta.ref("queries")
        splits = self.store.builds.table(ref, ("split",))["split"]
        return pc.sum(pc.is_in(splits, value_set=pa.array(HELD_OUT))).as_py() or 0

    @cached_property
    def noise(self) -> Interval:
        """The rate from a judged random sample, else from the null pairs that fit best."""
        if self.judgements and self.judgements["interval"]:
            return Interval(*self.judgements["interval"])
        return Interval(self.estimate["rate"], self.estimate["rate_low"], self.estimate["rate_high"])

    @cached_property
    def estimate(self) -> dict[str, float]:
        """The estimate of detect, without judgements."""
        return last_estimate(self.store.builds.table(self._detected("noise_estimate")))

    def _detected(self, artifact: str) -> Ref:
        """An artifact of detect under any label."""
        found = self.outcome.results.values()
        return next(result.meta.ref(artifact) for result in found if result.meta.stage == "detect")

    @property
    def keeping(self) -> Keeping:
        """Numbers of pairs to keep without judgements, under the experiment's assumption."""
        bounds = self.store.builds.table(self._detected("kept_by_null"))
        return kept_if_assumed(bounds, self.table.num_rows, named_null(self.exp.detect.assume))

    @property
    def noise_in_words(self) -> str:
        """The judged rate with its interval, else a statement that it is unknown."""
        if self.sampled:
            return f"{self.noise} at {percent(self.exp.detect.confidence)}, by judgements"
        return NOT_SAID

    @property
    def readings(self) -> list[str]:
        """A sentence for each detector that may leave part of the data unread."""
        behind = lineage(self.store, [self.outcome.kept["audit"]])
        return [meta.notes["reading"] for meta in behind if meta.stage == "score_pairs" and "reading" in meta.notes]

    @property
    def _read(self) -> str:
        """Name of the data, number of pairs, repeated rows and columns read."""
        source, pairs = self.outcome.results["ingest"].meta.notes["source"], self.table.num_rows
        repeated, columns = source.get("repeated_pairs"), source.get("columns")
        once = f", {repeated:,} repeated row{'s' * (repeated > 1)} left out" if repeated else ""
        name = getattr(self.exp.data, "path", None) or self.exp.name
        taken = ", ".join(f"{column} = {found}" for column, found in sorted((columns or {}).items(), reverse=True))
        lines = [
            f"{pairs:,} {(self.exp.audit or AuditParams()).audited}{once}",
            *([taken] if taken else []),
            *said_of_labels(self.outcome),
            *([long] if (long := said_of_length(self.outcome)) else []),
        ]
        return f"{Path(name).name:<15} " + f"\n{'':<15} ".join(lines)

    @property
    def _most_suspect(self) -> list[str]:
        """Query, first words of the document, row and reason of the pairs at the top."""
        unseen = self.with_rows.filter(pc.is_null(self.table["judged"]))
        rows = unseen.slice(0, _TOLD).select([ROW, "query", "document", "reason"]).to_pylist()
        told = (
            [f"  {place}  {opening(row['query'], 74)}", f"     {opening(row['document'], 74)}"]
            + [f"     {line}" for line in wrap(f"row {row[ROW]}: {row['reason']}" if row[ROW] else row["reason"], 74)]
            for place, row in enumerate(rows, 1)
        )
        head = (
            f"Most suspicious{', not judged yet' if self.judgements else ''}:"
            if self.flagged
            else "The list is sorted. Start at its top:"
        )
        return [f"\n{head}", *chain.from_iterable(told)]

    def summary(self, error: float | None = None, seconds: float | None = None, *, examples: bool = True) -> str:
        """Summarize the findings for a terminal.

        Args:
            error: Report how many pairs to judge for the noise rate within this error.
            examples: Show the pairs at the top, which a judge must not see in advance.
        """
        confidence, pairs = self.exp.detect.confidence, self.table.num_rows
        called = "are flagged as wrong" if self.judgements else "look suspicious"
        took = "" if seconds is None else f" (took {duration(seconds)})"
        lines = [self._read, f"\n{self.flagged:,} of {pairs:,} pairs {called}.{took}"]
        if self.judgements:
            lines.append(self.judgements["summary"])
        elif not self.flagged:
            lines[1] = f"\nNo pair is flagged: {why_none_is_flagged(self.estimate)}.{took}"
        if not self.sampled:
            called_wrong = self.outcome.results["ingest"].meta.notes.get("called_wrong", 0)
            lines.append(in_terminal(self.estimate, self.exp.detect.assume, called_wrong))
        lines += [f"{'reading':<14}{said}" for said in self.readings]
        if self.slipped:
            said = f"{'slipped':<14}{self.slipped}; {_COMPARE}"
            lines.append(fill(said, 78, subsequent_indent=" " * 14))
        if error is not None:
            hardest = min(max(0.5, self.noise.low), self.noise.high) if self.sampled else 0.5  # the nearest to a half
            lines.append(how_many(hardest, error, confidence, self.table.num_rows))
        if "audit_negatives" in self.outcome.results:
            lines.append(self._suspects(self.outcome.results["audit_negatives"].meta.notes["suspects"]))
        if self.exp.audited != "train":
            lines.append(
                f"unchanged     {self.exp.audited} is neither cleaned nor trained on: audit.csv lists its pairs"
            )
        return "\n".join([*lines, *(self._most_suspect if examples else ())])

    def for_machines(self) -> dict[str, Any]:
        """The findings as one object; `rate` is None if no random sample was judged."""
        rate = self.noise._asdict() | {"confidence": self.exp.detect.confidence, "judged": self.sampled}
        return {
            "split": self.exp.audited,
            "pairs": self.table.num_rows,
            "flagged": self.flagged if self.flagged or self.judgements else None,
            "assumed": self.exp.detect.assume,
            "rate": rate if self.sampled else None,
            "judgements": self.judgements,
            "slipped": self.slipped._asdict() if self.slipped else None,
            "by_made_up_pairs": {said.assumed: said.rate for said in by_each_null(self.estimate)},
        }

    def write(self, folder: Path) -> list[str]:
        """Write the audit's files and table, replacing earlier ones, and return their names."""
        from noisyir.audits.page import with_file_rows

        made = self.store.builds.folder(self.outcome.kept["audit_files"])
        names = {path.name for path in made.iterdir()}
        with StoreError.wrapping("app.cannot_write_folder", folder=folder):
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                shutil.copyfile(made / name, folder / name)
            with (folder / TABLE).open("wb") as file:
                pq.write_table(self.with_rows.replace_schema_metadata({DATA: data_name(self.exp)}), file)
            params = self.exp.audit or AuditParams()
            rows = self.with_rows[ROW][: params.html_rows].to_pylist()
            slip = f"{self.slipped}; {_COMPARE}" if self.slipped else None
            page = with_file_rows((folder / PAGE).read_text(encoding="utf-8"), rows, slip)
            (folder / PAGE).write_text(page, encoding="utf-8")
            parts = map(pa.Table.from_batches, zip(self.with_rows.to_batches(max_chunksize=_AT_ONCE)))
            write_csv((cut(part, params.text_chars) for part in parts), folder / CSV)
            if self.judgements and self.exp.audited != "train":
                write_mended(*self._judged_labels(), folder)
                names |= {MENDED, LOG}
        return [name for name in files_of(self.exp) if name in names | {TABLE, CSV}]

    def _judged_labels(self) -> tuple[dict[str, dict[str, int]], dict[Pair, bool]]:
        """The audited split's labels, and people's decided verdicts on any documents of its queries."""
        ingest = self.outcome.results["ingest"].meta
        queries, qrels = (self.store.builds.table(ingest.ref(name)) for name in ("queries", "qrels"))
        ids = queries["query_id"].filter(pc.equal(queries["split"], self.exp.audited)).to_pylist()
        files, labels = (self.exp.audit or AuditParams()).judgement_files, judged(qrels, ids)
        said = read_judgements(files, self.table, {*ids}).items()
        decided = [(pair, one.verdict) for pair, one in said if pair[0] in labels and one.verdict != "unclear"]
        return labels, {pair: verdict == "clean" for pair, verdict in decided}

    def apply(self, folder: Path, *, drop: bool = False) -> Applied:
        """Write the cleaned pairs and a log of the changes."""
        source = self._source()
        is_file = not isinstance(source, TableOfPairs)
        table = self._of_documents() if is_file else self.table
        whole = is_file and CHUNK.name not in self.outcome.results
        return apply_audit(table, source, folder, drop=drop, relevant=self.relevant_negatives if whole else {})

    def _suspects(self, counts: dict[str, Any]) -> str:
        drawn = "" if counts["used"] is None else f"{counts['used']:,} of them drawn as negatives, "
        found = f"{counts['against']:,} not kept by a judge: {drawn}{len(self.relevant_negatives):,}"
        return f"candidates    {counts['judged']:,} for negatives judged, {found} with a positive that is not flagged"

    @cached_property
    def relevant_negatives(self) -> dict[Pair, str]:
        """The data's own negatives that are not kept, with reasons; a flagged positive is no measure for them."""
        metas = [result.meta for result in self.outcome.results.values()]
        judged = next((meta for meta in metas if meta.stage == JUDGE_NEGATIVES.name), None)
        if judged is None:
            return {}
        found, candidates = (self.store.builds.table(judged.ref(name)) for name in ("verdicts", "candidates"))
        against = beside(found.filter(pc.invert(found["keep"])), candidates, ("query_id", "doc_id"))
        flagged = {*pair_ids(self.table.filter(pc.is_in(self.table["verdict"], value_set=pa.array(FLAGGED))))}
        rows = zip(*(against[name].to_pylist() for name in ("query_id", "doc_id", "positive", "reason")), strict=True)
        return {(query, doc): reason for query, doc, positive, reason in rows if (query, positive) not in flagged}

    def _of_documents(self) -> pa.Table:
        """The table with whole documents in place of passages."""
        if (cut := self.outcome.results.get(CHUNK.name)) is None:
            return self.table
        passages = self.store.builds.table(cut.meta.ref("cut_passages"))
        table = self.table
        for name in ("doc_id", "replacement", "machine_replacement"):
            whole = aligned(pa.table({"doc_id": table[name]}), passages, ["doc_id"])["document"]
            table = with_values(table, **{name: pc.coalesce(whole, table[name])})
        return table

    def _source(self) -> PairsToClean:
        """The user's file, or the data set's corrupted training pairs."""
        exp, store, results = self.exp, self.store, self.outcome.results
        opened = located(exp.data).open()
        if (isinstance(opened, PairsFile) and opened.has_a_query_a_row) or (
            isinstance(opened, ShapedRows) and opened.positives
        ):
            source = FileOfPairs(opened, exp.data.min_relevance)
            if source.file.is_rewritten:
                return source
        noisy = results["corrupt"].meta
        corpus = (noisy if "corpus" in noisy.artifacts else results["ingest"].meta).ref("corpus")
        documents = store.builds.batches(corpus, ("doc_id", "title", "text"))
        return TableOfPairs(store.builds.table(noisy.ref("noisy_pairs")), self.table, documents, exp.name)


def run_audit(exp: Experiment, execution: Execution) -> Audited:
    """Judge the experiment's training pairs."""
    outcome = run_experiment(exp, Choice(), execution, pipeline=audit_pairs)
    return Audited(exp, execution.store, outcome)


@dataclass(frozen=True)
class Gate:
    """A limit on the share of wrong pairs, compared with the upper end of the judged interval.

    Raises:
        ConfigError: If there are no judgements of a random sample.
    """

    exp: Experiment
    most: float

    def __post_init__(self) -> None:
        if not 0 < self.most < 1:
            raise ConfigError("app.bad_fail_over", most=self.most)
        files = self.exp.audit.judgement_files if self.exp.audit else ()
        if not files or not drawn_at_random(given_judgements(files)):
            raise ConfigError("app.fail_over_unjudged")

    def is_over(self, found: Audited) -> bool:
        """Whether more than the limit may be wrong."""
        return found.noise.high > self.most

    def told(self, found: Audited) -> str:
        """The outcome, in a line."""
        said = "more than" if self.is_over(found) else "no more than"
        high = percent(found.noise.high, 1)
        return f"gate          {said} {percent(self.most, 1)} may be wrong: the interval ends at {high}"


def said_of_labels(outcome: Outcome) -> list[str]:
    """The meaning of labels in the data, the number of pairs that they call wrong, and the columns without meaning."""
    notes = outcome.results["ingest"].meta.notes
    source, wrong = notes["source"], notes.get("called_wrong", 0)
    told = [source["labels"]] if "labels" in source else []
    if told or wrong:
        told.append(f"{wrong:,} pairs that the data calls wrong are left out of training, kept as judgements")
    return told + ([f"not read: {', '.join(source['unread'])}"] if "unread" in source else [])
