"""A file is read for what it says, or refused: each cure that a refusal advises is typed here."""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest

from noisyir.app.data_import import Imported, import_data
from noisyir.base.command_line import typed_words
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise

CAT, DOG, MOON = (
    "The cat sat on the mat all day.",
    "The dog ate a large piece of bread.",
    "The moon is above the sea tonight.",
)
ASKED = ("who sat on the mat?", "what did the dog eat?", "where is the moon now?")


def csv(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def jsonl(path: Path, *rows: object) -> Path:
    return csv(path, *map(json.dumps, rows))


def typed(path: Path, out: Path, *words: str) -> Imported:
    """`noisyir import PATH` with more words, as on the command line."""
    words = ("import", str(path), *words)
    token = typed_words.set(words)
    try:
        given = dict(zip(words[2::2], words[3::2], strict=True))
        return import_data(str(path), out, columns=given.get("--map"), beside={"corpus": given.get("--corpus")})
    finally:
        typed_words.reset(token)


def commands(told: str) -> list[list[str]]:
    """What follows `noisyir import FILE` in each command that a message advises."""
    return [shlex.split(one)[3:] for one in re.findall(r"noisyir import \S+ --map (?:'[^']*'|[^\s;]+)", told)]


def read(found: Imported) -> list[tuple[str, str, int | None]]:
    """Query, document and grade of each pair."""
    tables = Collection.load(found.folder)
    return [
        (example.query, one.text, one.relevance)
        for example in tables.examples(labels=True) for one in example.positives
    ]  # fmt: skip


def grades(found: Imported) -> list[int | None]:
    return [grade for *_, grade in read(found)]


def negatives(found: Imported) -> list[str]:
    return [one.text for example in Collection.load(found.folder).examples() for one in example.negatives]


def refused(path: Path, out: Path, code: str) -> list[list[str]]:
    """The commands that a refusal of a file advises."""
    with pytest.raises(DataError) as caught:
        typed(path, out)
    assert caught.value.code == code
    return commands(str(caught.value))


def test_the_cure_of_a_row_that_is_left_out_is_told_in_whole(tmp_path):
    rows = zip(ASKED, (CAT, DOG, MOON), ("train", "test", "x"), strict=True)
    lines = [f"{asked},{text},{split}" for asked, text, split in rows]
    path = csv(tmp_path / "x.csv", "query,document,split", *lines)
    found = typed(path, tmp_path / "out")
    assert "left out    1: 'split' must be train, dev or test (line 4)" in found.summary
    (cure,) = commands(found.summary)
    assert len(read(typed(path, tmp_path / "out", *cure))) == 3


@pytest.mark.parametrize(("column", "value"), [("weight", "7"), ("pos_scores", "high"), ("split", "hidden")])
def test_the_cure_of_a_wrong_value_is_read_when_it_is_typed(tmp_path, column, value):
    path = csv(tmp_path / "x.csv", f"query,document,{column}", f"{ASKED[0]},{CAT},{value}")
    with pytest.raises(DataError) as caught:
        typed(path, tmp_path / "out")
    (cure,) = commands(str(caught.value))
    assert [text for _, text, _ in read(typed(path, tmp_path / "out", *cure))] == [CAT]


@pytest.mark.parametrize(
    "nothing", ["nan", "<NA>", "None", "N/A", "NULL", "n/a", "none", "-", "#REF!", "#NAME?", "#DIV/0!", '""""']
)
def test_words_for_nothing_are_no_texts_among_long_ones(tmp_path, nothing):
    lines = [f"{asked},{text},{text}" for asked, text in zip(ASKED[:2], (CAT, DOG), strict=True)]
    path = csv(tmp_path / "x.csv", "query,document,negative", *lines, f"{ASKED[2]},{MOON},{nothing}")
    found = typed(path, tmp_path / "out")
    assert (negatives(found), len(read(found))) == ([CAT, DOG], 3)
    csv(path, "query,document,negative", *lines, f"{ASKED[2]},{nothing},{CAT}")
    assert "document without text (line 4)" in typed(path, tmp_path / "out").summary


def test_none_among_short_answers_is_an_answer_and_nan_is_none(tmp_path):
    path = csv(tmp_path / "x.csv", "question,answer", "who?,None", "when?,NA", "how?,by car", "where?,nan")
    found = typed(path, tmp_path / "out")
    assert [text for _, text, _ in read(found)] == ["None", "NA", "by car"]
    assert "document without text (line 5)" in found.summary


def test_a_missing_number_of_json_is_no_text(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"query": "{ASKED[0]}", "document": "{CAT}", "title": NaN, "negative": NaN}}\n')
    found = typed(path, tmp_path / "out")
    assert (read(found), negatives(found)) == ([(ASKED[0], CAT, None)], [])


def test_a_document_that_pandas_left_empty_is_none_in_large_pieces_too(tmp_path):
    corpus = jsonl(tmp_path / "corpus.jsonl", {"_id": "1", "title": "nan", "text": CAT}, *(
        {"_id": str(number), "title": "", "text": f"{DOG} {number}"} for number in range(2, 60)
    ))  # fmt: skip
    path = csv(tmp_path / "x.csv", "query,doc_id", f"{ASKED[0]},1")
    tables = Collection.load(typed(path, tmp_path / "out", "--corpus", str(corpus)).folder)
    assert tables.documents["title"].to_pylist() == [""] * 59


def test_ids_that_pandas_made_floats_are_found_in_the_corpus(tmp_path):
    corpus = csv(tmp_path / "corpus.csv", "id,text", f"0,{CAT}", f"7,{DOG}")
    path = csv(tmp_path / "x.csv", "query,doc_id", f"{ASKED[0]},0.0", f"{ASKED[1]},7.0", f"{ASKED[2]},")
    found = typed(path, tmp_path / "out", "--corpus", str(corpus))
    assert [text for _, text, _ in read(found)] == [CAT, DOG]
    csv(corpus, "id,text", f"0.0,{CAT}", f"7.0,{DOG}")  # such as versions
    assert [text for _, text, _ in read(typed(path, tmp_path / "out", "--corpus", str(corpus)))] == [CAT, DOG]


def test_of_two_columns_of_ids_that_differ_the_named_one_is_read_or_neither(tmp_path):
    corpus = csv(tmp_path / "corpus.csv", "_id,docid,text", f"1,2,{CAT}", f"2,1,{DOG}")
    path = csv(tmp_path / "x.csv", "query,docid", f"{ASKED[0]},2")
    with pytest.raises(DataError) as caught:
        typed(path, tmp_path / "out", "--corpus", str(corpus))
    assert caught.value.code == "data.two_id_columns"
    csv(corpus, "other,docid,text", f"1,2,{CAT}", f"2,1,{DOG}")  # as advised
    assert read(typed(path, tmp_path / "out", "--corpus", str(corpus))) == [(ASKED[0], CAT, None)]
    csv(corpus, "id,docid,text", f"1,2,{CAT}", f"2,1,{DOG}")  # `docid` is read
    assert read(typed(path, tmp_path / "out", "--corpus", str(corpus))) == [(ASKED[0], CAT, None)]
    csv(corpus, "_id,docid,text", f"1,1,{DOG}", f"2,2,{CAT}")
    assert read(typed(path, tmp_path / "out", "--corpus", str(corpus))) == [(ASKED[0], CAT, None)]


@pytest.mark.parametrize("words", ["train test", "Training Testing"])
def test_a_column_named_after_a_split_is_one_if_all_its_values_are(tmp_path, words):
    lines = [f"{asked},{text},{word}" for asked, text, word in zip(ASKED[:2], (CAT, DOG), words.split(), strict=True)]
    path = csv(tmp_path / "x.csv", "query,document,data_split", *lines)
    assert "2 pairs (1 train, 1 test)" in typed(path, tmp_path / "out").summary


@pytest.mark.parametrize(("header", "values", "wanted"), [
    ("isRelevant", ("true", "false"), [1, 0]),  # a known name
    ("RelevanceLabel", ("1", "0"), [1, 0]),
    ("keep", ("yes", "no"), [1, 0]),
    ("Relevanz", ("ja", "nein"), [1, 0]),
    ("annotations", ("1", "0"), [1, 0]),
    ("falsch", ("0", "1"), [1, 0]),
    ("rejected", ("False", "True"), [1, 0]),  # the name of a column of negatives
    ("negative", ("0", "1"), [1, 0]),
    ("label_id", ("1", "0"), [1, 0]),
    ("score", ("95 %", "5%"), [1, 0]),
    ("OK", ("x", ""), [1, 0]),
    ("Answers the customer?", ("Yes", "No"), [1, 0]),
    ("Верно", ("да", "нет"), [1, 0]),
    ("quality", ("5", "1"), [1, 0]),
])  # fmt: skip
def test_a_column_that_judges_is_read_or_asked_about(tmp_path, header, values, wanted):
    lines = [f"{asked},{text},{value}" for asked, text, value in zip(ASKED[:2], (CAT, DOG), values, strict=True)]
    path = csv(tmp_path / "x.csv", f"query,document,{header}", *lines)
    words: Sequence[str] = ()
    if header != "isRelevant":
        words, null = refused(path, tmp_path / "out", "data.unclear_label")
        assert grades(typed(path, tmp_path / "out", *null)) == [None, None]
        assert negatives(typed(path, tmp_path / "out", *null)) == []
    assert grades(typed(path, tmp_path / "out", *words)) == wanted


def test_ids_of_annotators_judge_nothing(tmp_path):
    path = csv(tmp_path / "x.csv", "query,document,annotator_id", f"{ASKED[0]},{CAT},0", f"{ASKED[1]},{DOG},1")
    assert grades(typed(path, tmp_path / "out")) == [None, None]


def test_a_column_without_a_name_that_judges_is_to_be_named(tmp_path):
    lines = [f"{ASKED[0]},{CAT},1", f"{ASKED[1]},{DOG},0"]
    path = csv(tmp_path / "x.csv", "query,document,", *lines)
    assert refused(path, tmp_path / "out", "data.nameless_columns") == []
    assert grades(typed(csv(path, "query,document,label", *lines), tmp_path / "out")) == [1, 0]
    csv(path, ",query,document", *(f"{number},{line[:-2]}" for number, line in enumerate(lines)))  # pandas' index
    assert grades(typed(path, tmp_path / "out")) == [None, None]


def test_the_place_of_the_right_choice_is_no_label(tmp_path):
    lines = [f"{ASKED[0]},{CAT},{DOG},0", f"{ASKED[1]},{CAT},{DOG},1"]
    path = csv(tmp_path / "x.csv", "question,choice_0,choice_1,label", *lines)
    with pytest.raises(DataError):
        typed(path, tmp_path / "out")
    rows = [{"query": asked, "document": text, "choices": [CAT, DOG], "label": place}
            for asked, text, place in zip(ASKED[:2], (CAT, DOG), (0, 1), strict=True)]  # fmt: skip
    words, null = refused(jsonl(tmp_path / "x.jsonl", *rows), tmp_path / "out", "data.unclear_label")
    assert grades(typed(tmp_path / "x.jsonl", tmp_path / "out", *words)) == [0, 1]
    assert grades(typed(tmp_path / "x.jsonl", tmp_path / "out", *null)) == [None, None]


@pytest.mark.parametrize("places", [("A", "B"), ("1", "2"), (0, 1)])
def test_the_place_of_the_right_choice_is_no_document(tmp_path, places):
    rows = [{"question": asked, "choices": [CAT, DOG], "answer": place}
            for asked, place in zip(ASKED[:2], places, strict=True)]  # fmt: skip
    path = jsonl(tmp_path / "x.jsonl", *rows)
    assert [["--map", "document=NAME"]] == refused(path, tmp_path / "out", "data.pairs_without_texts")
    jsonl(path, *({"question": row["question"], "right": row["choices"][number]} for number, row in enumerate(rows)))
    found = typed(path, tmp_path / "out", "--map", "document=right")
    assert [text for _, text, _ in read(found)] == [CAT, DOG]


def test_each_column_of_negatives_is_read(tmp_path):
    row = {"query": ASKED[0], "document": CAT, "negatives": [DOG], "hardNegative": MOON, "hard_negatives": []}
    assert negatives(typed(jsonl(tmp_path / "x.jsonl", row), tmp_path / "out")) == [DOG, MOON]


def test_several_queries_and_documents_in_a_row_are_refused(tmp_path):
    instruct = "Represent the sentence for retrieval"
    path = jsonl(tmp_path / "x.jsonl", {"query": [instruct, ASKED[0]], "pos": [instruct, CAT], "neg": [instruct, DOG]})
    assert refused(path, tmp_path / "out", "data.several_of_both") == []
    jsonl(path, {"query": ASKED[0], "pos": [CAT], "neg": [DOG]})  # as advised
    assert read(typed(path, tmp_path / "out")) == [(ASKED[0], CAT, None)]
    path = csv(tmp_path / "x.csv", "query,document", f"""\"['a?', 'b?']\",\"['{CAT}', '{DOG}']\"""")
    assert refused(path, tmp_path / "out", "data.several_of_both") == []


def test_several_labels_of_one_document_are_refused(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"query": ASKED[0], "document": CAT, "labels": [1, 0, 1]})
    with pytest.raises(DataError, match="label lists 3 values for one document"):
        typed(path, tmp_path / "out")
    jsonl(path, {"query": ASKED[0], "document": CAT, "labels": 0})  # as advised
    assert grades(typed(path, tmp_path / "out")) == [0]


def test_objects_of_answers_in_cells_are_refused_where_they_may_judge(tmp_path):
    none = {"text": [], "answer_start": []}
    path = csv(tmp_path / "x.csv", "question,context,answers", f'{ASKED[0]},{CAT},"{none}"')
    assert refused(path, tmp_path / "out", "data.objects_in_cells") == []
    path = jsonl(tmp_path / "x.jsonl", {"question": ASKED[0], "context": CAT, "answers": none})  # as advised
    assert grades(typed(path, tmp_path / "out")) == [0]


def test_merged_cells_over_rows_are_refused(tmp_path):
    book = openpyxl.Workbook()
    for row in (["query", "document", "label"], [ASKED[0], CAT, 0], [ASKED[1], DOG, None]):
        book.active.append(row)
    book.active.merge_cells("C1:D1")
    book.save(path := tmp_path / "x.xlsx")
    assert grades(typed(path, tmp_path / "out")) == [0, None]
    book.active.merge_cells("C2:C3")
    book.save(path)
    assert refused(path, tmp_path / "out", "data.merged_cells") == []
    book.active.unmerge_cells("C2:C3")
    book.active["C3"] = 0
    book.save(path)
    assert grades(typed(path, tmp_path / "out")) == [0, 0]


def test_a_column_of_wrong_texts_is_no_document_in_advice(tmp_path):
    row = {"query": ASKED[0], "right_text": CAT, "wrong_text": f"{DOG} {MOON}"}
    path = jsonl(tmp_path / "x.jsonl", row)
    (words,) = refused(path, tmp_path / "out", "data.unclear_columns")
    found = typed(path, tmp_path / "out", *words)
    assert (read(found), negatives(found)) == ([(ASKED[0], CAT, None)], [row["wrong_text"]])


def test_a_cure_is_no_command_where_columns_cannot_be_mapped(tmp_path):
    one = {"docid": "1", "title": "", "text": CAT}
    row = {"query_id": "1", "query": ASKED[0], "positive_passages": [one], "negative_passages": []}
    path = jsonl(tmp_path / "x.jsonl", {**row, "weight": 7})
    with pytest.raises(DataError, match="found 7; another name for it leaves the column unread"):
        typed(path, tmp_path / "out")
    assert grades(typed(jsonl(path, {**row, "grams": 7}), tmp_path / "out")) == [None]  # as advised
    found = typed(jsonl(path, {**row, "positive_passages": [one, {**one, "text": DOG}]}), tmp_path / "out")
    assert "let ids follow from the texts with another name for it" in found.summary
    renamed = [{**one, "number": 1, "docid": None}, {"number": 1, "text": DOG}]
    assert grades(typed(jsonl(path, {**row, "positive_passages": renamed}), tmp_path / "out")) == [None, None]


def test_weights_in_a_folder_of_splits_are_read(tmp_path):
    (tmp_path / "x").mkdir()
    for split, text in (("train", CAT), ("test", DOG)):
        csv(tmp_path / f"x/{split}.csv", "query,document,weight", f"what of {split}?,{text},0.25")
    found = Format.parse(recognise(str(tmp_path / "x")))
    assert found.has_weights and [*found.weights().values()] == [0.25]
    assert found.summary().splits == {"test"}


@pytest.mark.parametrize("quote", ["", '"'])
def test_joined_files_with_byte_order_marks_hold_no_pair_of_names(tmp_path, quote):
    head, one, two = (f"{quote}{first}{quote},{quote}{second}{quote}\n" for first, second in
                      (("query", "document"), (ASKED[0], CAT), (ASKED[1], DOG)))  # fmt: skip
    path = tmp_path / "x.csv"
    path.write_bytes(f"{head}{one}".encode("utf-8-sig") + f"{head}{two}".encode("utf-8-sig"))
    found = typed(path, tmp_path / "out")
    assert [text for _, text, _ in read(found)] == [CAT, DOG]
    assert "left out    1: the header again" in found.summary
    path = tmp_path / "x.jsonl"
    row = [
        json.dumps({"query": asked, "document": text}) + "\n" for asked, text in zip(ASKED, (CAT, DOG), strict=False)
    ]
    path.write_bytes(row[0].encode("utf-8-sig") + row[1].encode("utf-8-sig"))
    assert [text for _, text, _ in read(typed(path, tmp_path / "out"))] == [CAT, DOG]


@pytest.mark.parametrize(("header", "mark"), [
    ("query,document,hardNegative", "-header"), ("query,document,note,hard_neg,negative", "-negatives"),
    ("query,document,data_split", "-split"), ("query,document,isRelevant", "-label"), ("query,document,negative", ""),
])  # fmt: skip
def test_a_build_from_before_is_not_taken_for_columns_that_are_read_otherwise_now(tmp_path, header, mark):
    values = {"data_split": "test", "isRelevant": "1", "note": ""}
    cells = [values.get(name, f"{name}: {CAT}") for name in header.split(",")]
    source = Format.parse(recognise(str(csv(tmp_path / "x.csv", header, ",".join(cells))))).open()
    assert re.sub("^[0-9a-f]+", "", source.digest()) == mark


def test_a_build_from_before_is_not_taken_for_missing_texts_that_were_read(tmp_path):
    path = csv(tmp_path / "x.csv", "query,document", f"{ASKED[0]},{CAT}", f"{ASKED[1]},nan")
    assert "missing" in (Format.parse(recognise(str(path))).marks() or "")
    csv(path, "query,document", f"{ASKED[0]},{CAT}", f"{ASKED[1]},{DOG}")
    assert "missing" not in (Format.parse(recognise(str(path))).marks() or "")


def test_names_that_differ_in_case_alone_are_one_name_twice(tmp_path):
    lines = [f"{ASKED[0]},{CAT},1,0", f"{ASKED[1]},{DOG},0,1"]
    path = csv(tmp_path / "x.csv", "query,document,label,Label", *lines)
    assert refused(path, tmp_path / "out", "data.column_name_twice") == []
    csv(path, "query,document,label,first guess", *lines)  # as advised
    assert grades(typed(path, tmp_path / "out")) == [1, 0]


def test_one_more_column_is_no_list_of_choices(tmp_path):
    path = csv(tmp_path / "x.csv", "query,document,label,e,2", f"{ASKED[0]},{CAT},1,x,y", f"{ASKED[1]},{DOG},0,x,y")
    assert grades(typed(path, tmp_path / "out")) == [1, 0]
