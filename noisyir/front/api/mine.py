"""`noisyir.mine`: hard negatives for pairs from Python."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.runs import Outcome
from noisyir.audits.texts import texts_of
from noisyir.front.api.given import Rows, as_file, documents_file, model_path
from noisyir.front.api.running import Running, Settings, running
from noisyir.front.api.train import Trained
from noisyir.methods.plans.retrievers import mine_pairs


def mine(
    pairs: Rows,
    corpus: Rows | None = None,
    *,
    model: Any = None,
    sampler: str | Mapping[str, Any] = "uniform",
    filters: Mapping[str, Any] | None = None,
    judges: Sequence[str] = (),
    run: str = "dense",
    per_query: int = 4,
    columns: Mapping[str, str | None] | None = None,
    settings: Settings | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = True,
) -> pa.Table:
    """Mine hard negatives for every training query.

    Args:
        pairs: As for `noisyir.audit`; a query's own documents are never its negatives.
        corpus: As for `noisyir.audit`.
        model: Model for ranks and scores: the result of `noisyir.train`, a SentenceTransformer, a folder or a name;
            None: the packaged static one.
        sampler: topk, uniform, simans, trisampler and others, by name or with settings: {"kind": "simans", "a": 1}.
        filters: Filters applied before sampling, by kind: {"relative_margin": 0.05} is known as PercPos 95 %;
            {"max_positive_cosine": 0.95} removes near-duplicates of the positive (docs/reference/mining.md).
        judges: Keep only candidates that all of these accept: sieve, cross_encoder.
        run: Ranking to sample from: dense (the model's), bm25 or random.
        per_query: Negatives drawn per query.
        columns: As for `noisyir.audit`.
        settings: As for `noisyir.audit`.
        store: As for `noisyir.audit`.
        progress: Whether to show progress.

    Returns:
        One row per negative: query, positive, negative, query_id, doc_id, rank and scores.

    Raises:
        DataError: If the pairs cannot be read.
        ConfigError: If a setting or kind does not exist.

    Examples:
        >>> pairs = [("red fruit", "an apple is red"), ("yellow fruit", "a banana is yellow"),
        ...          ("sky", "the sky is blue")]
        >>> negatives = noisyir.mine(pairs, sampler="topk", per_query=1)
        >>> negatives.select(["query", "negative"]).to_pylist()[0]
        {'query': 'red fruit', 'negative': 'a banana is yellow'}
    """
    plain = sampler if isinstance(sampler, str) else dict(sampler)
    wanted: dict[str, Any] = {"mine.run": run, "mine.per_query": per_query, "mine.sampler": plain}
    wanted |= {"mine.filters": dict(filters)} if filters else {}
    wanted |= {"mine.judges": list(judges)} if judges else {}
    wanted |= {"data.columns": dict(columns)} if columns else {}
    given, overrides = running({**wanted, **(settings or {})}, store, progress)
    weights = str(model.path) if isinstance(model, Trained) else model_path(model, given.home)
    overrides += [f"model.weights={weights}"] if weights else []
    path = as_file(pairs, given.home, "pairs")
    exp = experiment_to_audit(path, overrides, corpus=documents_file(corpus, given.home))
    return _with_texts(given, given.run(exp.model_copy(update={"audit": None}), mine_pairs))


def _with_texts(run: Running, outcome: Outcome) -> pa.Table:
    """Join the drawn negatives with the texts of query, positive and negative, and the mining columns."""
    store = run.store
    kept = {name: store.builds.table(outcome.kept[name]) for name in ("negatives", "candidates", "queries")}
    place = pc.index_in(kept["negatives"]["query_id"], value_set=kept["queries"]["query_id"].combine_chunks())
    rows = kept["negatives"].append_column("place", place).join(kept["candidates"], ["query_id", "doc_id"])
    rows = rows.sort_by([("place", "ascending"), ("draw", "ascending")])
    pairs = store.builds.table(outcome.kept["pairs"], ("query_id", "doc_id", "split"))
    pairs = pairs.filter(pc.equal(pairs["split"], "train"))
    first = dict(zip(reversed(pairs["query_id"].to_pylist()), reversed(pairs["doc_id"].to_pylist()), strict=True))
    positives = [name or first[query] for query, name in zip(*_lists(rows, "query_id", "positive"), strict=True)]
    negatives = rows["doc_id"].to_pylist()
    corpus = store.builds.batches(outcome.kept["corpus"], ("doc_id", "title", "text"))
    texts = texts_of(corpus, {*positives, *negatives})
    asked = dict(zip(*_lists(kept["queries"], "query_id", "text"), strict=True))
    columns = {
        "query": [asked[query] for query in rows["query_id"].to_pylist()],
        "positive": [texts[name] for name in positives],
        "negative": [texts[name] for name in negatives],
    }
    found = pa.table({name: pa.array(values, pa.string()) for name, values in columns.items()})
    more = [name for name in rows.column_names if name not in ("place", "draw")]
    for name in more:
        found = found.append_column("positive_id" if name == "positive" else name, rows[name])
    return found


def _lists(table: pa.Table, *names: str) -> Iterable[list[Any]]:
    return [table[name].to_pylist() for name in names]
