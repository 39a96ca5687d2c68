"""Export of pairs in any readable format: after an audit, unchanged, or with mined negatives."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.data_import import FORMAT_ALIASES, import_data
from noisyir.app.label_audit import Audited
from noisyir.app.label_cleaning import CleaningWords, refuse_too_much, refuse_unjudged
from noisyir.app.lookup import built, runs_of
from noisyir.app.runs import Outcome
from noisyir.audits.apply import HALF, decide
from noisyir.audits.pairs_to_clean import Fate
from noisyir.base.errors import ConfigError, DataError, NoisyirError, StoreError, did_you_mean
from noisyir.base.settings import PROMOTION
from noisyir.data.collection import SCHEMAS, Collection
from noisyir.data.formats import Format
from noisyir.data.formats.trainers import SentenceTransformers
from noisyir.engine.build_stage import Result
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment, recorded_experiment

_WORDS = CleaningWords(
    apply="export --as",
    judge_first=(
        "audit it with --sample 50, fill the column verdict of the sample.csv that it writes, audit it again with "
        "--judgements and this file, and then export"
    ),
    assume="an audit with --assume random, and --force here,",
)
Rows = list[tuple[Any, ...]]
_AS_DRAWN = [("query_id", "ascending"), ("draw", "ascending")]
_TOLD = {"relabel": "relabelled", "drop": "left out", "weigh": "with less than half of their weight"}


class _Given(NamedTuple):
    """Pairs to write, with a description of their origin."""

    collection: Collection
    said: str


def export_pairs(
    store: Store, name: str, kind: str, to: str | None, *, drop: bool = False, force: bool = False
) -> tuple[str, Path]:
    """Write pairs in a format; return a description and the path.

    Audited pairs are relabelled if judgements support it; otherwise they get weights, or are dropped if `drop` is set
    or the format has no weights.

    Args:
        name: Path of data, exported unchanged; or an experiment or pairs file, exported as its newest audit leaves it.
        to: Target; None: the current folder, named after the data.
        force: Also export if no random sample was judged.

    Raises:
        ConfigError: If the format cannot be written, or as for `audit --apply`.
        StoreError: If there is no audit.
        DataError: If the format cannot represent the pairs.
    """
    variant = format_named(kind)
    source = Path(name)
    if source.exists() and source.suffix not in experiments.ENDINGS:
        given = _as_it_is(source, holds_weights=variant.holds_weights)
    else:
        given = _as_audited(store, name, drop=drop or not variant.holds_weights, force=force)
    rows = given.collection.judgements.num_rows
    if not rows:
        raise DataError("app.no_pair_to_write", said=given.said)
    stem = source.name.split(".")[0] if source.exists() else experiments.name_of(name)
    target = Path(to) if to else Path(f"{stem}-{kind}{variant.written}")
    _write(variant, given.collection, target)
    return f"written   {target}: {rows:,} pairs of {given.said}\nread by   noisyir import {target}", target


def export_mined(store: Store, outcome: Outcome, variant: type[Format], target: Path) -> str:
    """Write training pairs with their hard negatives in a format; return a description of kept and dropped pairs.

    sentence-transformers columns need the same number of negatives per row, so queries with fewer are dropped.

    Raises:
        DataError: If no negative is left.
        StoreError: If the path exists.
    """
    noted = outcome.results["mine"].meta.notes["negatives"]
    pairs, queries, negatives = (store.builds.table(outcome.kept[name]) for name in ("pairs", "queries", "negatives"))
    removed = ", ".join(f"{count:,} by {name}" for name, count in noted["removed"].items())
    if not negatives.num_rows:
        raise DataError("app.no_negatives", candidates=noted["candidates"], removed=removed)
    counts = pc.value_counts(negatives["query_id"].combine_chunks())
    most = pc.max(counts.field("counts")).as_py()
    enough = most if issubclass(variant, SentenceTransformers) else 1
    written = counts.filter(pc.greater_equal(counts.field("counts"), enough)).field("values")
    pairs, queries, negatives = (
        table.filter(pc.is_in(table["query_id"], value_set=written)) for table in (pairs, queries, negatives)
    )
    named = pa.chunked_array([*pairs["doc_id"].chunks, *negatives["doc_id"].chunks], pa.string())
    corpus = store.builds.batches(outcome.kept["corpus"], SCHEMAS["documents"].names)
    found = [batch.filter(pc.is_in(batch["doc_id"], value_set=named.unique())) for batch in corpus]
    tables = {"queries": queries, "judgements": pairs, "negatives": negatives.sort_by(_AS_DRAWN)}
    completed = {name: _completed(table, SCHEMAS[name]) for name, table in tables.items()}
    _write(variant, Collection(_completed(pa.Table.from_batches(found), SCHEMAS["documents"]), **completed), target)
    lines = [
        f"{target}: {pairs.num_rows:,} pairs, with {negatives.num_rows:,} hard negatives of {len(written):,} queries"
    ]
    lines += [f"{'candidates':<12}{noted['candidates']:,} found" + (f", removed {removed}" if removed else "")]
    if few := noted["queries"] - len(written):
        lines.append(
            f"{'left out':<12}{few:,} queries with " + (f"fewer than {enough:,} negatives" if enough > 1 else "none")
        )
    return "\n".join(lines)


def _completed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the table's columns in schema order; missing ones become empty."""
    for field in schema:
        if field.name not in table.column_names:
            table = table.append_column(field.name, pa.nulls(table.num_rows, field.type))
    return table.select(schema.names).cast(schema)


def format_named(kind: str) -> type[Format]:
    """Return the format to write pairs in.

    Raises:
        ConfigError: If the format cannot be written.
    """
    known = [name for name, variant in Format.variants().items() if variant.written is not None]
    name = FORMAT_ALIASES.get(kind, kind.replace("-", "_"))
    if name not in known:
        there = ", ".join(known)
        raise ConfigError("app.unknown_pairs_format", kind=kind, did_you_mean=did_you_mean(kind, known), there=there)
    return Format.of_kind(name)


def _as_it_is(source: Path, *, holds_weights: bool) -> _Given:
    """Return data by path; pairs weighing less than half are dropped if weights are not supported."""
    with TemporaryDirectory() as folder:
        imported = import_data(str(source), Path(folder) / "tables")
        tables = Collection.load(imported.folder)
        found = Collection(*(getattr(tables, name).select(schema.names) for name, schema in SCHEMAS.items()))
        weights = pc.fill_null(found.judgements["weight"], 1.0)
        if holds_weights or pc.min(weights).as_py() == 1.0:
            return _Given(_in_memory(found), f"{source}, as they are")
        kept = found.judgements.filter(pc.greater_equal(weights, HALF))
        left_out = found.judgements.num_rows - kept.num_rows
        said = f"{source}, {left_out:,} of less than half a weight left out, for the format holds no weights"
        return _Given(_in_memory(Collection(found.documents, found.queries, kept, found.negatives)), said)


def _in_memory(collection: Collection) -> Collection:
    """Return a copy that outlives its source files."""
    tables = (getattr(collection, name) for name in SCHEMAS)
    return Collection(*(table.take(pa.array(range(table.num_rows), pa.int64())) for table in tables))


def _as_audited(store: Store, name: str, *, drop: bool, force: bool) -> _Given:
    """Return training pairs after the newest audit's verdicts, and held-out pairs unchanged."""
    exp, outcome = _finished_outcome(store, name, "audit")
    found = Audited(exp, store, outcome)
    refuse_unjudged(exp, force=force, words=_WORDS)
    refuse_too_much(found, drop=drop, force=force, words=_WORDS)
    fates = decide(found.table, drop=drop)
    metas = {result.meta.stage: result.meta for result in outcome.results.values()}

    def read(table: str, *stages: str) -> pa.Table:
        meta = next(metas[stage] for stage in stages if stage in metas and table in metas[stage].artifacts)
        return store.builds.table(meta.ref(table))

    documents = read("corpus", "corrupt", "hide", "chunk", "ingest").select(SCHEMAS["documents"].names)
    queries, answers = read("queries", "ingest"), read("answers", "ingest")
    qrels, negatives = read("qrels", "chunk", "ingest"), read("given_negatives", "chunk", "ingest")
    judgements = list(_judgements(read("noisy_pairs", "corrupt"), queries, qrels, fates))
    texts = dict(zip(answers["query_id"].to_pylist(), answers["aliases"].to_pylist(), strict=True))
    asked = [
        (query_id, text, _split(split), texts.get(query_id, []))
        for query_id, text, split in zip(*(column.to_pylist() for column in queries.columns), strict=True)
    ]
    rows = {"queries": asked, "judgements": judgements, "negatives": list(zip(*_columns(negatives), strict=True))}
    met: list[str] = [fate.action for fate in fates.values()]
    told = [f"{met.count(action)} {word}" for action, word in _TOLD.items() if met.count(action)]
    said = f"{exp.name}, by its audit: {', '.join(told) or 'none changed'}"
    return _Given(Collection(documents, **{name: _table(rows[name], SCHEMAS[name]) for name in rows}), said)


def _judgements(
    pairs: pa.Table, queries: pa.Table, qrels: pa.Table, fates: dict[tuple[str, str], Fate]
) -> Iterator[tuple[Any, ...]]:
    """Return training pairs with their fates, and judgements of the other splits' queries."""
    split_of = dict(zip(queries["query_id"].to_pylist(), queries["split"].to_pylist(), strict=True))
    graded = {(query_id, doc_id): grade for query_id, doc_id, grade in zip(*_columns(qrels), strict=True)}
    for query_id, doc_id, split, source in zip(*_columns(pairs), strict=True):
        fate = fates.get((query_id, doc_id)) if split == "train" else None
        if split != "train" or (fate and fate.action == "drop"):
            continue
        new = fate.new_doc_id if fate and fate.new_doc_id else doc_id
        weight = fate.weight if fate and fate.weight < 1.0 else None
        yield query_id, new, "train", graded.get((query_id, new)), source, weight, None
    for (query_id, doc_id), grade in graded.items():
        if (split := split_of.get(query_id, "train")) != "train":
            yield query_id, doc_id, _split(split), grade, None, None, None


def _split(name: str) -> str:
    """Map a split for export; promotion queries belong to dev, because no format has that split."""
    return "dev" if name == PROMOTION else name


def _columns(table: pa.Table) -> list[list[Any]]:
    return [column.to_pylist() for column in table.columns]


def _table(rows: Rows, schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)], schema)


def _write(variant: type[Format], collection: Collection, target: Path) -> None:
    """Write all files of the format or none.

    Raises:
        StoreError: If one exists or cannot be written.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=".exporting-") as folder:
            try:
                variant.write(collection, Path(folder) / target.name)
            except NoisyirError as error:  # its message names the temporary folder
                raise type(error)(str(error).replace(str(Path(folder)), str(target.parent))) from error
            made = [(path, target.parent / path.name) for path in Path(folder).iterdir()]
            if there := [str(path) for _, path in made if path.exists()]:
                raise StoreError("app.target_exists", target=there[0])
            for path, final in made:
                path.rename(final)
    except OSError as error:
        raise StoreError("app.cannot_write", target=target, error=error) from error


def _finished_outcome(store: Store, name: str, result: str) -> tuple[Experiment, Outcome]:
    """Return settings and builds of the newest finished run with this result.

    Raises:
        StoreError: If there is none.
    """
    experiment = experiments.name_of(name)
    for run in store.runs.all():
        if run["experiment"] != experiment or run["status"] != "done" or result not in run.get("kept", {}):
            continue
        builds = {step: meta for step, made in run["steps"].items() if (meta := built(store, made))}
        kept = {name: builds[step].ref(name) for name, step in run["kept"].items() if step in builds}
        settings = recorded_experiment(run["settings"])
        if settings and result in kept:
            results = {step: Result(meta, cached=True) for step, meta in builds.items()}
            return settings, Outcome(experiment, results, kept, {})
    hint = runs_of(store, name, result)
    raise StoreError("app.no_run_with_result", name=name, url=store.url, result=result, hint=hint)
