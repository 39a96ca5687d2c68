"""Queries held out of data without splits: who is near whom, who stays together, and what the tables say afterwards."""

import re
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.base.errors import DataError
from noisyir.data.held_out import hold_out, near_duplicates
from noisyir.data.settings import HeldOutParams
from tests.refusals import refuses
from tests.world import pairs_world

TEXTS = st.lists(st.text("abcde ", max_size=12), min_size=1, max_size=30)


LONG = st.lists(
    st.lists(st.sampled_from("abcdefghijklmn"), min_size=8, max_size=14).map(" ".join), min_size=2, max_size=30
)


def words(text):
    return frozenset(re.findall(r"\w+", text.casefold())) or frozenset({text})


def components(count, links):
    group = list(range(count))
    for one, other in links:
        old, new = group[other], group[one]
        group = [new if g == old else g for g in group]
    return {frozenset(i for i in range(count) if group[i] == g) for g in group}


@given(st.one_of(TEXTS, LONG), st.sampled_from([0.3, 0.5, 0.8, 1.0]))
@settings(deadline=None)
def test_near_duplicates_are_those_of_a_comparison_of_all_with_all(texts, near):
    sets = [words(text) for text in texts]
    every = [
        (i, j) for i, j in combinations(range(len(texts)), 2) if len(sets[i] & sets[j]) >= near * len(sets[i] | sets[j])
    ]
    assert components(len(texts), near_duplicates(texts, near)) == components(len(texts), every)


@given(LONG, st.sampled_from([0.5, 0.8]), st.integers(0, 30))
@settings(deadline=None)
def test_texts_from_one_on_are_compared_with_those_before(texts, near, known):
    found = {pair for pair in near_duplicates(texts, near, known) if pair[0] < known <= pair[1]}
    sets = [words(text) for text in texts]
    first = [sets.index(one) for one in sets]
    alike = {
        (first[i], j if first[j] >= known else first[j])
        for i in range(min(known, len(texts)))
        for j in range(known, len(texts))
        if len(sets[i] & sets[j]) >= near * len(sets[i] | sets[j]) and first[j] in (j, first[i])
    }
    assert found == {(i, j) for i, j in alike if i < known <= j} | {
        (first[j], j) for j in range(known, len(texts)) if first[j] < known
    }


def tables(queries, docs_of):
    pairs = [(f"q{n}", doc_id) for n, of in enumerate(docs_of) for doc_id in of]
    return pairs_world("queries pairs qrels", queries, pairs=pairs)


@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 40)), min_size=40, max_size=120), st.integers(0, 5)
)
@settings(deadline=None, max_examples=40)
def test_what_belongs_together_is_in_one_split_and_every_pair_is_kept(rows, seed):
    queries = [f"how do I {word} number{n}" for n, (word, _) in enumerate(rows)]
    given_tables = tables(queries, [[f"d{doc}"] for _, doc in rows])
    params = HeldOutParams(dev=0.2, test=0.2, seed=seed)
    found, facts = hold_out(given_tables, {f"d{n}": n for n in range(41)}, params)
    split = dict(zip(found["queries"]["query_id"].to_pylist(), found["queries"]["split"].to_pylist(), strict=True))
    assert list(split.values()).count("test") == facts["split"]["test"] <= round(0.2 * len(rows))
    if facts["split"]["by_documents"]:
        of_doc = {}
        for n, (_, doc) in enumerate(rows):
            of_doc.setdefault(doc, set()).add(split[f"q{n}"])
        assert all(len(splits) == 1 for splits in of_doc.values())
    before = set(zip(*(given_tables["pairs"][c].to_pylist() for c in ("query_id", "doc_id")), strict=True))
    trained = set(zip(*(found["pairs"][c].to_pylist() for c in ("query_id", "doc_id")), strict=True))
    judged = set(zip(*(found["qrels"][c].to_pylist() for c in ("query_id", "doc_id")), strict=True))
    assert trained | judged == before
    assert {q for q, _ in judged} == {q for q, s in split.items() if s != "train"}
    assert {q for q, _ in trained & judged} == {q for q, s in split.items() if s == "dev"}
    assert hold_out(given_tables, {f"d{n}": n for n in range(41)}, params) == (found, facts)


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_a_share_of_the_drawn_dev_queries_is_the_gates_and_teaches_nothing(share):
    rows = tables([f"how do I word{n} number{n}" for n in range(60)], [[f"d{n // 2}"] for n in range(60)])
    of_text, params = {f"d{n}": n for n in range(30)}, HeldOutParams(dev=0.4, test=0.2)
    found, facts = hold_out(rows, of_text, params, share)
    plain = hold_out(rows, of_text, params)[0]["queries"]["split"].to_pylist()
    splits = found["queries"]["split"].to_pylist()
    assert splits.count("promotion") == 24 * share and splits.count("dev") == 24 * (1 - share)
    assert [{"promotion": "dev"}.get(one, one) for one in splits] == plain  # all else is as it was
    assert all(splits[n] == splits[n + 1] for n in range(0, 60, 2))  # queries of one document
    assert "promotion" not in found["pairs"]["split"].to_pylist() and "promotion" in facts["held_out"]
    judged = {*found["qrels"]["query_id"].to_pylist()}
    assert {f"q{n}" for n, one in enumerate(splits) if one == "promotion"} <= judged


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_held_out_pairs_that_are_wrong_are_judged_so_and_change_nothing_in_the_draw(share):
    texts, docs = [f"how do I word{n} number{n}" for n in range(60)], [[f"d{n}", f"e{n}"] for n in range(60)]
    rows, params = tables(texts, docs), HeldOutParams(dev=0.4, test=0.2)
    of_text = {name: name for of in docs for name in of}
    wrong = {(f"q{n}", f"d{n}") for n in range(0, 60, 2)} | {(f"q{n}", f"e{n}") for n in range(0, 60, 4)}
    plain, before = hold_out(rows, of_text, params, share)
    found, facts = hold_out(rows, of_text, params, share, wrong)
    assert found["queries"].equals(plain["queries"])
    as_right, relevance = (
        dict(
            zip(
                zip(*(table[c].to_pylist() for c in ("query_id", "doc_id")), strict=True),
                table["relevance"].to_pylist(),
                strict=True,
            )
        )
        for table in (plain["qrels"], found["qrels"])
    )
    assert relevance == {pair: int(pair not in wrong) for pair in as_right}
    held = wrong & as_right.keys()
    assert facts["held_out"] == f"{before['held_out']}, and {len(held)} of weight 0 count as wrong"
    kept = set(zip(*(found["pairs"][c].to_pylist() for c in ("query_id", "doc_id")), strict=True))
    trained = set(zip(*(plain["pairs"][c].to_pylist() for c in ("query_id", "doc_id")), strict=True))
    assert kept == trained - held


def test_one_document_for_all_lets_documents_be_shared_and_says_so():
    shared = tables([f"q{n} w{n}" for n in range(40)], [["d"]] * 40)
    _, facts = hold_out(shared, {"d": 0}, HeldOutParams())
    assert not facts["split"]["by_documents"] and "documents need not be" in facts["held_out"]
    with refuses(DataError, "data.no_small_group"):
        hold_out(shared, {"d": 0}, HeldOutParams(together="documents"))


def test_too_few_queries_are_refused_with_what_to_do():
    with refuses(DataError, "data.too_few_to_hold_out", n_queries=3):
        hold_out(tables(["a", "b", "c"], [["d0"], ["d1"], ["d2"]]), {"d0": 0, "d1": 1, "d2": 2}, HeldOutParams())
