"""Files as other tools and people leave them: packed, one JSON object, arrays, lists in cells, ids as floats."""

import bz2
import gzip
import json
import lzma
import os
import re
import shlex
import shutil
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from noisyir.app.data_import import import_data
from noisyir.app.pairs_export import export_pairs
from noisyir.audits.rewriting import NewColumn, rewrite
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.formats.pairs import Pairs
from noisyir.data.recognise import recognise
from noisyir.data.row_files import RowFile
from noisyir.data.spelt import list_in
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.refusals import refuses

ROWS = [{"query": "who sat?", "document": "A cat."}, {"query": "who ran?", "document": "A dog."}]
PAIRS = {("who sat?", "A cat."), ("who ran?", "A dog.")}
CSV = b"query,document\nwho sat?,A cat.\nwho ran?,A dog.\n"


def pairs_of(source: Path, **beside: str) -> set[tuple[str, str]]:
    """The pairs that an import of the file keeps."""
    out = source.parent / "out"
    import_data(str(source), out, beside=beside)
    found = {(example.query, passage.text) for example, passage in Collection.load(out).pairs()}
    shutil.rmtree(out)
    return found


def negatives_of(source: Path, **beside: str) -> dict[str, set[str]]:
    out = source.parent / "out"
    import_data(str(source), out, beside=beside)
    found = {example.query: {one.text for one in example.negatives} for example in Collection.load(out).examples()}
    shutil.rmtree(out)
    return found


def zipped(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("__", "."), content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("p.csv.bz2", bz2.compress(CSV)),
        ("p.csv.xz", lzma.compress(CSV)),
        ("p.csv", gzip.compress(CSV, mtime=0)),
        ("p.jsonl.bz2", bz2.compress("".join(json.dumps(row) + "\n" for row in ROWS).encode())),
        ("p.json.xz", lzma.compress(json.dumps(ROWS).encode())),
    ],
)
def test_packing_is_known_by_name_or_first_bytes(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    assert pairs_of(tmp_path / name) == PAIRS
    assert not RowFile.open(str(tmp_path / name), "data.path").is_rewritten


@pytest.mark.parametrize("name", ["paragraph", "chunk", "content", "body"])
def test_usual_names_of_documents_are_known(tmp_path: Path, name: str):
    (tmp_path / "p.csv").write_bytes(CSV.replace(b"document", name.encode()))
    assert pairs_of(tmp_path / "p.csv") == PAIRS


def test_an_archive_of_one_file_is_that_file(tmp_path: Path):
    assert pairs_of(zipped(tmp_path / "p.csv.zip", p__csv=CSV)) == PAIRS
    assert pairs_of(zipped(tmp_path / "other.zip", p__csv=CSV)) == PAIRS
    two = zipped(tmp_path / "two.zip", p__csv=CSV, q__csv=CSV)
    with refuses(DataError, "data.not_one_file", count=2):
        import_data(str(two), tmp_path / "out")


def test_a_damaged_archive_is_said_to_be_damaged(tmp_path: Path):
    whole = zipped(tmp_path / "p.csv.zip", p__csv=CSV * 100).read_bytes()
    (tmp_path / "p.csv.zip").write_bytes(whole[: len(whole) // 2])
    with refuses(DataError, "data.damaged_start"):
        RowFile.open(str(tmp_path / "p.csv.zip"), "data.path")


def test_a_line_of_an_archive_that_unpacks_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NOISYIR_LONGEST_LINE", "1000")
    with zipfile.ZipFile(tmp_path / "p.csv.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("p.csv", b"query,document\nq," + b"a" * 10_000_000)
    with refuses(DataError, "data.line_too_long"):
        list(RowFile.open(str(tmp_path / "p.csv.zip"), "data.path").rows(["query"]))


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "p.csv").write_bytes(CSV)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with refuses(DataError, "data.may_not_read", quote=str(tmp_path / "p.csv")):
        import_data(str(tmp_path / "p.csv"), tmp_path / "out")


@pytest.mark.parametrize(
    "value",
    [
        {"data": ROWS},
        {"version": 1, "data": ROWS},
        {"train": ROWS[:1], "test": ROWS[1:]},
        {"query": {"0": "who sat?", "1": "who ran?"}, "document": {"0": "A cat.", "1": "A dog."}},
        {"query": ["who sat?", "who ran?"], "document": ["A cat.", "A dog."]},
        {"0": ROWS[0], "1": ROWS[1]},
    ],
)
@pytest.mark.parametrize("indent", [None, 1])
def test_one_json_object_holds_rows(tmp_path: Path, value: object, indent: int | None):
    (tmp_path / "p.json").write_text(json.dumps(value, indent=indent))
    assert pairs_of(tmp_path / "p.json") == PAIRS


def test_the_names_of_lists_are_the_splits(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps({"train": ROWS[:1], "validation": ROWS[1:]}))
    report = import_data(str(tmp_path / "p.json"), tmp_path / "out").report
    assert report["pairs"] == {"train": 1, "dev": 1}


def test_an_object_without_known_rows_is_refused_with_its_keys(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps({"a": 1, "b": 2}, indent=1))
    with refuses(DataError, "data.unknown_json_object", keys="a, b"):
        RowFile.open(str(tmp_path / "p.json"), "data.path")


def test_lines_stay_lines_in_a_json_file_also_behind_a_damaged_one(tmp_path: Path):
    rows = "".join(json.dumps(row) + "\n" for row in ROWS)
    for first in ("", '{"query": "cut", "document": "off\n'):
        (tmp_path / "p.json").write_text(first + rows)
        assert pairs_of(tmp_path / "p.json") == PAIRS


def test_llama_index_keeps_the_documents_of_no_query(tmp_path: Path):
    given = {
        "queries": {"a": "who sat?", "b": "who ran?"},
        "corpus": {"n1": "A cat.", "n2": "A dog.", "n3": "An owl."},
        "relevant_docs": {"a": ["n1"], "b": ["n2"]},
        "mode": "text",
    }
    (tmp_path / "qa.json").write_text(json.dumps(given, indent=4))
    assert recognise(str(tmp_path / "qa.json"))["kind"] == "llama_index"
    assert import_data(str(tmp_path / "qa.json"), tmp_path / "tables").report["tables"]["documents"] == 3
    assert pairs_of(tmp_path / "qa.json") == PAIRS


def test_triples_are_arrays_of_ids_or_texts_perhaps_with_scores(tmp_path: Path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text(
        '["who sat?", "A cat.", "A dog."]\n["who ran?", ["A dog.", 0.9], ["A cat.", 0.1], ["An owl.", 0]]\n'
    )
    assert pairs_of(texts) == PAIRS
    assert negatives_of(texts) == {"who sat?": {"A dog."}, "who ran?": {"A cat.", "An owl."}}
    ids = tmp_path / "ids.jsonl"
    ids.write_text("[1, 7, 8]\n[2, 8]\n")
    (tmp_path / "q.tsv").write_text("1\twho sat?\n2\twho ran?\n")
    (tmp_path / "c.tsv").write_text("7\tA cat.\n8\tA dog.\n")
    beside = {"queries": str(tmp_path / "q.tsv"), "corpus": str(tmp_path / "c.tsv")}
    assert pairs_of(ids, **beside) == PAIRS
    assert negatives_of(ids, **beside)["who sat?"] == {"A dog."}


def test_a_label_in_an_array_is_no_document(tmp_path: Path):
    (tmp_path / "p.jsonl").write_text('["who sat?", "A cat.", 1]\n["who ran?", "A dog.", 0]\n')
    with refuses(DataError, "data.unknown_format"):
        import_data(str(tmp_path / "p.jsonl"), tmp_path / "out")


@pytest.mark.parametrize(
    ("cell", "found"),
    [
        ("['a', 'b']", ["a", "b"]),
        ("""["it's", 'x"y']""", ["it's", 'x"y']),
        (r"['a\n', 'b\'c']", ["a\n", "b'c"]),
        ("['a'\n 'b']", ["a", "b"]),  # as numpy prints it
        ('["a", "b"]', ["a", "b"]),
        ("[]", []),
        ("[a, b]", None),
        ("['a', __import__('os')]", None),
        ("['a'] * 9", None),
        ("['a', 'b'", None),
        ("[" * 100_000, None),
        ("text", None),
    ],
)
def test_lists_in_cells_are_spelt_as_json_python_or_numpy(cell: str, found: list[str] | None):
    assert list_in(cell) == found


def test_lists_that_pandas_wrote_to_csv_are_lists(tmp_path: Path):
    (tmp_path / "p.csv").write_text("query,pos,neg\nwho?,\"['A cat.', 'A fox.']\",\"['A dog.', 'An owl.']\"\n")
    assert pairs_of(tmp_path / "p.csv") == {("who?", "A cat."), ("who?", "A fox.")}
    assert negatives_of(tmp_path / "p.csv") == {"who?": {"A dog.", "An owl."}}


def test_code_in_brackets_stays_a_text_beside_other_texts(tmp_path: Path):
    (tmp_path / "p.csv").write_text("query,document\nwhich list?,['a']\nwhich sum?,1 + 1\n")
    assert pairs_of(tmp_path / "p.csv") == {("which list?", "['a']"), ("which sum?", "1 + 1")}


def test_grades_and_ids_that_pandas_made_floats_are_whole_numbers(tmp_path: Path):
    (tmp_path / "q.tsv").write_text("1\twho sat?\n")
    (tmp_path / "c.tsv").write_text("7\tA cat.\n")
    (tmp_path / "q.qrels").write_text("1 0 7 1.0\n")
    beside = {"queries": str(tmp_path / "q.tsv"), "corpus": str(tmp_path / "c.tsv")}
    assert pairs_of(tmp_path / "q.qrels", **beside) == {("who sat?", "A cat.")}
    table = pa.table({"id": [1.0, None], "question": ["who sat?", "who ran?"], "answer": ["A cat.", "A dog."]})
    pq.write_table(table, tmp_path / "p.parquet")
    import_data(str(tmp_path / "p.parquet"), tmp_path / "tables")
    first, second = Collection.load(tmp_path / "tables").examples()
    assert first.query_id == "1"
    assert len(second.query_id or "") == 16


def test_squad_needs_neither_titles_nor_ids(tmp_path: Path):
    questions = [{"question": "who sat?", "id": 101, "answers": []}, {"question": "who slept?", "answers": []}]
    given = {"data": [{"paragraphs": [{"context": "A cat.", "document_id": 33, "qas": questions}]}]}
    (tmp_path / "hay.json").write_text(json.dumps(given))
    assert pairs_of(tmp_path / "hay.json") == {("who sat?", "A cat."), ("who slept?", "A cat.")}


def test_nemo_reads_the_corpus_that_its_json_names(tmp_path: Path):
    (tmp_path / "wiki").mkdir()
    corpus = pa.table({"id": ["d1", "d2", "d3"], "text": ["A cat.", "A dog.", "An owl."]})
    pq.write_table(corpus, tmp_path / "wiki/train.parquet")
    data = [
        {"question_id": "q1", "question": "who sat?", "pos_doc": [{"id": "d1"}], "neg_doc": [{"id": "d2"}, "d3"]},
        {"question_id": 2, "question": "who ran?", "pos_doc": [{"id": "d2"}], "neg_doc": []},
    ]
    (tmp_path / "t.json").write_text(json.dumps({"corpus": [{"path": "wiki"}], "data": data}, indent=1))
    assert pairs_of(tmp_path / "t.json") == PAIRS
    assert negatives_of(tmp_path / "t.json")["who sat?"] == {"A dog.", "An owl."}
    (tmp_path / "t.json").write_text(json.dumps({"corpus": [{"path": "a"}, {"path": "b"}], "data": data}))
    with refuses(DataError, "data.several_corpora"):
        import_data(str(tmp_path / "t.json"), tmp_path / "out")


def test_nemo_writes_ids_with_a_corpus_beside_them(tmp_path: Path):
    rows = [{"query": "who sat?", "pos": ["A cat.", "A fox."], "neg": ["A\n dog."]}, {"query": "é?", "pos": ["O."]}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"neg": [], **row}) + "\n" for row in rows))
    store = Store(str(tmp_path / "store"), home=tmp_path / "home")
    _, target = export_pairs(store, str(tmp_path / "p.jsonl"), "nemo", str(tmp_path / "e.json"))
    written = json.loads(target.read_text())
    assert written["corpus"] == [{"path": "e-corpus"}] and {*written["data"][0]} >= {"question_id", "corpus_id"}
    about = json.loads((tmp_path / "e-corpus/merlin_metadata.json").read_text())
    assert about == {"class": "TextQADataset", "corpus_id": "e-corpus"}
    assert pairs_of(target) == pairs_of(tmp_path / "p.jsonl")
    assert negatives_of(target) == negatives_of(tmp_path / "p.jsonl")


@pytest.mark.parametrize("between", [",", ", "])
def test_a_cell_of_csv_keeps_its_line_ends_and_its_rewritten_copy_does(tmp_path: Path, between: str):
    lines = [between.join(cells) for cells in (["query", "document"], ['"a\r\nb"', '"c\nd, e"'], ['"q"', '"old"'])]
    (tmp_path / "p.csv").write_bytes("\r\n".join([*lines, ""]).encode())
    file = RowFile.open(str(tmp_path / "p.csv"), "data.path")
    rewrite(file, tmp_path / "new.csv", {5}, lambda _, row: row | {"document": "n, ew\r\n"}, NewColumn("weight", float))
    for name, last in (("p.csv", "old"), ("new.csv", "n, ew\r\n")):
        rows = [*RowFile.open(str(tmp_path / name), "data.path").rows(["query", "document"])]
        assert rows == [(2, {"query": "a\r\nb", "document": "c\nd, e"}), (5, {"query": "q", "document": last})]
    doubled = (tmp_path / "p.csv").read_bytes().replace(b"\r\n", b"\r\r\n")
    (tmp_path / "p.csv").write_bytes(doubled)
    assert [row["document"] for _, row in RowFile.open(str(tmp_path / "p.csv"), "data.path").rows(["document"])][
        -1
    ] == "old"


@pytest.mark.parametrize(
    ("lines", "document"),
    [
        (["query\tdocument", 'q\t"say ""hi"""', "r\ta b"], 'say "hi"'),
        (['"query"\t"document"', '"q"\t"say hi"', '"r"\t"a b"'], "say hi"),
        (["query\tdocument", 'q\t"say" hi', 'r\t"a ""b"""'], '"say" hi'),
        (["query\tdocument", 'q\t"say hi"', "r\ta b"], '"say hi"'),
        (["query\tdocument", 'q\t"say\nhi"', "r\ta b"], "say\nhi"),
        (["query\tdocument", 'q\t"say', 'r\ta" b'], '"say'),
    ],
)
def test_quotes_of_a_tsv_are_text_unless_the_file_doubles_them(tmp_path: Path, lines: list[str], document: str):
    (tmp_path / "p.tsv").write_text("\n".join([*lines, ""]))
    file = RowFile.open(str(tmp_path / "p.tsv"), "data.path")
    assert next(file.rows(["query", "document"]))[1] == {"query": "q", "document": document}
    rewrite(file, tmp_path / "new.tsv", {2 + lines[1].count("\n") + 1}, lambda _, row: row | {"document": 'new "one"'})
    again = RowFile.open(str(tmp_path / "new.tsv"), "data.path")
    assert [row["document"] for _, row in again.rows(["document"])] == [document, 'new "one"']


def test_every_line_behind_an_open_quote_is_counted(tmp_path: Path):
    (tmp_path / "p.csv").write_text('query,document\nwho sat?,A cat.\nq,"a\nr,b\ns,"c"\nwho ran?,A dog.\n')
    found = import_data(str(tmp_path / "p.csv"), tmp_path / "out")
    assert "left out    3: not csv (line 3, 4, 5)" in found.summary and found.report["pairs"] == {"train": 2}


@pytest.mark.parametrize(
    ("content", "code"),
    [
        ("query,document\nq,d\n".encode("utf-16"), "data.zero_bytes"),
        (b"query,document,document\nq,d,e\n", "data.column_name_twice"),
    ],
)
def test_a_fault_of_the_header_is_told_without_a_list_of_formats(tmp_path: Path, content: bytes, code: str):
    (tmp_path / "p.csv").write_bytes(content)
    with refuses(DataError, code):
        recognise(str(tmp_path / "p.csv"))


def test_what_people_prefer_is_a_document_and_what_they_reject_a_negative(tmp_path: Path):
    rows = [{"prompt": row["query"], "chosen": row["document"], "rejected": "A cow."} for row in ROWS]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert pairs_of(tmp_path / "p.jsonl") == PAIRS
    assert negatives_of(tmp_path / "p.jsonl")["who ran?"] == {"A cow."}


def test_an_index_without_a_name_is_no_unread_column(tmp_path: Path):
    (tmp_path / "p.csv").write_bytes(b",query,document,Unnamed: 3,note\n0,who sat?,A cat.,,x\n")
    assert import_data(str(tmp_path / "p.csv"), tmp_path / "out").report["unread"] == ["note"]


def test_a_pair_that_is_judged_again_otherwise_is_said(tmp_path: Path):
    (tmp_path / "p.csv").write_text("query,document,label\nq,d,1\nq,d,0\nr,e,1\nr,e,1\n")
    found = import_data(str(tmp_path / "p.csv"), tmp_path / "out")
    assert "1 pairs that are judged again, and otherwise: the first judgement counts (number 3)" in found.summary


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ({"how do I sit?": "On a mat.", "who sat?": "A cat."}, "data.unclear_columns"),
        (["how do I sit?", "who sat?", "who ran?"], "data.unknown_format"),
    ],
)
def test_texts_are_no_names_of_columns_and_no_triple(tmp_path: Path, value: object, code: str):
    (tmp_path / "p.json").write_text(json.dumps(value))
    with refuses(DataError, code) as caught:
        recognise(str(tmp_path / "p.json"))
    assert "--map" not in str(caught.value) and "is the query" not in str(caught.value)


def test_objects_in_cells_are_named_where_columns_are_missing(tmp_path: Path):
    (tmp_path / "p.json").write_text(json.dumps([{"id": 1, "fields": {"query": "q", "document": "d"}}]))
    with pytest.raises(DataError, match=r"make columns of the fields in fields \(query, document\)"):
        recognise(str(tmp_path / "p.json"))


@pytest.mark.parametrize(
    ("row", "columns"),
    [
        ({"user_input": "who sat?", "reference_contexts": ["It was a cat that sat."], "reference": "A cat."},
         "query: user_input, document: reference_contexts"),
        ({"query": "cats", "title": "A cat that sits", "product_id": "4711-8"}, "query: query, document: title"),
        ({"question": "who?", "passages": [{"text": "A cat."}]}, "query: question, document: passages"),
    ],
)  # fmt: skip
def test_the_advised_columns_are_the_likely_ones(tmp_path: Path, row: dict[str, object], columns: str):
    (tmp_path / "p.jsonl").write_text(json.dumps(row))
    with refuses(DataError, "data.unclear_columns") as caught:
        recognise(str(tmp_path / "p.jsonl"))
    assert f"data.columns={{{columns}}}" in str(caught.value)
    Pairs(path=str(tmp_path / "p.jsonl"), columns=yaml.safe_load(f"{{{columns}}}")).open()


def test_swift_reads_messages_and_its_label_judges(tmp_path: Path):
    def said(text: str, role: str = "user") -> list[dict[str, str]]:
        return [{"role": role, "content": text}]

    rows = [
        {"messages": said("be brief", "system") + said("who sat?"), "positive_messages": [said("A cat.")]},
        {"messages": said("who ran?") + said("A dog.", "assistant"), "rejected_messages": said("A cow.", "assistant")},
        {"messages": said("who hid?"), "positive_messages": [said("A cow.")], "label": 0.0},
    ]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = import_data(str(tmp_path / "p.jsonl"), tmp_path / "tables")
    assert (found.report["format"], found.report["judged"]["0"]) == ("swift", 1)
    assert "a system message, which is no part of a query (line 1)" in found.summary
    assert pairs_of(tmp_path / "p.jsonl") == {*PAIRS, ("who hid?", "A cow.")}
    assert negatives_of(tmp_path / "p.jsonl")["who ran?"] == {"A cow."}
    (tmp_path / "p.jsonl").write_text(json.dumps(rows[0] | {"label": 0.8}) + "\n")
    with refuses(DataError, "app.no_pair_read") as caught:
        import_data(str(tmp_path / "p.jsonl"), tmp_path / "out")
    assert "'label' must be 1 (right) or 0 (wrong)" in str(caught.value)


@pytest.mark.parametrize(
    ("row", "named"),
    [
        ({"query": "who sat?", "relevant_passages": ["A cat."], "hard_negatives": ["An owl."]}, "relevant_passages"),
        ({"query": "who sat?", "doc_id": "7", "doc_text": "A cat."}, "doc_text"),
    ],
)
def test_a_column_of_texts_of_another_name_is_answered_with_the_command(tmp_path, monkeypatch, capsys, row, named):
    monkeypatch.chdir(tmp_path)
    Path("p.jsonl").write_text(json.dumps(row) + "\n")
    assert main(["import", "p.jsonl", "--out", "tables"]) == 1
    advised = re.search(r"noisyir (import \S+ --out tables --map [^;\s]+)", capsys.readouterr().err)[1]
    assert main(shlex.split(advised.replace("NAME", named))) == 0
    (kept,) = Collection.load(Path("tables")).examples()
    assert (kept.query, [one.text for one in kept.positives]) == ("who sat?", ["A cat."])


@pytest.mark.parametrize("is_flat", [True, False])
def test_the_chosen_passages_of_ms_marco_are_right_and_the_others_negatives(tmp_path: Path, is_flat: bool):
    passages = [
        [{"passage_text": "A cat.", "is_selected": 1}, {"passage_text": "An owl.", "is_selected": 0}],
        [{"passage_text": "A dog.", "is_selected": 1}],
        [{"passage_text": "A cow.", "is_selected": 0}],
    ]
    lists = [{name: [one[name] for one in row] for name in row[0]} for row in passages]
    asked = [("who sat?", ["cat"]), ("who ran?", ["dog"]), ("who hid?", ["No Answer Present."])]
    rows = [
        {"query_id": number, "query": query, "answers": answers, "passages": row}
        for number, ((query, answers), row) in enumerate(zip(asked, lists if is_flat else passages, strict=True))
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "p.parquet")
    assert recognise(str(tmp_path / "p.parquet"))["kind"] == "ms_marco_qa"
    assert pairs_of(tmp_path / "p.parquet") == PAIRS
    assert negatives_of(tmp_path / "p.parquet") == {"who sat?": {"An owl."}, "who ran?": set(), "who hid?": {"A cow."}}
    (tmp_path / "p.jsonl").write_text(json.dumps(rows[0] | {"passages": lists[0] | {"is_selected": [1]}}))
    if is_flat:
        with refuses(DataError, "app.no_pair_read"):
            import_data(str(tmp_path / "p.jsonl"), tmp_path / "out")


@pytest.mark.parametrize("kind", ["nemo", "swift"])
def test_what_is_written_for_nemo_and_swift_reads_back_equal(tmp_path: Path, kind: str):
    rows = [{"query": "who sat?", "pos": ["A cat.", "A fox."], "neg": ["A\n dog."]}, {"query": "é?", "pos": ["O."]}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps({"neg": [], **row}) + "\n" for row in rows))
    said, target = export_pairs(
        Store(str(tmp_path / "store"), home=tmp_path / "home"),
        str(tmp_path / "p.jsonl"),
        kind,
        str(tmp_path / "e.jsonl"),
    )
    assert "3 pairs" in said
    assert recognise(str(target))["kind"] == kind
    assert pairs_of(target) == pairs_of(tmp_path / "p.jsonl")
    assert negatives_of(target) == negatives_of(tmp_path / "p.jsonl")


def test_an_import_that_keeps_no_pair_fails_with_the_commonest_reason_first(tmp_path: Path):
    rows = [{"query": "a", "document": 3}, {"query": "b", "document": ""}, {"query": "c", "document": ""}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with refuses(DataError, "app.no_pair_read") as caught:
        import_data(str(tmp_path / "p.jsonl"), tmp_path / "out")
    assert str(caught.value).index("2 x") < str(caught.value).index("1 x")
    assert not (tmp_path / "out").exists()


def test_an_export_without_a_pair_writes_nothing(tmp_path: Path):
    rows = [{"query": "who sat?", "document": "A cat.", "weight": 0.1}]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = Store(str(tmp_path / "store"), home=tmp_path / "home")
    with refuses(DataError, "app.no_pair_to_write"):
        export_pairs(store, str(tmp_path / "p.jsonl"), "tevatron", str(tmp_path / "e.jsonl"))
    assert not (tmp_path / "e.jsonl").exists()
