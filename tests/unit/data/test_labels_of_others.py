"""Columns of other names that say how right a pair is, as click logs, judges and annotation tools write them."""

import pytest

from noisyir.base.errors import DataError
from tests.refusals import refuses
from tests.unit.data.test_files_of_others import PAIRS
from tests.unit.data.test_stated import (
    ASKED,
    CAT,
    DOG,
    MOON,
    commands,
    csv,
    grades,
    jsonl,
    negatives,
    read,
    refused,
    typed,
)


@pytest.mark.parametrize(("column", "values", "wanted"), [
    ("distance", (0.11, 0.92), "distance<=0.5"), ("ppl", (3.5, 90.5), "ppl<=47"),
    ("cos_sim", (0.91, 0.12), "cos_sim>=0.5"),
    ("confidence", (0.91, 0.12), "confidence>=0.5"), ("ctr", (0.3, 0.01), "ctr>=0.15"),
    ("selected", (1, 0), "selected"), ("is_best", ("yes", "no"), "is_best"), ("purchased", (1, 0), "purchased"),
    ("flagged", (0, 1), "flagged:0"), ("note", ("", "WRONG"), "note"), ("comment", ("", "falsch!"), "comment"),
])  # fmt: skip
@pytest.mark.parametrize("times", [1, 10])
def test_scales_and_marks_of_other_names_are_asked_about(tmp_path, column, values, wanted, times):
    """However many values a scale has; some are good where they are low."""
    many = times if isinstance(values[0], float) else 1
    rows = [{"query": f"{asked} {n}", "document": text, column: value + n / 1000 if many > 1 else value}
            for n in range(times) for asked, text, value in zip(ASKED, (CAT, DOG), values, strict=False)]  # fmt: skip
    path = jsonl(tmp_path / "x.jsonl", *rows)
    words, null = refused(path, tmp_path / "out", "data.unclear_label")
    assert words[1].startswith(f"label={wanted}"[:12])
    assert many > 1 or words[1] == f"label={wanted}"
    right = {grade for _, text, grade in read(typed(path, tmp_path / "out", *words)) if text == CAT}
    assert right <= {1, None} and set(grades(typed(path, tmp_path / "out", *words))) - right == {0}
    assert set(grades(typed(path, tmp_path / "out", *null))) == {None}


def test_of_two_annotators_either_can_be_read(tmp_path):
    path = csv(
        tmp_path / "x.csv", "query,document,annotator_1,noisy_2", f"{ASKED[0]},{CAT},1,1", f"{ASKED[1]},{DOG},0,0"
    )
    first, second, null = refused(path, tmp_path / "out", "data.unclear_label")
    found = [grades(typed(path, tmp_path / "out", *words)) for words in (first, second, null)]
    assert found == [[1, 0], [0, 1], [None, None]]


@pytest.mark.parametrize(("column", "values"), [
    ("language_score", (0.91, 0.12)), ("mood", ("negative", "neutral")), ("selected", (1, 1)), ("best", ("a", "b")),
])  # fmt: skip
def test_scores_of_something_else_and_words_of_moods_judge_nothing(tmp_path, column, values):
    more = [f"{n}{asked},{text},{n / 10 if column == 'language_score' else values[0]}"
            for n in range(9) for asked, text in PAIRS]  # fmt: skip
    lines = [f"{asked},{text},{value}" for (asked, text), value in zip(PAIRS, values, strict=False)]
    path = csv(tmp_path / "x.csv", f"query,document,{column}", *lines, *more)
    assert set(grades(typed(path, tmp_path / "out"))) == {None}


@pytest.mark.parametrize("more", [
    {"positive": CAT, "negative_1": DOG, "negative_2": MOON, "score": [0.9, 0.4, 0.3]},
    {"document": CAT, "votes": [1, 0, 1]}, {"document": CAT, "is_noise": [0, 1, 1]},
])  # fmt: skip
def test_lists_of_values_in_a_row_of_one_document_are_no_label_to_advise(tmp_path, more):
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], **more})
    (null,) = refused(path, tmp_path / "out", "data.unclear_label")
    assert negatives(typed(path, tmp_path / "out", *null)) == ([DOG, MOON] if "score" in more else [])


def test_beside_a_list_of_votes_another_column_is_advised(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], "document": CAT, "votes": [1, 0, 1], "y": 0})
    words, _ = refused(path, tmp_path / "out", "data.unclear_label")
    assert grades(typed(path, tmp_path / "out", *words)) == [0]


def test_a_list_of_scores_for_as_many_documents_is_advised(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], "candidates": [CAT, DOG], "score": [0.9, 0.4]})
    with pytest.raises(DataError) as caught:
        typed(path, tmp_path / "out", "--map", "document=candidates")
    words, _ = commands(str(caught.value))
    assert grades(typed(path, tmp_path / "out", *words)) == [1, 0]


def test_objects_are_no_values_of_labels_to_advise_and_lists_of_one_are_that_one(tmp_path):
    row = {"query": ASKED[0], "document": CAT}
    path = jsonl(tmp_path / "x.jsonl", row | {"relevant": [{"user": "a", "value": "no"}]})
    (null,) = refused(path, tmp_path / "out", "data.unclear_label")
    assert grades(typed(path, tmp_path / "out", *null)) == [None]
    lines = [f"{asked},{text},{label}" for (asked, text), label in zip(PAIRS, ("[1]", "['no.']", "N/A"), strict=True)]
    path = csv(tmp_path / "x.csv", "query,document,label", *lines)
    assert grades(typed(path, tmp_path / "out")) == [1, 0, -1]


@pytest.mark.parametrize("key", ["selected", "has_answer", "accepted"])
def test_keys_of_passages_that_judge_are_refused(tmp_path, key):
    passages = [{"text": CAT, key: True}, {"text": DOG, key: False}]
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], "passage": passages})
    with refuses(DataError, "data.label_in_object", key=key):
        typed(path, tmp_path / "out")
    jsonl(path, {"query": ASKED[0], "passage": [CAT, DOG], "label": [1, 0]})  # as advised
    assert grades(typed(path, tmp_path / "out")) == [1, 0]
