"""Texts that are objects: a document with its title and id, a query with its id, an answer with its place."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.pairs import Pairs
from tests.refusals import refuses

CAT, DOG, EEL = "the cat sat on the mat", "the dog ran in the park", "an eel swam in the sea"


def opened(path, rows, **settings):
    """Each row's keys are the same, as Parquet has them."""
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Pairs(path=str(path), **settings).open()


def examples(source):
    return [source.example(found) for found in source.rows()]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_a_document_has_its_title_and_id_and_a_query_its_id(tmp_path, suffix):
    rows = [
        {"query": {"id": 7, "text": "who sat?"}, "document": {"_id": "c", "title": "Cats", "text": CAT},
         "negatives": [{"_id": "e", "title": None, "text": EEL}]},
        {"query": {"id": 8, "text": "who ran?"}, "document": {"_id": "d", "title": None, "text": DOG}, "negatives": []},
    ]  # fmt: skip
    first, second = examples(opened(tmp_path / f"mine{suffix}", rows))
    assert (first.query_id, first.query, second.query_id) == ("7", "who sat?", "8")
    assert [(one.doc_id, one.title, one.text) for one in (*first.positives, *second.positives)] == [
        ("c", "Cats", CAT), ("d", "", DOG)]  # fmt: skip
    assert [(one.doc_id, one.text) for one in first.negatives] == [("e", EEL)]


def test_lists_of_objects_and_other_names_of_texts(tmp_path):
    rows = [{"question": "who?", "passages": [{"page_content": CAT}, {"content": DOG}], "neg_1": {"text": EEL}}]
    source = opened(tmp_path / "mine.jsonl", rows, columns={"document": "passages"})
    (found,) = examples(source)
    assert [one.text for one in found.positives] == [CAT, DOG]
    assert [one.text for one in found.negatives] == [EEL]


def test_columns_come_before_keys(tmp_path):
    row = {"query": "who?", "doc_id": "mine", "title": "Ours", "document": {"id": "theirs", "title": "x", "text": CAT}}
    ((passage,),) = (found.positives for found in examples(opened(tmp_path / "mine.jsonl", [row])))
    assert (passage.doc_id, passage.title) == ("mine", "Ours")


@pytest.mark.parametrize(
    "answers", [["a cat", "cats"], [{"text": "a cat", "start": 3}, {"text": "cats"}], {"text": ["a cat", "cats"]}]
)
def test_answers_are_texts_or_hold_them(tmp_path, answers):
    row = {"question": "who sat?", "context": CAT, "answers": answers}
    columns = {"answers": "answers", "query": "question", "document": "context"}
    (found,) = examples(opened(tmp_path / "mine.jsonl", [row], columns=columns))
    assert found.answers == ("a cat", "cats")


def test_keys_without_a_use_are_said_as_columns_are(tmp_path):
    row = {"query": "who?", "document": {"text": CAT, "url": "https://a.example", "meta": {}, "at": 3}, "tag": 1}
    assert opened(tmp_path / "mine.jsonl", [row]).unread == ["tag", "document.at", "document.url"]


@pytest.mark.parametrize("name", ["label", "is_relevant", "score"])
def test_a_key_that_may_judge_is_refused(tmp_path, name):
    rows = [{"query": "who?", "passage": [{"text": CAT, name: 1}, {"text": DOG, name: 0}]}]
    with refuses(DataError, "data.label_in_object", column="passage", key=name):
        examples(opened(tmp_path / "mine.jsonl", rows))
    renamed = [{"query": "who?", "passage": [{"text": CAT, f"our_{name}": 1}, {"text": DOG, f"our_{name}": 0}]}]
    assert opened(tmp_path / "mine.jsonl", renamed).unread == [f"passage.our_{name}"]  # as advised


def test_a_key_that_may_judge_is_refused_in_the_last_row(tmp_path):
    rows = [{"query": f"who? {number}", "passage": {"text": f"{CAT} {number}"}} for number in range(150)]
    rows.append({"query": "who?", "passage": {"text": DOG, "label": 0}})
    with refuses(DataError, "data.label_in_object", where=f"{tmp_path / 'mine.jsonl'} line 151", key="label"):
        examples(opened(tmp_path / "mine.jsonl", rows))


def test_a_judgement_moved_to_a_column_is_read(tmp_path):
    row = {"query": "who?", "passage": [{"text": CAT}, {"text": DOG}], "label": [1, 0]}
    (found,) = examples(opened(tmp_path / "mine.jsonl", [row]))
    assert [one.relevance for one in found.positives] == [1, 0]


def test_an_object_without_a_text_is_refused_with_its_place(tmp_path):
    source = opened(tmp_path / "mine.jsonl", [{"query": "who?", "document": {"title": "Cats"}}])
    with refuses(DataError, "data.wrong_value", where=f"{tmp_path / 'mine.jsonl'} line 1", name="document"):
        examples(source)
