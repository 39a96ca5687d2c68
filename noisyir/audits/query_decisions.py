"""Every row about a query in the builds of one run, with the facts in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.audits.row_facts import FACTS, Fact, Row, RowQuery, documents_named, documents_of, facts_of
from noisyir.base.errors import DataError, NoisyirError, StoreError, did_you_mean, suggested
from noisyir.base.pages.cells import shorten
from noisyir.engine.meta import Meta
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store

MAX_CHARS = 300  # longest text that is shown
_ROWS = 65536
_ID = "query_id"
_STAND_ELSEWHERE = {"audit": ("query", "document"), "audit_negatives": ("query", "document")}  # columns by artifact


@dataclass(frozen=True)
class Decided:
    """The part of one step's table about the query: rows, and the facts in them."""

    step: str
    stage: str
    key: str
    artifact: str
    facts: list[Fact]
    rows: list[Row]


@dataclass(frozen=True)
class Decisions:
    """A run's decisions about a query, or about a query and a document, in their order.

    `texts` are cut, of documents paired with the query or named in a decision.
    """

    experiment: str
    began: datetime
    query_id: str
    doc_id: str | None
    query: str
    split: str
    texts: dict[str, str]
    decided: list[Decided]

    def as_json(self) -> dict[str, Any]:
        """One object for a program."""
        return {
            "experiment": self.experiment,
            "began": self.began.isoformat(),
            "query": {"query_id": self.query_id, "text": self.query, "split": self.split},
            "doc_id": self.doc_id,
            "documents": self.texts,
            "decided": [{**vars(one), "facts": [fact._asdict() for fact in one.facts]} for one in self.decided],
        }


@dataclass(frozen=True)
class _Table:
    """One table of one build."""

    store: Store
    step: str
    meta: Meta
    artifact: str

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All but vectors and texts that stand elsewhere."""
        schema = next(iter(self._batches(None, 1))).schema
        left_out = _STAND_ELSEWHERE.get(self.artifact, ())
        return tuple(
            name
            for name, kind in zip(schema.names, schema.types, strict=True)
            if name not in left_out and not pa.types.is_fixed_size_list(kind)
        )

    def rows(self, column: str, values: Sequence[str]) -> Iterator[Row]:
        """Rows with one of these values in the column, without vectors; read as a stream."""
        wanted = pa.array(values, pa.string())
        for batch in self._batches(self.columns):
            found = batch.filter(pc.is_in(batch[column], value_set=wanted))
            yield from found.to_pylist()

    def values(self, column: str) -> Iterator[str]:
        for batch in self._batches((column,)):
            yield from batch[column].to_pylist()

    def _batches(self, columns: Sequence[str] | None, rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
        return self.store.builds.batches(self.meta.ref(self.artifact), columns, rows)


def decisions_on(store: Store, query_id: str, doc_id: str | None = None, experiment: str | None = None) -> Decisions:
    """Decisions of the newest finished run that knows the query and the document, perhaps of this experiment.

    A run that audited the pair goes first.

    Raises:
        StoreError: If there is no such run.
        DataError: If no experiment's newest run knows the ids; its text has a near match.
    """
    refused: list[NoisyirError] = []
    found: list[Decisions] = []
    for run in _newest_runs(store, experiment):
        try:
            found.append(_decisions(store, run, query_id, doc_id))
        except (DataError, StoreError) as error:
            refused.append(error)
            continue
        if doc_id is None or any(one.artifact == "audit" for one in found[-1].decided):
            return found[-1]
    if not found:
        raise refused[0]
    return found[0]


def _decisions(store: Store, run: Mapping[str, Any], query_id: str, doc_id: str | None) -> Decisions:
    tables = list(_tables(store, run))
    found = [(table, rows) for table in tables if (rows := _rows_about(table, query_id, doc_id)) is not None]
    if not any(table.artifact == "queries" for table in tables):
        raise StoreError(
            "audits.run_tables_gone",
            experiment=run["experiment"],
            url=store.url,
            run=run.get("command") or "noisyir run " + run["experiment"],
        )
    query = _query(tables, found, query_id)
    by_artifact = _by_artifact(found)
    interest = (doc_id,) if doc_id else documents_of(by_artifact)
    named = documents_named(by_artifact, interest)
    texts = _texts(tables, named)
    if doc_id and doc_id not in texts and not by_artifact.get("excluded"):
        _refuse(tables, "corpus", "doc_id", doc_id, "document")
    decided = [
        Decided(table.step, table.meta.stage, table.meta.key, table.artifact, facts, list(map(_short, asked.of(rows))))
        for table, rows in found
        for asked in [RowQuery(doc_id, interest, table.meta.params)]
        if (facts := facts_of(table.artifact, rows, asked))
    ]
    began = datetime.fromisoformat(run["began"])
    return Decisions(run["experiment"], began, query_id, doc_id, cut(query["text"]), query["split"], texts, decided)


def _newest_runs(store: Store, experiment: str | None) -> list[Mapping[str, Any]]:
    """The records of each experiment's newest finished run and audit, newest first, or of one experiment.

    A refreshed corpus does not count, because it decides about no query.

    Raises:
        StoreError: If there is none.
    """
    newest: dict[tuple[str, bool], Mapping[str, Any]] = {}
    for run in store.runs.all():
        if run["status"] == "done" and "join_corpus" not in run["steps"]:
            newest.setdefault((run["experiment"], "audit" in (run.get("kept") or {})), run)
    if not newest:
        raise StoreError("audits.no_finished_run", url=store.url)
    if experiment is None:
        return list(newest.values())
    if mine := [run for (name, _), run in newest.items() if name == experiment]:
        return mine
    names = sorted({name for name, _ in newest})
    others = suggested(experiment, names, "there are runs of")
    raise StoreError("audits.no_run_of_experiment", experiment=experiment, url=store.url, others=others)


def cut(text: str) -> str:
    """The beginning of a long text."""
    return shorten(text, MAX_CHARS)


def _tables(store: Store, run: Mapping[str, Any]) -> Iterator[_Table]:
    """The tables behind a run, oldest first, so that each follows its inputs."""
    told = list(FACTS)
    steps = {(step["stage"], step["build"]): name for name, step in run["steps"].items() if step["build"]}
    used = [
        meta
        for step in run["steps"].values()
        for meta in store.builds.of_key(step["stage"], step["key"])
        if meta.build == step["build"]
    ]
    metas = lineage(store, [meta.ref(name) for meta in used for name in meta.artifacts])
    for meta in sorted(metas, key=lambda meta: meta.build):
        for artifact in sorted(meta.artifacts, key=lambda name: told.index(name) if name in told else len(told)):
            if meta.artifacts[artifact].rows:
                yield _Table(store, steps.get((meta.stage, meta.build), meta.stage), meta, artifact)


def _rows_about(table: _Table, query_id: str, doc_id: str | None) -> list[Row] | None:
    """The table's rows about the query; None if its rows are not about queries, or hold nothing else."""
    if table.artifact == "excluded":
        of_pair = [f"{query_id} {doc_id}", doc_id] if doc_id else []
        return list(table.rows("id", [query_id, *of_pair]))
    if _ID not in table.columns or table.columns == (_ID,):
        return None
    return list(table.rows(_ID, [query_id]))


def _query(tables: Sequence[_Table], found: Sequence[tuple[_Table, list[Row]]], query_id: str) -> Row:
    """Text and split of the query; empty if it was left out."""
    for table, rows in found:
        if table.artifact == "queries" and rows:
            return rows[0]
    if any(table.artifact == "excluded" and rows for table, rows in found):
        return {"text": "", "split": ""}
    _refuse(tables, "queries", _ID, query_id, "query")


def _refuse(tables: Sequence[_Table], artifact: str, column: str, name: str, kind: str) -> NoReturn:
    known = [value for table in tables if table.artifact == artifact for value in table.values(column)]
    hint = did_you_mean(name, known)
    raise DataError("audits.unknown_in_run", kind=kind, name=name, n_known=len(known), hint=hint)


def _by_artifact(found: Sequence[tuple[_Table, list[Row]]]) -> dict[str, list[Row]]:
    rows: dict[str, list[Row]] = {}
    for table, of_table in found:
        rows.setdefault(table.artifact, []).extend(of_table)
    return rows


def _texts(tables: Sequence[_Table], doc_ids: Sequence[str]) -> dict[str, str]:
    """Title and text of these documents, in their order, cut."""
    texts: dict[str, str] = {}
    for table in tables:
        if table.artifact == "corpus":
            for row in table.rows("doc_id", doc_ids):
                texts[row["doc_id"]] = cut(f"{row['title']}\n{row['text']}".strip())
    return {doc_id: texts[doc_id] for doc_id in doc_ids if doc_id in texts}


def _short(row: Row) -> Row:
    return {name: cut(value) if isinstance(value, str) else value for name, value in row.items()}
