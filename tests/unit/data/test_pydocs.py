"""The built-in data set: its split leaks nothing, its ids are stable, a small look at it is consistent."""

import time
from dataclasses import replace

import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.pydocs import Documented, Pydocs, collect, hold_out, mine_modules, package_of, query_id
from noisyir.data.stages.ingest import INGEST
from tests.refusals import refuses


def test_equal_codes_are_one_document_and_equal_paragraphs_one_query():
    modules = [
        ("a", [Documented("f", "first text", "code 1"), Documented("f", "first text", "code 2")]),
        ("b", [Documented("g", "second text", "code 1")]),
        ("broken", None),
    ]
    found = collect(modules, max_documents=None)
    assert found.doc_ids == {"code 1": "a:f", "code 2": "a:f#2"}
    assert found.positives == {"first text": ["a:f", "a:f#2"], "second text": ["a:f"]}
    assert found.facts["modules_unreadable"] == ["broken"]


def test_no_document_of_a_held_out_query_belongs_to_another_query():
    positives = {f"text {n}": [f"d{n}"] for n in range(40)} | {f"twin {n}": ["d0", f"e{n}"] for n in range(5)}
    held_out = hold_out(positives, dev=8, test=12)
    assert sorted(held_out.values()) == ["dev"] * 8 + ["test"] * 12
    for text in held_out:
        others = {doc for other, docs in positives.items() if other != text for doc in docs}
        assert not others & set(positives[text])


def test_the_split_of_a_query_is_decided_by_its_text():
    positives = {f"text {n}": [f"d{n}"] for n in range(40)}
    assert hold_out(positives, dev=5, test=5) == hold_out(dict(reversed(positives.items())), dev=5, test=5)
    assert query_id("text 1") == query_id("text 1") != query_id("text 2")


@pytest.mark.parametrize(
    ("doc_id", "package"),
    [
        ("numpy.linalg._linalg:norm", "numpy"),
        ("sklearn:show_versions", "sklearn"),
        ("json.decoder:JSONDecoder.decode#2", "stdlib"),
        ("enum:Flag.f", "stdlib"),
    ],
)
def test_the_source_of_a_pair_is_its_top_package(doc_id, package):
    assert package_of(doc_id) == package


def test_holding_out_more_than_half_is_refused():
    with refuses(DataError, "data.too_few_docstrings", dev=3, test=3):
        hold_out({f"text {n}": [f"d{n}"] for n in range(10)}, dev=3, test=3)


def test_unreadable_files_are_reported_and_do_not_stop_the_rest(tmp_path):
    texts = {"good": 'def f(a):\n    """Three words here."""\n    a += 1\n    return a\n', "bad": '"""'}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / "latin.py").write_bytes(b'"""caf\xe9"""')
    modules = [(name, tmp_path / f"{name}.py") for name in ("bad", "latin", "good")]
    [(_, bad), (_, latin), (_, good)] = mine_modules(modules)
    assert bad is None and latin is None and [found.name for found in good] == ["f"]


def test_a_small_look_is_consistent_and_repeatable(run_stage_on):
    params = Pydocs(dev_queries=20, test_queries=30, max_documents=400)
    tables = run_stage_on(INGEST, params, {})
    corpus, queries, qrels = tables["corpus"], tables["queries"], tables["qrels"]
    assert corpus.num_rows == 400 and corpus["doc_row"].to_pylist() == list(range(400))
    assert queries["split"].to_pylist().count("test") == 30 and queries["split"].to_pylist().count("dev") == 20
    assert set(qrels["doc_id"].to_pylist()) == set(corpus["doc_id"].to_pylist())
    texts = dict(zip(corpus["doc_id"].to_pylist(), corpus["text"].to_pylist(), strict=True))
    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    assert not any(asked[row["query_id"]] in " ".join(texts[row["doc_id"]].split()) for row in qrels.to_pylist())
    assert set(tables["pairs"]["source"].to_pylist()) == {"stdlib"}
    again = run_stage_on(replace(INGEST, version=0), params, {})  # under another key, so that it is not the first one
    assert all(tables[name] == again[name] for name in tables)


def test_the_digest_is_quick_and_stable():
    params = Pydocs()
    first = params.digest()
    began = time.process_time()
    assert params.digest() == first
    assert time.process_time() - began < 0.3
