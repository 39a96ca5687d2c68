"""The audit's parts: words, reasons, CSV cells and the histogram."""

import csv
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.schemas.noise import COMPETITORS
from noisyir.verdicts.csv_files import guard, unguard, write_csv
from noisyir.verdicts.histogram import bin_scores, border, component, histogram
from noisyir.verdicts.reasons import Evidence, chance, reason
from noisyir.verdicts.rows import better_documents, first_of_each
from noisyir.verdicts.words import read_texts, shared_words, words
from tests.unit.stages.audit_world import table

PAIR = {
    "is_clean": False,
    "by_hand": False,
    "score": 7.25,
    "p_clean": 0.02,
    "rank": None,
    "similarity": None,
    "better": None,
    "shared": 0,
}


@pytest.mark.parametrize(
    ("known", "said"),
    [
        (
            {"better": ("d7", 0.71), "similarity": 0.22, "rank": 1240, "shared": 3},
            "Another document fits the query better: d7 scores 0.71, this one 0.22 (rank 1,240).",
        ),
        (
            {"better": ("d7", 0.7123), "similarity": 0.7121, "rank": 2, "shared": 0, "is_clean": True},
            "Other documents fit better (d7 scores 0.7123, this one 0.7121; rank 2, no telling word shared), "
            "but the pair's score 7.25 lies among those of right pairs.",
        ),
        ({"rank": 1, "is_clean": True}, "The document is found first for its query."),
        (
            {"rank": 1},
            "The document is found first for its query, but its score 7.25 lies among those of wrong pairs "
            "(chance of being right 0.02).",
        ),
        (
            {},
            "The document shares no telling word with the query; its score 7.25 lies among those of wrong pairs "
            "(chance of being right 0.02).",
        ),
        (
            {"is_clean": True, "score": -0.5, "p_clean": 0.999, "shared": 1},
            "The document shares 1 telling word with the query; its score -0.50 lies among those of right pairs "
            "(chance of being right >0.99).",
        ),
        ({"better": ("d7", 0.71), "similarity": 0.22, "rank": 3, "by_hand": True}, "Judged wrong by hand."),
        ({"rank": 1, "by_hand": True, "is_clean": True}, "Judged clean by hand."),
    ],
)
def test_the_reason_is_one_sentence_with_the_strongest_numbers(known, said):
    assert reason(Evidence(**PAIR | known)) == said


def test_a_chance_is_never_shown_as_certain():
    assert [chance(p) for p in (0.0, 0.004, 0.006, 0.5, 0.994, 0.996, 1.0)] == [
        "<0.01", "<0.01", "0.01", "0.50", "0.99", ">0.99", ">0.99",
    ]  # fmt: skip


def test_words_are_folded_runs_of_letters_marks_and_digits():
    assert words("Straße_7: don't; caf\u00e9, हिन्दी!") == ["strasse", "7", "don", "t", "caf\u00e9", "हिन्दी"]
    assert shared_words("Where is BERN?", "Bern is a city", {"is"}) == {"bern"}


def test_words_of_more_than_a_tenth_of_the_texts_are_common_once_there_are_enough():
    texts = [f"the word{n}" + (" rare" if n < 10 else "") for n in range(100)]
    rows = pa.table({"doc_id": [f"d{n}" for n in range(100)], "title": [""] * 100, "text": texts})
    found = read_texts(rows.to_batches(30), pa.array(["d5"]), ["the rare word5"])
    assert found.common == {"the"} and found.corpus == 100
    assert found.documents.num_rows == 1
    few = read_texts(rows.slice(0, 40).to_batches(), pa.array(["d5"]), ["the rare word5"])
    assert few.common == set()


def test_better_documents_are_those_above_the_pairs_own():
    kind = pa.schema([pa.field(name, kind, True) for name, kind in COMPETITORS.columns.items()])
    rows = table(COMPETITORS, [("q", "d", 0.5, 3, ["a", "b", "c"], [0.9, 0.6, 0.5]), ("r", "e", 0.8, 1, ["a"], [0.1])])
    rows = pa.concat_tables([rows.cast(kind), pa.Table.from_pylist([{"query_id": "s"}], schema=kind)])
    ids, similarities = better_documents(rows)
    assert ids.to_pylist() == [["a", "b"], [], []]
    assert [pytest.approx(found) for found in similarities.to_pylist()] == [[0.9, 0.6], [], []]
    assert first_of_each(ids, 1).to_pylist() == [["a"], [], []]
    assert first_of_each(ids.slice(1), 1).to_pylist() == [[], []]


@given(st.text(alphabet="'=+-@\t\r\na1", max_size=6))
def test_no_cell_starts_a_formula_and_every_cell_reads_back(text):
    guarded = guard(text)
    assert not re.match(r"[=+\-@\t\r\n]", guarded)
    assert unguard(guarded) == text


def test_csv_keeps_numbers_lists_nulls_and_every_character(tmp_path):
    path = tmp_path / "x.csv"
    texts = ["=1+1", "-2", "@x", "+3", "a,b", 'say "hi"', "two\nlines", "naïve", "'=", ""]
    rows = pa.table(
        {
            "text": texts,
            "number": pa.array([0.1, None, *[-1.5] * 8], pa.float32()),
            "list": pa.array([["a,b", '"'], *[[]] * 9]),
        }
    )
    write_csv([rows.slice(0, 4), rows.slice(4)], path)
    with path.open(encoding="utf-8-sig", newline="") as file:
        read = list(csv.DictReader(file))
    assert [unguard(row["text"]) for row in read] == texts
    assert [row["number"] for row in read[:3]] == ["0.1", "", "-1.5"]
    assert [row["list"] for row in read[:2]] == ['["a,b", "\\""]', "[]"]


def test_every_pair_is_in_one_bin():
    scores = np.random.default_rng(0).normal(size=5000)
    is_clean = scores < 1
    bars = bin_scores(scores, is_clean)
    assert (bars.clean.sum(), bars.wrong.sum()) == (is_clean.sum(), (~is_clean).sum())
    assert bars.wrong[-1] >= 5, "scores above the last edge are in the last bin"
    assert (bars.clean[bars.edges[:-1] > 1] == 0).all()


def test_the_border_lies_between_the_verdicts():
    scores = np.array([0.0, 1.0, 4.0, 6.0])
    assert border(scores, scores < 3) == 2.5
    assert border(scores, np.array([True, False, True, False])) is None
    assert border(scores, scores < 9) is None and border(scores, scores < 0) is None


def test_a_component_is_a_weighted_gaussian():
    at = np.linspace(-10, 10, 4001)
    density = component({"clean_weight": 0.3, "clean_mean": 1.0, "clean_std": 0.5}, "clean", at)
    assert np.trapezoid(density, at) == pytest.approx(0.3, abs=1e-6)
    assert at[density.argmax()] == pytest.approx(1.0)
    assert component({}, "noisy", at) is None


@pytest.mark.parametrize("scores", [np.full(5, 2.0), np.array([1.0]), np.array([-3.0, -1.0, 1e6])])
def test_few_or_equal_scores_still_make_a_picture(scores):
    svg = histogram(scores, np.ones(len(scores), bool), {}, None)
    assert "nan" not in svg and "inf" not in svg and svg.count("bin clean") >= 1 and "limit" not in svg


def test_the_picture_has_bars_of_both_kinds_two_curves_and_the_border():
    rng = np.random.default_rng(0)
    scores = np.concatenate([rng.normal(1, 0.5, 700), rng.normal(6, 0.5, 300)])
    estimate = {"clean_weight": 0.7, "clean_mean": 1.0, "clean_std": 0.5}
    estimate |= {"noisy_weight": 0.3, "noisy_mean": 6.0, "noisy_std": 0.5}
    svg = histogram(scores, scores < 3.5, estimate, 3.5)
    assert [svg.count(kind) for kind in ("component clean", "component noisy", '"limit"')] == [1, 1, 1]
    assert 'aria-label="scores of 1,000 pairs' in svg and "700 clean and 300 wrong, parted at 3.5" in svg
    heights = [float(y) for y in re.findall(r'class="bin \w+"[^>]* y="([\d.]+)"', svg)]
    assert min(heights) >= 0
