"""The posterior of relevance on judged candidates: calibrated on one year of TREC Deep Learning, asked of another.

    python -m bench.posterior ../shared/data/trec_dl                             # static vectors: seconds
    python -m bench.posterior ../shared/data/trec_dl --backbone transformer      # MiniLM: minutes

Candidates are the judged passages of a year that the vectors rank first, 100 a query; one relevant passage of each
query, drawn at random, is the known one and no candidate.  Relevant is a grade of 2 or 3.  The first row is what the
pipeline's own posterior reads; the others say what more evidence would change: SPLADE's run, and how near the candidate
is to the known passage.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from noisyir.detection.posterior import calibration_error, curve, evidence, likely_weights
from noisyir.evaluation.negatives import ranking_quality
from noisyir.models.bi_encoder import initial_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import locate_weights
from noisyir.training.validation import embed_all

Array = np.ndarray
YEARS = "dl19", "dl21"
EVIDENCE = {
    "BM25 and vectors": ("bm25", "vectors"),
    "vectors alone": ("vectors",),
    "and SPLADE's run": ("bm25", "vectors", "splade"),
    "and the known passage": ("bm25", "vectors", "known"),
    "all four": ("bm25", "vectors", "splade", "known"),
}
DEPTH, _RELEVANT, _SPLADE = 100, 2, "SPLADE_P_P_ENSEMBLE_DISTIL"


@dataclass(frozen=True)
class Judged:
    """Judged candidates: scores of them by name, the number of their query, and whether they are relevant."""

    scores: Mapping[str, Array]
    query: Array
    relevant: Array


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--backbone", choices=["static", "transformer"], default="static")
    asked = parser.parse_args()
    years = {year: candidates(asked.folder, year, asked.backbone) for year in YEARS}
    print("| evidence | calibrated on | asked of | calibration error | AP by query | AP | relevant |")
    print("|---|---|---|--:|--:|--:|--:|")
    for name, scores in EVIDENCE.items():
        for one, other in (YEARS, YEARS[::-1]):
            found = quality(years[one], years[other], scores)
            print(f"| {name} | {one} | {other} | " + " | ".join(f"{value:.3f}" for value in found.values()) + " |")


def quality(taught_by: Judged, asked: Judged, scores: tuple[str, ...]) -> dict[str, float]:
    """Calibration and ranking of one year's candidates by a curve that another year's judgements drew."""
    columns = [evidence([year.scores[name] for name in scores], year.query) for year in (taught_by, asked)]
    chance = curve(columns[1], likely_weights(columns[0], taught_by.relevant))
    ranked = ranking_quality(chance, asked.relevant, asked.query)
    error = calibration_error(chance, asked.relevant)
    return {"calibration_error": error, **{name: ranked[name] for name in ("AP_query", "AP")},
            "relevant": float(asked.relevant.mean())}  # fmt: skip


def candidates(folder: Path, year: str, backbone: str, seed: int = 0) -> Judged:
    """A year's candidates, and all scores of them."""
    texts, queries = (dict(_rows(folder / f"{year}_{name}.tsv")) for name in ("passages", "queries"))
    grades: dict[str, dict[str, int]] = {}
    for line in (folder / f"qrels.{year}-passage.txt").read_text().splitlines():
        query, _, passage, grade = line.split()
        if passage in texts:
            grades.setdefault(query, {})[passage] = int(grade)
    splade = {}
    for query, rest in _rows(folder / f"{year}_runs.tsv"):
        method, _, passage, score, _ = rest.split("\t")
        if method == _SPLADE:
            splade[query, passage] = float(score)
    asked = sorted(query for query in queries if query in grades)
    judged = sorted({passage for query in asked for passage in grades[query]})
    number = {passage: place for place, passage in enumerate(judged)}
    encoder = initial_bi_encoder(locate_weights("minilm"), InitModelParams(backbone=backbone)).eval()
    of_query, of_passage = (
        embed_all(encoder, encoder.tokenize(read, side), side).numpy()
        for read, side in (([queries[one] for one in asked], "query"), ([texts[one] for one in judged], "passage"))
    )
    lexical, rng = _lexical(texts), np.random.default_rng(seed)
    found: dict[str, list[Array]] = {name: [] for name in ("bm25", "vectors", "splade", "known", "query", "relevant")}
    for place, query in enumerate(asked):
        known = rng.permutation([passage for passage, grade in grades[query].items() if grade >= _RELEVANT])
        if not len(known):
            continue
        others = np.array([passage for passage in sorted(grades[query]) if passage != known[0]])
        near = of_passage[[number[passage] for passage in others]]
        order = np.argsort(-(near @ of_query[place]), kind="stable")[:DEPTH]
        others, near = others[order], near[order]
        by_words = lexical(queries[query])
        hits = np.array([splade.get((query, passage), np.nan) for passage in others])
        floor = np.nanmin(hits) if np.isfinite(hits).any() else 0.0
        found["bm25"].append(np.array([by_words[passage] for passage in others]))
        found["vectors"].append(near @ of_query[place])
        found["splade"].append(np.where(np.isnan(hits), floor, hits))
        found["known"].append(near @ of_passage[number[known[0]]])
        found["query"].append(np.full(len(others), len(found["query"])))
        found["relevant"].append(np.array([grades[query][passage] >= _RELEVANT for passage in others]))
    joined = {name: np.concatenate(values) for name, values in found.items()}
    return Judged(joined, joined.pop("query"), joined.pop("relevant"))


def _rows(path: Path) -> Iterator[tuple[str, str]]:
    """The first column of each line, and the rest; a line of names, if there is one, is left out."""
    for line in path.read_text(encoding="utf-8").splitlines():
        first, _, rest = line.partition("\t")
        if first not in ("pid", "qid"):
            yield first, rest


def _lexical(texts: dict[str, str]) -> Callable[[str], dict[str, float]]:
    """A function from a query to BM25's score of every passage by its id."""
    from tempfile import TemporaryDirectory

    from noisyir.retrieval.numpy_bm25 import NumpyBm25, build

    with TemporaryDirectory() as folder:
        table = {"doc_id": list(texts), "title": [""] * len(texts), "text": list(texts.values())}
        build([pa.RecordBatch.from_pydict(table)], Path(folder) / "index")
        searcher = NumpyBm25(Path(folder) / "index", k1=0.9, b=0.4)
    ids = searcher.doc_ids.to_pylist()

    def scores(query: str) -> dict[str, float]:
        found = searcher.scores(query)
        return dict(zip(ids, np.zeros(len(ids)) if found is None else found.tolist(), strict=True))

    return scores


if __name__ == "__main__":
    main()
