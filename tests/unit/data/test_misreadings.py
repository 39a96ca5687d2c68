"""Files that were once read wrongly without a word: each is refused, and its cure read rightly."""

import ast
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from noisyir.app.data_import import import_data
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.columns import corpus_documents, open_corpus
from noisyir.data.formats.pairs import Pairs
from noisyir.data.formats.trainers import DprJson
from noisyir.data.recognise import recognise
from tests.refusals import refuses

LABELLED = "who sat?\ta cat sat\t1\nwho ran?\ta dog ran\t0\n"


def examples(source):
    return [source.example(found) for found in source.rows()]


def right(tables: Path) -> set[tuple[str, str]]:
    return {(example.query, one.text) for example, one in Collection.load(tables).pairs(wrong=False)}


def jsonl(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("text", [
    LABELLED, f"Frage\tAntwort\tBewertung\n{LABELLED}", "0.8\ta plane\tan air plane\n0.1\ta cat\ta dog barks\n",
    "corpus-id\tquery-id\tscore\n7\t1\t1\n8\t2\t1\n", "Frage\tAntwort\tfalsch\nwer sass?\teine Katze\tein Hund da\n",
])  # fmt: skip
@pytest.mark.parametrize("suffix", [".tsv", ".txt"])
def test_three_columns_are_no_triples_where_one_judges_or_the_first_line_names_them(tmp_path, text, suffix):
    (tmp_path / f"x{suffix}").write_text(text)
    with pytest.raises(DataError) as caught:
        import_data(str(tmp_path / f"x{suffix}"), tmp_path / "out")
    assert caught.value.code == ("data.unclear_columns" if suffix == ".tsv" else "data.table_without_suffix")


def test_a_table_in_a_text_file_is_read_as_advised(tmp_path):
    (tmp_path / "x.txt.tsv").write_text(f"query\tdocument\tlabel\n{LABELLED}")
    import_data(str(tmp_path / "x.txt.tsv"), tmp_path / "out")
    assert right(tmp_path / "out") == {("who sat?", "a cat sat")}


@pytest.mark.parametrize("text", ["who?\tthe cat\tthe dog\n", "7\t1\t2\n8\t2\t3\n", "q1\td1\td2\nq2\td3\td4\n"])
def test_triples_stay_triples(tmp_path, text):
    (tmp_path / "x.tsv").write_text(text)
    assert recognise(str(tmp_path / "x.tsv"))["kind"] == "triples"


def test_qrels_with_equal_cells_in_the_first_line_are_qrels(tmp_path):
    (tmp_path / "x.tsv").write_text("1\t0\t7\t1\n2\t0\t8\t1\n")
    assert recognise(str(tmp_path / "x.tsv"))["kind"] == "trec"


@pytest.mark.parametrize("of", [
    [{"names": ["relevant", "irrelevant"], "_type": "ClassLabel"}],
    {"feature": {"names": ["relevant", "irrelevant"], "_type": "ClassLabel"}, "_type": "Sequence"},
])  # fmt: skip
def test_names_of_labels_in_lists_are_known(tmp_path, of):
    table = pa.table({"query": ["who sat?"], "documents": [["a cat", "a dog"]], "labels": [[0, 1]]})
    features = {"info": {"features": {"query": {"_type": "Value"}, "labels": of}}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps(features)}), tmp_path / "x.parquet")
    (found,) = examples(Pairs(path=str(tmp_path / "x.parquet")).open())
    assert [one.relevance for one in found.positives] == [1, 0]


def test_turns_of_a_chat_are_no_documents(tmp_path):
    turns = [{"role": "user", "content": "who sat?"}, {"role": "assistant", "content": "a cat"}]
    path = jsonl(tmp_path / "x.jsonl", {"prompt": "who sat?", "chosen": turns})
    with refuses(DataError, "data.chat_in_cell", column="chosen"):
        examples(Pairs(path=str(path)).open())
    jsonl(path, {"prompt": "who sat?", "chosen": turns[-1]["content"]})  # as advised
    assert [one.text for one in examples(Pairs(path=str(path)).open())[0].positives] == ["a cat"]


@pytest.mark.parametrize("cell", [
    '{"text": "a dog", "label": 0}', "[{'text': 'a cat', 'is_selected': 1}, {'text': 'a dog', 'is_selected': 0}]",
])  # fmt: skip
def test_objects_in_cells_are_refused(tmp_path, cell):
    pa.csv.write_csv(pa.table({"query": ["who?"] * 3, "document": [cell] * 3}), tmp_path / "x.csv")
    with refuses(DataError, "data.objects_in_cells", column="document"):
        Pairs(path=str(tmp_path / "x.csv")).open()
    parsed = ast.literal_eval(cell)
    path = jsonl(tmp_path / "x.jsonl", {"query": "who?", "document": parsed})  # as advised: texts or labels are read
    with refuses(DataError, "data.label_in_object"):
        examples(Pairs(path=str(path)).open())
    texts = [one["text"] for one in (parsed if isinstance(parsed, list) else [parsed])]
    (found,) = examples(
        Pairs(path=str(jsonl(path, {"query": "who?", "document": texts, "label": [0] * len(texts)}))).open()
    )
    assert [(one.text, one.relevance) for one in found.positives] == [(text, 0) for text in texts]


def test_missing_items_of_spelt_lists_are_no_texts(tmp_path):
    (tmp_path / "x.csv").write_text("query,document,negatives\nwho?,a cat,\"['a dog', None]\"\nwho,a cow,[nan]\n")
    found = examples(Pairs(path=str(tmp_path / "x.csv")).open())
    assert [[one.text for one in example.negatives] for example in found] == [["a dog"], []]


def test_a_label_in_a_positive_passage_is_refused_and_a_score_is_read(tmp_path):
    row = {"question": "who?", "answers": [], "positive_ctxs": [{"title": "", "text": "a cat", "score": 2}]}
    path = jsonl(tmp_path / "x.jsonl", row)
    assert examples(DprJson(path=str(path)).open())[0].positives[0].score == 2
    row["positive_ctxs"][0]["is_relevant"] = 0
    with refuses(DataError, "data.label_in_object", column="positive_ctxs", key="is_relevant"):
        examples(DprJson(path=str(jsonl(path, row))).open())


def test_a_column_that_marks_right_pairs_leaves_the_others_wrong(tmp_path):
    (tmp_path / "x.csv").write_text("query,document,seen\nwho ran?,a dog,x\nwho sat?,a cat,\n")
    found = Pairs(path=str(tmp_path / "x.csv"), columns={"label": "seen:x"}).open()
    assert [one.positives[0].relevance for one in examples(found)] == [1, 0]
    assert found.labels.said == "seen: x = right; empty = not right"
    (tmp_path / "x.csv").write_text("query,document,label\nwho ran?,a dog,1\nwho sat?,a cat,\n")
    assert Pairs(path=str(tmp_path / "x.csv")).open().labels.said.endswith("empty = no label, right in dev and test")


def test_one_label_for_several_documents_is_refused(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"query": "who?", "documents": ["a cat", "a dog"], "label": 1})
    with refuses(DataError, "data.one_label", n_documents=2):
        examples(Pairs(path=str(path)).open())
    jsonl(path, {"query": "who?", "documents": ["a cat", "a dog"], "label": [0, 1]})  # as advised
    assert [one.relevance for one in examples(Pairs(path=str(path)).open())[0].positives] == [0, 1]


def test_false_is_the_right_value_of_a_switch(tmp_path):
    path = jsonl(tmp_path / "x.jsonl", {"query": "a", "document": "b", "is_wrong": False},
                 {"query": "c", "document": "d", "is_wrong": True})  # fmt: skip
    found = examples(Pairs(path=str(path), columns={"label": "is_wrong:false"}).open())
    assert [one.positives[0].relevance for one in found] == [1, 0]


def test_numbered_negatives_that_come_late_are_refused(tmp_path):
    rows = [{"query": f"q{number}", "document": f"d{number}"} for number in range(120)]
    path = jsonl(tmp_path / "x.jsonl", *rows, {"query": "who?", "document": "a cat", "negative_1": "a dog"})
    with refuses(DataError, "data.late_column", number=121, found="negative_1"):
        examples(Pairs(path=str(path)).open())
    assert len(examples(Pairs(path=str(path), columns={"negative": None}).open())) == 121


def test_a_file_in_a_folder_that_may_be_no_pairs_is_refused(tmp_path):
    for name in ("train", "train_negatives"):
        jsonl(tmp_path / f"{name}.jsonl", {"query": "who?", "document": name})
    with refuses(DataError, "data.doubtful_file", name="train_negatives.jsonl"):
        recognise(str(tmp_path))
    (tmp_path / "train_negatives.jsonl").unlink()  # as advised
    assert recognise(str(tmp_path))["kind"] == "pairs"


def test_a_missing_shard_is_told(tmp_path):
    table = pa.table({"query": ["who?"], "document": ["a cat"]})
    pq.write_table(table, tmp_path / "train-00000-of-00002.parquet")
    with refuses(DataError, "data.missing_shards", count=1, of=2):
        recognise(str(tmp_path))
    pq.write_table(table, tmp_path / "train-00001-of-00002.parquet")
    assert recognise(str(tmp_path))["kind"] == "pairs"


def test_an_object_with_a_second_list_of_rows_is_refused(tmp_path):
    row = {"query": "who?", "document": "a cat"}
    (tmp_path / "x.json").write_text(json.dumps({"data": [row], "bad_pairs": [row]}))
    with refuses(DataError, "data.unread_list", read="data", unread="bad_pairs"):
        recognise(str(tmp_path / "x.json"))
    (tmp_path / "x.json").write_text(json.dumps({"train": [row], "eval": [row]}))
    assert [one.split for one in examples(Pairs(path=str(tmp_path / "x.json")).open())] == ["train", "dev"]


def test_a_workbook_with_rows_on_two_sheets_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for sheet in (book.active, book.create_sheet("Test")):
        sheet.append(["query", "document"])
        sheet.append(["who?", f"a cat of {sheet.title}"])
    book.save(tmp_path / "x.xlsx")
    with refuses(DataError, "data.equal_sheets", other="Test"):
        recognise(str(tmp_path / "x.xlsx"))
    alone = openpyxl.Workbook()
    for row in book["Test"].iter_rows(values_only=True):
        alone.active.append(row)
    alone.save(tmp_path / "test.xlsx")  # as advised
    saved = examples(Pairs(path=str(tmp_path / "test.xlsx")).open())
    assert [one.positives[0].text for one in saved] == ["a cat of Test"]
    book["Test"].cell(1, 1).value = "notes"
    book.save(tmp_path / "x.xlsx")
    assert len(examples(Pairs(path=str(tmp_path / "x.xlsx")).open())) == 1


@pytest.mark.parametrize(("row", "columns"), [
    ({"label": "SUPPORTED BY ALL", "claim": "a cat sat there", "evidence": "we saw a cat that sat there"},
     "query=claim,document=evidence"),
    ({"": 0, "search": "who sat?", "page": "a cat sat there"}, "query=search,document=page"),
])  # fmt: skip
def test_advised_columns_hold_texts(tmp_path, monkeypatch, row, columns):
    from noisyir.base.command_line import typed_words

    path = tmp_path / "x.csv"
    path.write_text(",".join(row) + "\n" + ",".join(map(str, row.values())) + "\n")
    token = typed_words.set(("check", str(path)))
    try:
        with refuses(DataError, "data.unclear_columns") as caught:
            recognise(str(path))
    finally:
        typed_words.reset(token)
    assert f"--map {columns}" in str(caught.value)


def test_a_mapped_column_is_found_in_another_case(tmp_path):
    (tmp_path / "x.csv").write_text("Customer Question,Help\nwho sat?,a cat\n")
    found = Pairs(path=str(tmp_path / "x.csv"), columns={"query": "customer question", "document": "help"}).open()
    assert found.columns == {"query": "Customer Question", "document": "Help"}


def test_a_switch_with_the_name_of_a_document_is_none_and_is_asked_about(tmp_path):
    name = "positive"
    (tmp_path / "x.csv").write_text(f"query,text,{name}\nwho sat?,a cat,1\nwho ran?,a dog,0\n")
    with refuses(DataError, "data.pairs_without_texts"):
        Pairs(path=str(tmp_path / "x.csv")).open()
    with refuses(DataError, "data.unclear_label", column=name):
        Pairs(path=str(tmp_path / "x.csv"), columns={"document": "text"}).open()
    found = Pairs(path=str(tmp_path / "x.csv"), columns={"document": "text", "label": name}).open()
    assert [one.positives[0].relevance for one in examples(found)] == [1, 0]


def test_a_build_from_before_is_not_taken_for_values_that_are_read_otherwise_now(tmp_path):
    (tmp_path / "x.csv").write_text("query,document,seen\nwho ran?,a dog,x\nwho sat?,a cat,\n")
    plain, marked = (Pairs(path=str(tmp_path / "x.csv"), columns={"label": label}).open() for label in (None, "seen:x"))
    assert marked.digest() == f"{plain.digest()}-values"


def test_a_header_within_joined_files_is_no_pair(tmp_path):
    (tmp_path / "x.csv").write_text("query,document\nwho sat?,a cat\nquery,document\nwho ran?,a dog\n")
    with refuses(DataError, "data.header_again", number=3):
        examples(Pairs(path=str(tmp_path / "x.csv")).open())
    (tmp_path / "one.csv").write_text("text\ntext\nanother text\n")  # a table of one column may hold its name
    assert len(list(corpus_documents(open_corpus(str(tmp_path / "one.csv"), "corpus", ["document"])))) == 2


@pytest.mark.parametrize("cure", ['query, document\n"who sat?", "a cat"\n', 'query,document\n"who sat?","a cat"\n'])
def test_a_space_before_quotes_is_refused_and_each_cure_read(tmp_path, cure):
    (tmp_path / "x.csv").write_text('query,document\n"who sat?", "a cat"\n')
    with refuses(DataError, "data.space_before_quotes", number=2):
        examples(Pairs(path=str(tmp_path / "x.csv")).open())
    (tmp_path / "x.csv").write_text(cure)
    assert [one.positives[0].text for one in examples(Pairs(path=str(tmp_path / "x.csv")).open())] == ["a cat"]


def test_lists_and_texts_in_one_column_are_refused_and_read_from_json(tmp_path):
    cells = ["['a cat', 'a cow']", "['a dog']", "a fox [1]"]
    pa.csv.write_csv(pa.table({"query": ["who sat?", "who ran?", "who?"], "documents": cells}), tmp_path / "x.csv")
    with refuses(DataError, "data.lists_and_texts", column="documents"):
        Pairs(path=str(tmp_path / "x.csv")).open()
    lists = [["a cat", "a cow"], ["a dog"], "a fox [1]"]
    rows = [{"query": query, "documents": texts} for query, texts in zip("abc", lists, strict=True)]
    found = examples(Pairs(path=str(jsonl(tmp_path / "x.jsonl", *rows))).open())
    assert [len(one.positives) for one in found] == [2, 1, 1]
