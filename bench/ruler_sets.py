"""Test sets of which people judged the pool: five systems, a judge that never saw the truth, and the labels given.

Systems of a set rank what is there: the runs as they were published, or BM25, trigrams, vectors of words, MiniLM, and
BM25 and MiniLM together.  The judge is logistic regression of the labels given, sparse or wrong as they are, on scores
of BM25 and MiniLM.  A pair of the pool that nobody judged counts as wrong.
"""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression

Array = np.ndarray
Pair = tuple[str, str]
DEPTH, MOST = 10, 300  # pooled of each system, and test queries of a set
_RERANKED = 20  # of each published run: what our own systems put in order
RELEVANT = 2  # the least grade of NIST that is relevant, as TREC has it for passages
_RUNS = {"dl19": ("BM25", "BM25_RM3", "D_BERT_KD_TASB", "OPEN_AI_ADA2", "SPLADE_P_P_ENSEMBLE_DISTIL"),
         "dl21": ("BM25", "BM25_RM3", "SPLADE_P_P_ENSEMBLE_DISTIL")}  # fmt: skip
SETS = ("dl19", "dl21", "staqc", "nl2bash")


class RulerSet(NamedTuple):
    """Pools with what everyone says of them; `heads` are places of each system's first documents, -1 for none."""

    systems: Array
    heads: Array
    pooled: Array
    chance: Array
    given: Array
    right: Array


class Texts(NamedTuple):
    queries: Mapping[str, str]
    documents: Mapping[str, str]
    right: set[Pair]
    given: set[Pair]


def ruler_set(name: str, data: Path, home: Path) -> RulerSet:
    """The set, from the folder where it was made once."""
    path = home / f"{name}.npz"
    if not path.exists():
        home.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **_made(name, data)._asdict())
    with np.load(path) as found:
        return RulerSet(**found)


def _made(name: str, data: Path) -> RulerSet:
    runs: dict[str, dict[str, list[str]]] = {}
    if name in _RUNS:
        texts, runs = _trec(name, data / "trec_dl")
    else:
        texts = {"staqc": _staqc, "nl2bash": _nl2bash}[name](data)
    query_ids, doc_ids = list(texts.queries), list(texts.documents)
    asked, written = [*texts.queries.values()], [*texts.documents.values()]
    scores = {"bm25": bm25(asked, written), "minilm": by_vectors(asked, written, "transformer")}
    if name == "dl21" or not runs:
        scores["both"] = sum(_standard(table) for table in (scores["bm25"], scores["minilm"]))
    if not runs:
        scores |= {"trigrams": _trigrams(asked, written), "words": by_vectors(asked, written, "static")}
    place = {doc_id: number for number, doc_id in enumerate(doc_ids)}
    candidates = {query: sorted({place[d] for run in runs.values() for d in run[query]}) for query in query_ids if runs}
    tops: dict[str, list[list[int]]] = {
        system: [[place[doc_id] for doc_id in run[query][:DEPTH]] for query in query_ids]
        for system, run in runs.items()
    }
    own = {"dl19": (), "dl21": ("minilm", "both")}.get(name, tuple(scores))
    for system in own:
        tops[system] = [
            _top(scores[system][row], np.array(candidates.get(query, range(len(doc_ids)))))
            for row, query in enumerate(query_ids)
        ]
    return _pooled(texts, tops, scores)


def _pooled(texts: Texts, tops: Mapping[str, Sequence[Sequence[int]]], scores: Mapping[str, Array]) -> RulerSet:
    query_ids, doc_ids = list(texts.queries), list(texts.documents)
    place = {doc_id: number for number, doc_id in enumerate(doc_ids)}
    labelled: dict[str, set[int]] = {}
    for query, doc_id in texts.given:
        labelled.setdefault(query, set()).update({place[doc_id]} if doc_id in place else ())
    pools = [
        sorted({doc for top in tops.values() for doc in top[row]} | labelled.get(query, set()))
        for row, query in enumerate(query_ids)
    ]
    shape = len(pools), max(map(len, pools))
    heads = np.full((shape[0], len(tops), DEPTH), -1)
    tables = {name: np.zeros(shape, bool) for name in ("pooled", "given", "right")}
    features = np.zeros((*shape, 2))
    for row, pool in enumerate(pools):
        for system, top in enumerate(tops.values()):
            heads[row, system, : len(top[row])] = [pool.index(doc) for doc in top[row]]
        pairs = [(query_ids[row], doc_ids[doc]) for doc in pool]
        tables["pooled"][row, : len(pool)] = True
        tables["given"][row, : len(pool)] = [pair in texts.given for pair in pairs]
        tables["right"][row, : len(pool)] = [pair in texts.right for pair in pairs]
        for number, name in enumerate(("bm25", "minilm")):
            features[row, : len(pool), number] = _standard(scores[name][row : row + 1, pool])[0]
    there = tables["pooled"]
    fit = LogisticRegression(C=1.0).fit(features[there], tables["given"][there])
    chance = np.zeros(shape)
    chance[there] = fit.predict_proba(features[there])[:, 1]
    return RulerSet(np.array(list(tops)), heads, there, chance, tables["given"], tables["right"])


def _top(scores: Array, allowed: Array) -> list[int]:
    return [int(doc) for doc in allowed[np.argsort(-scores[allowed], kind="stable")[:DEPTH]]]


def _standard(scores: Array) -> Array:
    spread = scores.std(axis=1, keepdims=True)
    return np.asarray((scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0))


def bm25(asked: Sequence[str], written: Sequence[str], k1: float = 0.9, b: float = 0.4) -> Array:
    """BM25 of every query and document."""
    count = CountVectorizer(token_pattern=r"\w+")
    found = count.fit_transform(written).astype(float)
    length = np.asarray(found.sum(axis=1)).ravel()
    frequency = np.bincount(found.indices, minlength=found.shape[1])
    weight = np.log1p((len(written) - frequency + 0.5) / (frequency + 0.5))
    coo = found.tocoo()
    saturated = coo.data * (k1 + 1) / (coo.data + k1 * (1 - b + b * length[coo.row] / length.mean()))
    table = sparse.csr_matrix((saturated * weight[coo.col], (coo.row, coo.col)), found.shape)
    return np.asarray((count.transform(asked).astype(float) @ table.T).todense())


def _trigrams(asked: Sequence[str], written: Sequence[str]) -> Array:
    tfidf = TfidfVectorizer(analyzer="char_wb", ngram_range=(3, 3), sublinear_tf=True)
    table = tfidf.fit_transform(written)
    return np.asarray((tfidf.transform(asked) @ table.T).todense())


def by_vectors(asked: Sequence[str], written: Sequence[str], backbone: str) -> Array:
    """Cosines by the packaged MiniLM, whole or its words alone."""
    from noisyir.models.bi_encoder import initial_bi_encoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.weights import locate_weights
    from noisyir.retrieval.encode import embed_all

    params = InitModelParams.model_validate({"backbone": backbone, "passage_max_len": 128})
    model = initial_bi_encoder(locate_weights("minilm", "model.weights"), params).eval()
    query, passage = (
        embed_all(model, model.tokenize(list(texts), side), side, 4096)
        for texts, side in ((asked, "query"), (written, "passage"))
    )
    query, passage = (side / np.maximum(np.linalg.norm(side, axis=1, keepdims=True), 1e-9) for side in (query, passage))
    return np.asarray(query @ passage.T, np.float64)


def _trec(name: str, folder: Path) -> tuple[Texts, dict[str, dict[str, list[str]]]]:
    """Passages and published runs; one label a query is given, as in MS MARCO: a random right passage."""
    queries, documents = (
        dict(line.split("\t", 1) for line in (folder / f"{name}_{what}.tsv").read_text("utf-8").splitlines())
        for what in ("queries", "passages")
    )
    runs: dict[str, dict[str, list[str]]] = {}
    for line in (folder / f"{name}_runs.tsv").read_text("utf-8").splitlines():
        query, run, rank, passage, *_ = line.split("\t")
        if run in _RUNS[name] and query in queries and int(rank) <= _RERANKED:
            runs.setdefault(run, {}).setdefault(query, []).append(passage)
    found = {passage for run in runs.values() for top in run.values() for passage in top}
    documents = {passage: text for passage, text in documents.items() if passage in found}
    right = {
        (query, passage)
        for query, _, passage, grade in map(str.split, (folder / f"qrels.{name}-passage.txt").read_text().splitlines())
        if query in queries and passage in documents and int(grade) >= RELEVANT
    }
    of_query = {query: sorted(doc for other, doc in right if other == query) for query in queries}
    rng = np.random.default_rng(0)
    given = {(query, str(rng.choice(found))) for query, found in of_query.items() if found}
    return Texts(queries, documents, right, given), {run: runs[run] for run in _RUNS[name]}


def _staqc(data: Path) -> Texts:
    """Questions and code of accepted answers: every pair is given, people called 43 % of them wrong."""
    lines = (data / "staqc_sql" / "sql_annotated.jsonl").read_text(encoding="utf-8").splitlines()
    rows = list(map(json.loads, lines))
    queries = _some({str(row["qid"]): row["title"] for row in rows})
    pairs = {(str(row["qid"]), row["id"]): row["label"] == 1 for row in rows if str(row["qid"]) in queries}
    right = {pair for pair, is_right in pairs.items() if is_right}
    return Texts(queries, {row["id"]: row["code"] for row in rows}, right, set(pairs))


def _nl2bash(data: Path) -> Texts:
    """Descriptions and commands that programs wrote: every pair is given, experts called most of them wrong."""
    right: dict[Pair, bool] = {}
    for path in sorted((data / "nl2bash").glob("manual.evaluations.*.csv")):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                right.setdefault((row["description"], row["prediction"]), row["correct command"].strip() == "y")
    queries = _some({description: description for description, _ in right})
    pairs = {pair: is_right for pair, is_right in right.items() if pair[0] in queries}
    documents = dict.fromkeys(command for _, command in right)
    return Texts(
        queries, {text: text for text in documents}, {p for p, is_right in pairs.items() if is_right}, set(pairs)
    )


def _some(queries: Mapping[str, str]) -> dict[str, str]:
    chosen = np.random.default_rng(0).permutation(sorted(queries))[:MOST]
    return {query: queries[query] for query in sorted(chosen)}
