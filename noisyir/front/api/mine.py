"""`noisyir.mine`: hard negatives for pairs as Python has them."""

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
    """Hard negatives of every training query: query, positive, negative, query_id, doc_id, rank and scores, a row each.

    pairs, corpus, columns, settings, store: as of `noisyir.audit`; what pairs give to a query is no negative of it.
    model: ranks and scores: what `noisyir.train` gave, a SentenceTransformer, a folder or a name; None: the packaged
    static one.  run: whose ranking is drawn from: dense (the model's), bm25 or random.
    sampler: topk, uniform, simans, trisampler and others, by name or with settings: {"kind": "simans", "a": 1}.
    filters: candidates dropped before, by kind: {"relative_margin": 0.05} is what is known as PercPos 95 %;
    {"max_positive_cosine": 0.95} keeps off near-duplicates of the positive (docs/reference/mining.md).
    judges: draw what all of these keep: sieve, cross_encoder.  per_query: negatives drawn for a query.
    DataError for pairs that cannot be read; ConfigError for settings and kinds that do not exist.

    >>> pairs = [("red fruit", "an apple is red"), ("yellow fruit", "a banana is yellow"), ("sky", "the sky is blue")]
    >>> negatives = noisyir.mine(pairs, sampler="topk", per_query=1)
    >>> negatives.select(["query", "negative"]).to_pylist()[0]
    {'query': 'red fruit', 'negative': 'a banana is yellow'}
    """
    wanted: dict[str, Any] = {"mine.run": run, "mine.per_query": per_query, "mine.sampler": _plain(sampler)}
    wanted |= {"mine.filters": dict(filters)} if filters else {}
    wanted |= {"mine.judges": list(judges)} if judges else {}
    wanted |= {"data.columns": dict(columns)} if columns else {}
    given, overrides = running({**wanted, **(settings or {})}, store, progress)
    weights = str(model.path) if isinstance(model, Trained) else model_path(model, given.home)
    overrides += [f"model.weights={weights}"] if weights else []
    path = as_file(pairs, given.home, "pairs")
    exp = experiment_to_audit(path, overrides, corpus=documents_file(corpus, given.home))
    return _with_texts(given, given.run(exp.model_copy(update={"audit": None}), mine_pairs))


def _plain(sampler: str | Mapping[str, Any]) -> str | dict[str, Any]:
    return sampler if isinstance(sampler, str) else dict(sampler)


def _with_texts(run: Running, outcome: Outcome) -> pa.Table:
    """The drawn negatives with the texts of query, positive and negative, and what mining knew of them."""
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
