"""Both engines: same formula, sane hits for odd queries, and Pyserini's own ranking from Lucene."""

import random

import numpy as np
import pyarrow as pa
import pytest

from noisyir.engine.runtime import Runtime
from noisyir.retrieval.analysis import analyse
from noisyir.retrieval.bm25 import build_lexical_index, open_lexical_index
from noisyir.retrieval.settings import Bm25Params

HEAP = Runtime().java_heap
WORDS = [f"{a}{b}" for a in ("ba", "do", "fi", "ku", "mo") for b in ("lan", "pert", "sim", "tov", "rad", "gun")]
ODD = {  # no hits, whatever the engine
    "empty": "",
    "blank": " \t\n",
    "stop words": "to be or not to be",
    "marks": '"(){}[]^~*?:\\/ + - && ||',
    "unknown": "zzzyx",
}


def documents(texts, ids=None, titles=None):
    ids = ids or [f"d{n:03d}" for n in range(len(texts))]
    return pa.record_batch({"doc_id": ids, "title": titles or [""] * len(texts), "text": texts})


def build(engine, folder, *batches, threads=2):
    folder.mkdir(parents=True)
    build_lexical_index(engine, iter(batches), folder, Runtime(threads=threads))
    return folder


def open_(folder, k1=0.9, b=0.4, threads=2):
    return open_lexical_index(folder, Bm25Params(k1=k1, b=b, lengths="rounded"), Runtime(threads=threads))


def rankings(hits):
    ends = np.cumsum(hits.counts)
    ids, scores = hits.doc_ids.to_pylist(), hits.scores.tolist()
    starts = ends - hits.counts
    return [list(zip(ids[a:b], scores[a:b], strict=True)) for a, b in zip(starts, ends, strict=True)]


@pytest.fixture(scope="session")
def texts():
    """300 texts of 5 to 35 words: shorter than 40, so that Lucene stores their lengths exactly."""
    draw = random.Random(7)
    return [" ".join(draw.choices(WORDS, k=draw.randint(5, 35))) for _ in range(300)]


@pytest.fixture(scope="session")
def queries(texts):
    draw = random.Random(8)
    return [" ".join(draw.choices(WORDS, k=3)) for _ in range(40)]


@pytest.fixture(scope="session")
def indexes(texts, tmp_path_factory):
    """The same documents in an index of each engine, given in two batches."""
    halves = documents(texts[:170], titles=["title"] * 170), documents(texts[170:], [f"e{n}" for n in range(130)])
    root = tmp_path_factory.mktemp("indexes")
    return {engine: build(engine, root / engine, *halves) for engine in ("pyserini", "bm25s")}


@pytest.mark.parametrize(("k1", "b"), [(0.9, 0.4), (1.6, 0.75)])
def test_both_engines_give_the_same_documents_and_scores(indexes, queries, k1, b):
    lucene, numpy = (rankings(open_(indexes[e], k1, b).search(queries, 20)) for e in ("pyserini", "bm25s"))
    for left, right in zip(lucene, numpy, strict=True):
        assert len(left) == len(right) == 20
        np.testing.assert_allclose([s for _, s in left], [s for _, s in right], atol=2e-4)  # Anserini's rounding
        worst = right[-1][1] + 2e-4
        assert {i for i, s in left if s > worst} == {i for i, s in right if s > worst}


def test_lengths_are_rounded_as_lucene_stores_them_and_documents_without_terms_do_not_count(tmp_path):
    draw = random.Random(9)
    texts = [" ".join(draw.choices(WORDS, k=n)) for n in (*range(20, 60), *range(60, 3000, 97))] + ["to be", "", "..."]
    asked = [" ".join(draw.choices(WORDS, k=2)) for _ in range(20)]
    folders = {engine: build(engine, tmp_path / engine, documents(texts)) for engine in ("pyserini", "bm25s")}
    lucene, numpy = (list(map(dict, rankings(open_(folders[e], b=0.9).search(asked, 100)))) for e in folders)
    for theirs, ours in zip(lucene, numpy, strict=True):
        assert ours == pytest.approx(theirs, abs=2e-4)
    counted = open_lexical_index(folders["bm25s"], Bm25Params(b=0.9), Runtime(threads=1))
    (exact,) = map(dict, rankings(counted.search(asked[:1], 100)))
    assert exact.keys() == lucene[0].keys() and exact != pytest.approx(lucene[0], abs=0.01)


@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_odd_queries_have_no_hits_and_do_not_harm_their_neighbours(indexes, queries, engine):
    searcher = open_(indexes[engine])
    (alone,) = rankings(searcher.search(queries[:1], 10))
    among = rankings(searcher.search([*ODD.values(), queries[0]], 10))
    assert among == [[]] * len(ODD) + [alone]
    assert rankings(searcher.search([ODD["empty"]], 10)) == [[]]


@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_a_query_of_thousands_of_terms_is_searched(indexes, engine):
    long = " ".join([*(f"unknown{n}" for n in range(5000)), WORDS[0]])
    searcher = open_(indexes[engine])
    assert rankings(searcher.search([long], 10)) == rankings(searcher.search([WORDS[0]], 10))


@pytest.mark.parametrize("engine", ["pyserini", "bm25s"])
def test_equal_scores_are_in_the_order_of_document_ids(tmp_path, engine):
    ids = ["z", "a b", "10", "9", "\N{GRINNING FACE}", "é"]
    folder = build(engine, tmp_path / engine, documents(["red fox \N{ROCKET}"] * 6, ids))
    (found,) = rankings(open_(folder).search(["\N{ROCKET} foxes"], 4))
    assert [i for i, _ in found] == sorted(ids)[:4]


def test_lucene_finds_the_same_whatever_the_number_of_threads(indexes, texts, queries, tmp_path):
    alone = build("pyserini", tmp_path / "alone", documents(texts[:170], titles=["title"] * 170),
                  documents(texts[170:], [f"e{n}" for n in range(130)]), threads=1)  # fmt: skip
    assert rankings(open_(alone, threads=1).search(queries, 50)) == rankings(
        open_(indexes["pyserini"]).search(queries, 50)
    )


def test_lucene_gives_pyserinis_ranking(indexes, queries, monkeypatch):
    open_(indexes["pyserini"])  # starts the JVM our way
    monkeypatch.setenv("OPENAI_API_KEY", "unused")  # pyserini builds a client when it is imported
    from pyserini.search.lucene import LuceneSearcher

    raw = LuceneSearcher(str(indexes["pyserini"] / "pyserini"))
    raw.set_bm25(1.2, 0.7)
    ids = [str(n) for n in range(len(queries))]
    theirs = raw.batch_search(queries, ids, k=30, threads=2)
    ours = rankings(open_(indexes["pyserini"], 1.2, 0.7).search(queries, 30))
    assert ours == [[(hit.docid, hit.score) for hit in theirs[i]] for i in ids]


def test_nothing_is_written_to_stdout(texts, queries, tmp_path, capfd):
    folder = build("pyserini", tmp_path / "quiet", documents(texts))
    open_(folder).search(queries, 5)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_the_bm25s_index_has_the_same_bytes_each_time_and_no_pickle(indexes, texts, tmp_path):
    halves = documents(texts[:170], titles=["title"] * 170), documents(texts[170:], [f"e{n}" for n in range(130)])
    again = build("bm25s", tmp_path / "again", *halves)
    files = sorted(path.relative_to(again) for path in again.rglob("*") if path.is_file())
    assert [path.suffix for path in files] == [".json", ".parquet", ".json"]
    for path in files:
        assert (again / path).read_bytes() == (indexes["bm25s"] / path).read_bytes()


def test_analysis_is_that_of_lucenes_english_analyser(indexes):
    from noisyir.retrieval.java import java_class

    text = "The runners' shoes: John's 3.14 can't-stop U.S.A. foo_bar naïve ponies, us vs ©2020 e-mail x@y.org I'M"
    analyser = java_class("io.anserini.analysis.DefaultEnglishAnalyzer", HEAP).newDefaultInstance()
    theirs = list(java_class("io.anserini.analysis.AnalyzerUtils", HEAP).analyze(analyser, text).toArray())
    assert analyse(text) == theirs
