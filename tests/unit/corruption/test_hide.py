"""Hiding makes exactly the asked number of relevant documents nameless, keeps the truth, and loses nothing else."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import DataError
from noisyir.corruption.hiding import Hiding, NearDuplicates, Positives, edited, edited_copies, hideable, text_key
from noisyir.corruption.stages.hide import HIDE
from noisyir.data.artifacts import CORPUS, PAIRS
from tests.refusals import refuses
from tests.world import pairs_world, table

QUERIES, PER_QUERY, DOCUMENTS = 40, 4, 200


def data():
    """Query n of 40 has documents 4n to 4n + 3, the last 5 are dev queries; documents 160 to 199 have no pair.

    Document 0 is a dev query's too, and by the judgements document 1 is a test query's.
    """
    pairs = [(f"q{n // 4}", f"d{n}", f"s{n % 3}") for n in range(QUERIES * PER_QUERY)] + [("q39", "d0")]
    return pairs_world(
        "pairs corpus qrels",
        [""] * QUERIES,
        [(f"title {n}", " ".join(f"w{n}x{m}" for m in range(40))) for n in range(DOCUMENTS)],
        splits={f"q{n}": "dev" for n in range(QUERIES - 5, QUERIES)},
        pairs=pairs,
        judged=[(*pair[:2], 1) for pair in pairs] + [("test", "d1", 1), ("test", "d2", 0)],
    )


def shuffled(given):
    rng = np.random.default_rng(5)
    return {name: table.take(rng.permutation(len(table))) for name, table in given.items()}


def rows(table, *columns):
    return set(zip(*(table[column].to_pylist() for column in columns), strict=True))


@pytest.fixture
def note_of(store):
    """The note of the only build of `hide`."""

    def note():
        [meta] = [meta for meta in store.builds.all() if meta.stage == "hide"]
        return meta.notes["hidden"]

    return note


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_exactly_the_asked_share_of_hideable_pairs_is_hidden(run_stage_on, note_of, rate):
    given = data()
    tables = run_stage_on(HIDE, Positives(rate=rate), given)
    pairs, hidden = tables["pairs"], tables["hidden"]
    assert hidden.num_rows == round(rate * 105)
    assert set(hidden["kind"].to_pylist()) == {"positives"} and hidden["edit_rate"].null_count == len(hidden)
    assert pairs.num_rows + hidden.num_rows == given["pairs"].num_rows
    key = ("query_id", "doc_id")
    assert rows(pairs, *key) | rows(hidden, *key) == rows(given["pairs"], *key)
    assert rows(pairs, *PAIRS.columns) <= rows(given["pairs"], *PAIRS.columns), "split and source stay"
    assert set(pairs["query_id"].to_pylist()) == {f"q{n}" for n in range(QUERIES)}, "each keeps a pair"
    assert sum(split == "dev" for split in pairs["split"].to_pylist()) == 21
    assert tables["corpus"] == given["corpus"]
    assert note_of() == {"mechanism": "positives", "training_pairs": 140, "hideable": 105, "hidden": round(rate * 105)}


def test_each_pair_of_a_query_is_equally_likely_to_stay():
    """Of 3 pairs each stays in 1,000 of 3,000 draws, with a standard deviation of 25.8; the lonely one always."""
    query, rng = np.array([7, 3, 7, 7]), np.random.default_rng(0)
    free = np.sum([hideable(query, rng) for _ in range(3000)], axis=0)
    assert free[1] == 0
    assert abs(free[[0, 2, 3]] - 2000).max() < 5 * 25.8 and free.sum() == 6000


@pytest.mark.parametrize("mechanism", ["positives", "near_duplicates"])
def test_rate_0_changes_nothing(run_stage_on, mechanism):
    given = data()
    given["pairs"] = given["pairs"].take(list(range(0, QUERIES * PER_QUERY, PER_QUERY)))  # none that could be hidden
    tables = run_stage_on(HIDE, Hiding.parse({"kind": mechanism, "rate": 0}), given)
    assert (tables["corpus"], tables["pairs"]) == (given["corpus"], given["pairs"])
    assert tables["hidden"].num_rows == 0


@pytest.mark.parametrize("mechanism", ["positives", "near_duplicates"])
def test_the_seed_alone_decides_and_not_the_order_of_the_tables(run_stage_on, mechanism):
    settings = {"copies": 2} if mechanism == "near_duplicates" else {}
    given, params = data(), Hiding.parse({"kind": mechanism, "rate": 0.5, **settings})
    first = run_stage_on(HIDE, params, given, seed=1)
    other = run_stage_on(HIDE, params, shuffled(given), seed=1)
    assert first["hidden"] == other["hidden"]
    for name in ("pairs", "corpus"):
        assert rows(first[name], *first[name].column_names) == rows(other[name], *first[name].column_names)
    assert first["hidden"] != run_stage_on(HIDE, params, given, seed=2)["hidden"]


def test_positives_need_queries_with_several_pairs(run_stage_on):
    given = data()
    given["pairs"] = given["pairs"].take(list(range(0, QUERIES * PER_QUERY, PER_QUERY)))
    with refuses(DataError, "corruption.nothing_to_hide", pairs=35):
        run_stage_on(HIDE, Positives(rate=0.1), given)


def test_near_duplicates_join_the_corpus_and_stand_for_every_query_of_their_original(run_stage_on, note_of):
    given = data()
    given["pairs"] = pa.concat_tables([given["pairs"], table(PAIRS, [("q30", "d10", "train")])])
    tables = run_stage_on(HIDE, NearDuplicates(rate=1, copies=3), given)
    corpus, hidden = tables["corpus"], tables["hidden"].to_pylist()
    copies = corpus.slice(DOCUMENTS).to_pylist()
    assert corpus.slice(0, DOCUMENTS) == given["corpus"] and tables["pairs"] == given["pairs"]
    assert corpus["doc_row"].to_pylist() == list(range(DOCUMENTS + 138 * 3))
    # of 140 training documents one is a dev query's too, and one a test query's
    assert {row["doc_id"] for row in copies} == {f"d{n}~{m}" for n in range(2, 140) for m in (1, 2, 3)}
    texts = {row["doc_id"]: row for row in given["corpus"].to_pylist()}
    assert all(row["title"] == texts[row["doc_id"].split("~")[0]]["title"] for row in copies)
    assert len(set(corpus["text"].to_pylist())) == corpus.num_rows
    asked = {row["query_id"] for row in hidden if row["doc_id"] == "d10~2"}
    assert asked == {"q2", "q30"} and len(hidden) == 139 * 3
    assert {row["kind"] for row in hidden} == {"near_duplicates"}
    assert rows(tables["hidden"], "edit_rate") == {(float(np.float32(rate)),) for rate in (0.05, 0.1, 0.2)}
    assert note_of() == {
        "mechanism": "near_duplicates",
        "eligible_documents": 138,
        "copied_documents": 138,
        "copies": 414,
        "copies_edited_again": note_of()["copies_edited_again"],
        "copies_given_up": 0,
        "hidden": 417,
    }


def test_an_edit_touches_as_many_words_as_its_rate_says(run_stage_on):
    """Of 40 words 4 are edited at 0.1: a swap moves two of them, a deletion shifts the others."""
    given = data()
    tables = run_stage_on(HIDE, NearDuplicates(rate=1, edit_rates=(0.1,)), given)
    originals = dict(zip(given["corpus"]["doc_id"].to_pylist(), given["corpus"]["text"].to_pylist(), strict=True))
    foreign, missing = 0, 0
    for row in tables["corpus"].slice(DOCUMENTS).to_pylist():
        words, copied = originals[row["doc_id"].split("~")[0]].split(), row["text"].split()
        new, gone = set(copied) - set(words), set(words) - set(copied)
        assert len(new) <= len(gone) <= 4 and 36 <= len(copied) <= 40
        foreign, missing = foreign + len(new), missing + len(gone)
    edits = 138 * 4  # a third each, with a standard deviation of 11.1
    assert abs(foreign - edits / 3) < 60 and abs(missing - 2 * edits / 3) < 60


@pytest.mark.parametrize(("words", "rate", "edits"), [(1, 1.0, 1), (10, 0.0, 1), (10, 0.04, 1), (10, 0.3, 3)])
def test_round_rate_times_words_are_edited_and_at_least_one(words, rate, edits):
    """An edit deletes at most one word and brings in at most one, and in 1,000 tries all of them do either once."""
    tries = [edited(["old"] * words, rate, lambda: "new", np.random.default_rng(seed)).split() for seed in range(1000)]
    assert min(map(len, tries)) == words - edits
    assert max(copied.count("new") for copied in tries) == edits


def test_a_copy_is_never_equal_to_a_document_or_another_copy():
    """Of `a b` all edits without foreign words are: a, b, `b a`; where `b a` and a exist only b is left to find."""
    known = np.sort(np.array([text_key(text) for text in ("a b", "b  a", "a", "a a", "b b")], np.uint64))
    copies = list(edited_copies(["a b"], 3, [0.1], known, np.random.default_rng(0)))
    assert [copy.text for copy in copies].count("b") == 1
    assert [copy.text for copy in copies].count(None) == 2


def test_a_document_without_words_is_given_up_and_counted(run_stage_on, note_of):
    given = data()
    given["corpus"] = pa.table([*given["corpus"].columns[:3], pa.array([""] * DOCUMENTS)], schema=CORPUS.schema)
    tables = run_stage_on(HIDE, NearDuplicates(rate=0.5), given)
    assert tables["corpus"] == given["corpus"] and tables["hidden"].num_rows == 0
    assert note_of()["copies_given_up"] == note_of()["copied_documents"] == 69


def test_without_judgements_only_the_pairs_say_what_is_held_out(run_stage_on, note_of):
    given = data()
    del given["qrels"]
    run_stage_on(HIDE, NearDuplicates(rate=1), given)
    assert note_of()["eligible_documents"] == 139


def test_an_id_in_use_and_a_missing_document_are_errors(run_stage_on):
    given, params = data(), NearDuplicates(rate=1)
    used = table(CORPUS, [("d7~1", DOCUMENTS, "", "x")])
    with refuses(DataError, "corruption.copy_id_in_use", id="d7~1", original="d7"):
        run_stage_on(HIDE, params, given | {"corpus": pa.concat_tables([given["corpus"], used])})
    with refuses(DataError, "corruption.missing_documents", count=2, example="d138"):
        run_stage_on(HIDE, params, given | {"corpus": given["corpus"].slice(0, 138)})


def test_near_duplicates_need_documents_that_are_not_held_out(run_stage_on):
    given = data()
    given["pairs"] = given["pairs"].filter(pa.array([split == "dev" for split in given["pairs"]["split"].to_pylist()]))
    with refuses(DataError, "corruption.nothing_to_copy", pairs=0):
        run_stage_on(HIDE, NearDuplicates(rate=0.1), given)
