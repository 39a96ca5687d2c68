"""Other people's tools on the protocol's wrong pairs: weights files for `noisyir protocol score`.

    noisyir protocol write tasks --suite small
    python -m bench.other_tools tasks rows --tools cosine_cut cleanlab margin semhash
    noisyir protocol score rows/cosine_cut rows/cleanlab rows/margin rows/semhash --suite small

cosine_cut: the fifth of the pairs whose query and document are least similar is left out (no tool: the usual cut).
cleanlab: `find_label_issues` (Northcutt et al., JAIR 2021) with its default filter, over five-fold probabilities of a
logistic regression that tells the given pairs from shuffled ones by |q - d| and q * d.
margin: sentence-transformers' bitext mining (Artetxe and Schwenk, ACL 2019): cosine over the mean of those to the 4
nearest on either side; the least fifth is left out, for the cut of its example, at 1, leaves none of StaQC's pairs.
semhash: `self_filter_outliers` on the columns query and document, at its default share of a tenth.
people: no tool; the pairs that people call right, of `--sets` by bench.labelled_sets, which has this truth.
as_is: no tool; the vectors rank the documents of the test queries, without training.
All read the same vectors; none but people sees the truth.  --encoder static is quicker, minilm is what their pages
would advise.
"""

import argparse
import csv
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.labelled_sets import VERDICTS

Array = np.ndarray
CUT, NEIGHBOURS, FOLDS, DEPTH = 0.2, 4, 5, 100
AS_IS, PEOPLE = "as_is", "people"


def write_weights(folder: Path, rows: Sequence[tuple[str, str, float]]) -> Path:
    """Write pair weights (query_id, doc_id, weight) to the scorer's input file."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "weights.csv").open("w", encoding="utf-8", newline="") as out:
        writer = csv.writer(out)
        writer.writerow(("query_id", "doc_id", "weight"))
        writer.writerows(rows)
    return folder / "weights.csv"


class Task(NamedTuple):
    """The pairs of a condition and seed: ids, texts, and unit vectors of each pair's query and document.

    tested and corpus: texts of the test queries and of all documents, by id.
    """

    ids: Sequence[tuple[str, str]]
    texts: Sequence[tuple[str, str]]
    queries: Array
    documents: Array
    tested: dict[str, str]
    corpus: dict[str, str]


def cosine_cut(task: Task, encode: Callable[[Sequence[str]], Array]) -> Array:
    """1 for all but the least similar fifth."""
    return _above_cut((task.queries * task.documents).sum(axis=1))


def cleanlab(task: Task, encode: Callable[[Sequence[str]], Array]) -> Array:
    """1 for the pairs that confident learning calls no label issue."""
    from cleanlab.filter import find_label_issues
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    others = task.documents[np.random.default_rng(0).permutation(len(task.documents))]
    features = np.concatenate([_features(task.queries, found) for found in (task.documents, others)])
    labels = np.repeat([1, 0], len(task.ids))
    model = LogisticRegression(max_iter=1000)
    chances = cross_val_predict(model, features, labels, cv=FOLDS, method="predict_proba")
    issues = find_label_issues(labels, chances, n_jobs=1)
    return 1.0 - issues[: len(task.ids)].astype(float)


def margin(task: Task, encode: Callable[[Sequence[str]], Array]) -> Array:
    """1 for all but the fifth whose cosine is least against the mean of those to the nearest documents and queries."""
    queries, documents = (np.unique(side, axis=0) for side in (task.queries, task.documents))
    means = [_nearest(side, others) for side, others in ((task.queries, documents), (task.documents, queries))]
    cosine = (task.queries * task.documents).sum(axis=1)
    return _above_cut(cosine / ((means[0] + means[1]) / 2))


def semhash(task: Task, encode: Callable[[Sequence[str]], Array]) -> Array:
    """1 for the pairs that are no outliers."""
    from semhash import SemHash

    class Encoder:
        """The vectors that the other tools read."""

        def encode(self, inputs: Any, **_: Any) -> Array:
            return encode(list(inputs))

    records = [
        {"pair": str(number), "query": query or " ", "document": document or " "}
        for number, (query, document) in enumerate(task.texts)
    ]
    found = SemHash.from_records(records=records, columns=["query", "document"], model=Encoder())
    kept = {int(record["pair"]) for record in found.self_filter_outliers().selected}
    return np.array([float(number in kept) for number in range(len(records))])


TOOLS = {tool.__name__: tool for tool in (cosine_cut, cleanlab, margin, semhash)}


def _above_cut(scores: Array) -> Array:
    return (scores >= np.quantile(scores, CUT)).astype(float)


def _features(queries: Array, documents: Array) -> Array:
    return np.concatenate([np.abs(queries - documents), queries * documents], axis=1)


def _nearest(vectors: Array, others: Array) -> Array:
    """Each one's mean cosine with its nearest others."""
    count = min(NEIGHBOURS, len(others))
    rows = [np.sort(part @ others.T, axis=1)[:, -count:].mean(axis=1) for part in np.array_split(vectors, 32)]
    return np.concatenate(rows)


class Encoder:
    """Unit vectors of texts; each distinct text is encoded once."""

    def __init__(self, name: str) -> None:
        from noisyir.models.bi_encoder import initial_bi_encoder
        from noisyir.models.settings import InitModelParams
        from noisyir.models.weights import locate_weights

        params = InitModelParams(backbone="transformer" if name == "minilm" else "static")
        self._model = initial_bi_encoder(locate_weights(params.weights, "model.weights"), params).eval()
        self._known: dict[str, Array] = {}

    def __call__(self, texts: Sequence[str]) -> Array:
        from noisyir.retrieval.encode import embed_all

        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            found = embed_all(self._model, self._model.tokenize(new, "passage"), "passage", batch_tokens=4096)
            vectors = np.asarray(found, np.float32)
            vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
            self._known |= dict(zip(new, vectors, strict=True))
        return np.stack([self._known[text] for text in texts])


def read_task(folder: Path, encode: Callable[[Sequence[str]], Array]) -> Task:
    """What `noisyir protocol write` wrote."""
    rows = {
        name: {row["_id"]: row for row in map(json.loads, (folder / f"{name}.jsonl").open(encoding="utf-8"))}
        for name in ("corpus", "queries")
    }
    with (folder / "qrels/train.tsv").open(encoding="utf-8", newline="") as lines:
        ids = [(query, document) for query, document, _ in list(csv.reader(lines, delimiter="\t"))[1:]]
    documents = {name: f"{row.get('title', '')} {row['text']}".strip() for name, row in rows["corpus"].items()}
    texts = [(rows["queries"][query]["text"], documents[document]) for query, document in ids]
    trained = {query for query, _ in ids}
    tested = {name: row["text"] for name, row in rows["queries"].items() if name not in trained}
    vectors = encode([query for query, _ in texts]), encode([document for _, document in texts])
    return Task(ids, texts, *vectors, tested, documents)


def read_verdicts(path: Path) -> dict[tuple[str, str], float]:
    """1 for each pair that people call right, 0 for a wrong one; nothing where nobody looked."""
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as lines:
        return {(query, document): float(right) for query, document, right in csv.reader(lines, delimiter="\t")}


def write_run(task: Task, encode: Callable[[Sequence[str]], Array], folder: Path) -> None:
    """run.trec: the documents nearest to each test query."""
    names = list(task.corpus)
    scores = encode(list(task.tested.values())) @ encode(list(task.corpus.values())).T
    lines = [
        f"{query} Q0 {names[best]} {rank} {of_query[best]:.6f} as_is\n"
        for query, of_query in zip(task.tested, scores, strict=True)
        for rank, best in enumerate(np.argsort(-of_query)[:DEPTH], start=1)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.trec").write_text("".join(lines), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", type=Path, help="written by `noisyir protocol write`")
    parser.add_argument("target", type=Path, help="a folder a tool is written here")
    parser.add_argument("--tools", nargs="+", choices=[*TOOLS, AS_IS, PEOPLE], default=list(TOOLS))
    parser.add_argument("--sets", type=Path, help="of people: where bench.labelled_sets wrote the sets")
    parser.add_argument("--encoder", choices=["minilm", "static"], default="minilm")
    asked = parser.parse_args()
    encode = Encoder(asked.encoder)
    folders = sorted(path.parent for path in asked.tasks.glob("**/corpus.jsonl"))
    for folder in folders:
        task, place = read_task(folder, encode), folder.relative_to(asked.tasks)
        if AS_IS in asked.tools:
            write_run(task, encode, asked.target / AS_IS / place)
        if PEOPLE in asked.tools and (verdicts := read_verdicts(asked.sets / place.parts[0] / VERDICTS)):
            write_weights(asked.target / PEOPLE / place, [(*pair, verdicts[pair]) for pair in task.ids])
        for name in (tool for tool in asked.tools if tool in TOOLS):
            weights = TOOLS[name](task, encode)
            rows = [(*pair, float(weight)) for pair, weight in zip(task.ids, weights, strict=True)]
            write_weights(asked.target / name / place, rows)
            print(f"{place} {name}: {weights.mean():.1%} of {len(rows):,} pairs kept", flush=True)


if __name__ == "__main__":
    main()
