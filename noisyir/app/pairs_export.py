"""Export of pairs in any readable format: after an audit, unchanged, or with mined negatives."""

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.data_import import import_data
from noisyir.app.exports import written_whole
from noisyir.app.label_audit import Audited, said_of_labels
from noisyir.app.label_cleaning import CleaningWords, refuse_too_much, refuse_unjudged
from noisyir.app.lookup import built, finished_runs, runs_of, whole_command
from noisyir.app.runs import Outcome
from noisyir.audits.apply import HALF, decide, negatives_log
from noisyir.audits.files import write_jsonl
from noisyir.audits.pairs_to_clean import Fate
from noisyir.audits.rewriting import rewrite
from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import ConfigError, DataError, StoreError, suggested
from noisyir.base.settings import PROMOTION, Split
from noisyir.data.collection import SCHEMAS, Collection
from noisyir.data.containers import stem
from noisyir.data.examples import ExampleSource
from noisyir.data.fewer_negatives import rows_with, without
from noisyir.data.formats import Format
from noisyir.data.formats.trainers import SentenceTransformers
from noisyir.data.row_files import RowFile
from noisyir.detection.judgements import Pair
from noisyir.engine.build_stage import Result
from noisyir.engine.remote.fetched import located
from noisyir.engine.store import Store
from noisyir.engine.tables import pair_ids, semi_join, table_of
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment, recorded_experiment
from noisyir.retrieval.texts import among

_WORDS = CleaningWords(
    apply="export --as",
    judge_first=(
        "audit it with --sample 50, fill the column verdict of the sample.csv that it writes, audit it again with "
        "--judgements and this file, and then export"
    ),
    assume="an audit with --assume random, and --force here,",
)
_AS_DRAWN = [("query_id", "ascending"), ("draw", "ascending")]
_TOLD = {"relabel": "relabelled", "drop": "left out", "weigh": "with less than half of their weight"}


class _Given(NamedTuple):
    """Pairs to write, with a description of their origin."""

    collection: Collection
    said: str
    left_out: Mapping[Pair, str] = MappingProxyType({})


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
        given = _as_audited(store, name, variant, drop=drop or not variant.holds_weights, force=force)
    given = _of_its_split(given, variant.only_split)
    rows = given.collection.judgements.num_rows
    if not rows:
        raise DataError("app.no_pair_to_write", said=given.said)
    begins = stem(source.name) if source.exists() else experiments.name_of(name)
    target = Path(to) if to else Path(f"{begins}-{kind}{variant.written}")
    written_whole(target, partial(variant.write, given.collection))
    if given.left_out:
        write_jsonl(negatives_log(given.left_out), target.with_name(f"{target.name}.left_out.jsonl"))
    lines = [f"written   {target}: {rows:,} pairs of {given.said}"]
    there, back = _counted(given.collection), _counted(_read(target))
    lines += [f"changed   import reads {back}; given were {there}"] if back != there else []
    return "\n".join([*lines, f"read by   noisyir import {shlex.quote(str(target))}"]), target


def _of_its_split(given: _Given, split: Split | None) -> _Given:
    """Leave out pairs of other splits than the one that a format is read as, if there are some of it."""
    collection = given.collection
    apart = collection.judgements.filter(pc.equal(collection.judgements["split"], split or ""))
    others = sorted({*collection.judgements["split"].to_pylist()} - {split})
    if not (apart.num_rows and others):
        return given
    count, asked = collection.judgements.num_rows - apart.num_rows, pc.unique(apart["query_id"])
    queries, negatives = (
        table.filter(pc.is_in(table["query_id"], value_set=asked))
        for table in (collection.queries, collection.negatives)
    )
    said = f"{given.said}; {count:,} of {' and '.join(others)} left out, for the format has {split} alone"
    return given._replace(
        collection=replace(collection, queries=queries, judgements=apart, negatives=negatives), said=said
    )


def _counted(collection: Collection) -> str:
    """The right pairs by split and the wrong ones, judged so or negatives, in words."""
    grades = pc.fill_null(collection.judgements["relevance"], 1)
    right = Counter(collection.judgements.filter(pc.greater(grades, 0))["split"].to_pylist())
    wrong = collection.judgements.num_rows - right.total() + collection.negatives.num_rows
    by_split = ", ".join(f"{right[split]:,} {split}" for split in ("train", "dev", "test") if right[split])
    return f"{right.total():,} right pairs ({by_split or 'none'}) and {wrong:,} wrong ones"


def _read(path: Path) -> Collection:
    """The data at a path, as `noisyir import` reads it."""
    with TemporaryDirectory() as folder:
        return Collection.load(import_data(str(path), Path(folder) / "tables").folder)


def export_mined(store: Store, outcome: Outcome, variant: type[Format], target: Path, exp: Experiment) -> str:
    """Write training pairs with their hard negatives in a format; return a description of kept and dropped pairs.

    A JSON file's own negatives stay in it in their places, if its format is wanted and nothing else was mined.
    sentence-transformers columns need the same number of negatives per row, so queries with fewer are dropped.

    Raises:
        DataError: If no negative is left.
        StoreError: If the path exists.
    """
    noted = outcome.results["mine"].meta.notes["negatives"]
    pairs, queries, negatives = (store.builds.table(outcome.kept[name]) for name in ("pairs", "queries", "negatives"))
    removed = ", ".join(f"{count:,} by {name}" for name, count in noted["removed"].items() if count)
    if not noted["candidates"]:
        raise DataError("app.nothing_to_mine", documents=store.builds.contents(outcome.kept["corpus"]).rows)
    if not negatives.num_rows:
        raise DataError("app.no_negatives", candidates=noted["candidates"], removed=removed)
    if exp.mine.run == "given" and "chunk" not in outcome.results and (kept := _own_cells(exp, variant)):
        return _sieved(store, outcome, *kept, target)
    counts = pc.value_counts(negatives["query_id"].combine_chunks())
    had, wanted = counts.field("counts").to_numpy(), outcome.results["mine"].meta.params["per_query"]
    enough = _columns_of(had, wanted) if issubclass(variant, SentenceTransformers) else 1
    written = counts.filter(pc.greater_equal(counts.field("counts"), enough)).field("values")
    if issubclass(variant, SentenceTransformers):
        negatives = negatives.filter(pc.less(negatives["draw"], enough))
    pairs, queries, negatives = (
        table.filter(pc.is_in(table["query_id"], value_set=written)) for table in (pairs, queries, negatives)
    )
    named = pa.chunked_array([*pairs["doc_id"].chunks, *negatives["doc_id"].chunks], pa.string())
    corpus = store.builds.batches(outcome.kept["corpus"], SCHEMAS["documents"].names)
    documents, drawn = pa.Table.from_batches(among(corpus, named.unique())), negatives.sort_by(_AS_DRAWN)
    collection = Collection.completed(documents=documents, queries=queries, judgements=pairs, negatives=drawn)
    written_whole(target, partial(variant.write, collection))
    lines = [
        f"{target}: {pairs.num_rows:,} pairs, with {negatives.num_rows:,} hard negatives of {len(written):,} queries"
    ]
    lines += [f"{'labels':<12}{said}" for said in said_of_labels(outcome)]
    if (most := had.max()) < wanted:
        columns = f", or {enough:,}, as here, which rows of equal length hold the most of" if 1 < enough < most else ""
        lines.append(f"{'too few':<12}{wanted:,} wanted, {most:,} to be had: --per-query {most}{columns}")
    lines += [f"{'candidates':<12}{noted['candidates']:,} found" + (f", removed {removed}" if removed else "")]
    if few := noted["queries"] - len(written):
        lines.append(
            f"{'left out':<12}{few:,} queries with " + (f"fewer than {enough:,} negatives" if enough > 1 else "none")
        )
    return "\n".join(lines)


def _columns_of(had: Any, wanted: int) -> int:
    """The number of columns: `wanted`; if no query has as many, the number that holds the most negatives."""
    if had.max() >= wanted:
        return wanted
    return int(max(np.unique(had), key=lambda count: count * (had >= count).sum()))


def _own_cells(exp: Experiment, variant: type[Format]) -> tuple[ExampleSource, RowFile] | None:
    """The data and its JSON file with cells of negatives, if it has the wanted format."""
    source = located(exp.data).open() if isinstance(exp.data, variant) else None
    if not isinstance(source, ExampleSource) or not source.negatives_at:
        return None
    file, columns = source.negatives_at
    return (source, file) if columns and file.suffix in (".json", ".jsonl") else None


def _sieved(store: Store, outcome: Outcome, source: ExampleSource, file: RowFile, target: Path) -> str:
    """Write the file again without the training queries' negatives that were not drawn; say how many went, and why."""
    pairs, drawn = (store.builds.table(outcome.kept[name], PAIR_KEY) for name in ("pairs", "negatives"))
    given = store.builds.table(outcome.results["ingest"].meta.ref("given_negatives"), PAIR_KEY)
    candidates = outcome.results["candidates"].meta.notes["candidates"]
    given = given.filter(pc.is_in(given["query_id"], value_set=pc.unique(pairs["query_id"])))
    gone = given.filter(pa.array(~semi_join(given, drawn)))
    rows = rows_with(source, {*pair_ids(gone)})
    written_whole(target, lambda path: rewrite(file, path, rows, lambda number, row: without(row, rows[number])))
    by = candidates["removed"] | outcome.results["mine"].meta.notes["negatives"]["removed"]
    why = ", ".join(f"{count:,} by {name}" for name, count in by.items() if count)
    return f"{target}: {file.path} without {gone.num_rows:,} of its {given.num_rows:,} negatives ({why or 'none'})"


def format_named(kind: str) -> type[Format]:
    """Return the format to write pairs in.

    Raises:
        ConfigError: If the format cannot be written.
    """
    known = [name for name, variant in Format.variants().items() if variant.written is not None]
    name = kind.replace("-", "_")
    if name not in known:
        raise ConfigError("app.unknown_pairs_format", kind=kind, others=suggested(kind, known))
    return Format.of_kind(name)


def _as_it_is(source: Path, *, holds_weights: bool) -> _Given:
    """Return data by path; pairs weighing less than half are dropped if weights are not supported."""
    found = _read(source)
    weights = pc.fill_null(found.judgements["weight"], 1.0)
    if holds_weights or pc.min(weights).as_py() == 1.0:
        return _Given(found, f"{source}, as they are")
    kept = found.judgements.filter(pc.greater_equal(weights, HALF))
    left_out = found.judgements.num_rows - kept.num_rows
    said = f"{source}, {left_out:,} of less than half a weight left out, for the format holds no weights"
    return _Given(replace(found, judgements=kept), said)


def _as_audited(store: Store, name: str, variant: type[Format], *, drop: bool, force: bool) -> _Given:
    """Return training pairs after the newest audit's verdicts, and held-out pairs unchanged."""
    exp, outcome = _finished_audit(store, name)
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
    gone = found.relevant_negatives if variant.holds_negatives else {}
    rows["negatives"] = [row for row in rows["negatives"] if row[:2] not in gone]
    met: list[str] = [fate.action for fate in fates.values()]
    told = [f"{met.count(action)} {word}" for action, word in _TOLD.items() if met.count(action)]
    told += [f"{len(gone):,} negatives left out as relevant"] if gone else []
    said = f"{exp.name}, by its audit: {', '.join(told) or 'none changed'}"
    return _Given(Collection(documents, **{name: table_of(rows[name], SCHEMAS[name]) for name in rows}), said, gone)


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


def _finished_audit(store: Store, name: str) -> tuple[Experiment, Outcome]:
    """Return settings and builds of the newest finished audit.

    Raises:
        StoreError: If there is none.
    """
    for run in finished_runs(store, name, "audit"):
        if settings := recorded_experiment(run.settings):
            builds = {step: meta for step, made in run.steps.items() if (meta := built(store, made))}
            results = {step: Result(meta, cached=True) for step, meta in builds.items()}
            return settings, Outcome(experiments.name_of(name), results, run.results, {})
    hint, typed = runs_of(store, name, "audit"), shlex.quote(shlex.split(whole_command(store, name))[2])
    raise StoreError("app.no_run_with_result", name=name, typed=typed, url=store.url, result="audit", hint=hint)
