"""`noisyir import`: what was kept and what was left out is told by row; formats are told by what is in them."""

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.app.audit_data import settings_of_data
from noisyir.app.data_import import import_data
from noisyir.base.errors import ConfigError, DataError, NoisyirError
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise
from noisyir.data.stages.ingest import INGEST
from noisyir.front.cli import main
from tests.refusals import refuses

pytestmark = pytest.mark.usefixtures("timed")


def write(path: Path, *rows: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return str(path)


def test_every_row_is_kept_repeated_or_left_out_with_its_line(tmp_path: Path):
    source = write(tmp_path / "x.csv", "q;d", "who?;a cat", "who?;a cat", "what?;", "why?;a;b", "how?;a dog")
    report = import_data(source, tmp_path / "out", columns="query=q,positive=d").report
    [of] = report["files"].values()
    assert (of["read"], of["kept"]) == (5, 2)
    assert of["repeated"] == {"count": 1, "first": [3], "said": ""}
    whole = f"{source} line 5: expected 2 columns as in the header, found 3"
    assert of["left_out"] == {
        "document without text": {"count": 1, "first": [4], "said": ""},
        "expected 2 columns as in the header": {"count": 1, "first": [5], "said": whole},
    }
    assert json.loads((tmp_path / "out/import.json").read_text()) == report
    back = Collection.load(tmp_path / "out")
    assert [(e.query, p.text) for e, p in back.pairs()] == [("who?", "a cat"), ("how?", "a dog")]


def test_strict_refuses_what_would_be_left_out_and_writes_nothing(tmp_path: Path):
    source = write(tmp_path / "x.jsonl", {"query": "q", "document": "d"}, "no json")
    with refuses(DataError, "app.strict_loss", lost=1):
        import_data(source, tmp_path / "out", strict=True)
    assert not (tmp_path / "out").exists()
    whole = write(tmp_path / "y.jsonl", {"query": "q", "document": "d"})
    assert import_data(whole, tmp_path / "out", strict=True).report["tables"]["judgements"] == 1


def test_scores_and_negatives_are_kept(tmp_path: Path):
    row = {"query": "q", "pos": ["a"], "neg": ["b", "c"], "pos_scores": [0.9], "neg_scores": [0.5, -1]}
    imported = import_data(write(tmp_path / "x.jsonl", row), tmp_path / "out")
    assert imported.report["format"] == "flagembedding"
    back = Collection.load(tmp_path / "out")
    assert back.judgements["score"].to_pylist() == [0.9]
    assert back.negatives["score"].to_pylist() == [0.5, -1.0]


def test_what_was_imported_is_ingested(tmp_path: Path, run_stage_on):
    rows = [{"anchor": f"q{n}", "positive": f"d{n}", "negative_1": f"n{n}"} for n in range(3)]
    import_data(write(tmp_path / "x.jsonl", *rows), tmp_path / "out")
    settings = settings_of_data(str(tmp_path / "out"))
    assert settings["kind"] == "tables"
    tables = run_stage_on(INGEST, Format.parse(settings), {})
    assert tables["pairs"].num_rows == 3
    assert tables["corpus"].num_rows == 6


def test_an_import_gives_way_to_a_new_one_and_nothing_else_does(tmp_path: Path):
    source = write(tmp_path / "x.jsonl", {"query": "q", "document": "d"})
    for _ in range(2):
        import_data(source, tmp_path / "out")
    write(tmp_path / "mine/notes.txt", "dear to me")
    with refuses(ConfigError, "app.not_an_import"):
        import_data(source, tmp_path / "mine")


def saved(folder: Path) -> str:
    """A folder as `datasets` saves a DatasetDict."""
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    parts = {
        name: datasets.Dataset.from_list([{"question": f"{name}?", "answer": name}]) for name in ("train", "validation")
    }
    datasets.DatasetDict(parts).save_to_disk(folder)
    return str(folder)


def test_a_folder_that_datasets_saved_is_read_without_it(tmp_path: Path):
    report = import_data(saved(tmp_path / "hf"), tmp_path / "out").report
    assert report["pairs"] == {"train": 1, "dev": 1}


@pytest.mark.parametrize(
    ("name", "rows", "kind"),
    [
        ("x.json", ['[{"question": "q", "positive_ctxs": [], "answers": []}]'], "dpr_json"),
        ("x.jsonl", [{"query_id": 1, "query": "q", "positive_passages": [], "negative_passages": []}], "tevatron"),
        ("x.jsonl", [{"query": "q", "pos": ["a"], "neg": ["b"]}], "flagembedding"),
        ("x.csv", ["sentence1,sentence2,label", "a,b,1"], "sentence_transformers"),
        ("x.csv", ["question1,question2,is_duplicate", "a,b,1"], "pairs"),
        ("x.csv", ["query,response", "a longer query,b"], "pairs"),
        ("x.jsonl", [{"question": "q", "answers": ["a"], "positive": "p"}], "pairs"),
        ("x.jsonl", [{"question": "q", "answers": ["a"], "context": "c"}], "pairs"),
        ("x.jsonl", [{"question": "q", "answers": ["a"], "text": "t"}], "pairs"),
        ("x.jsonl", [{"question": "q", "answer": ["a"], "snippet": "t"}], "pairs"),
        ("x.csv", ["question|answer", "a|b"], "pairs"),
        ("x.tsv", ["a query\ta passage\tanother"], "triples"),
        ("x.tsv", ["12\t3\t4"], "triples"),
        ("x.txt", ["1 0 7 2"], "trec"),
        ("x.txt", ["1 Q0 7 1 3.5 bm25"], "trec"),
        ("x.txt", ["<top>", "<num> Number: 1", "<title> cats", "</top>"], "topics"),
        ("x.txt", ["who sat\t['a cat']"], "topics"),
        ("x.jsonl", [{"question": "q", "answer": "a"}], "pairs"),
        ("x.jsonl", [{"qid": 1, "title": "t", "code": "c", "label": 0}], "staqc"),
    ],
)
def test_a_format_is_recognised_by_its_content(tmp_path: Path, name, rows, kind):
    assert recognise(write(tmp_path / name, *rows))["kind"] == kind


@pytest.mark.parametrize(
    ("name", "rows", "given", "advice"),
    [
        (
            "x.csv",
            ["a,b", "who?,it was me"],
            {},
            r"it has a, b; if the first line is a pair, add names above it: if .a. is the query, set ",
        ),
        ("x.txt", ["1 0 7 2"], {}, r"give the texts with --queries FILE --corpus FILE"),
        ("x.tsv", ["1\t2\t3"], {}, r"give the texts with --queries FILE --corpus FILE"),
        ("x.tsv", ["1\ttext"], {}, r"--format topics takes them for queries"),
        (
            "x.jsonl",
            [{"query_text": "q", "positive_document_ids": ["1"]}],
            {},
            r"give data.corpus=FILE \(--corpus FILE\)",
        ),
        ("x.jsonl", [{"query": "q", "document": "d"}], {"kind": "tevatron"}, r"is not of format tevatron"),
        ("x.jsonl", [{"query": "q", "document": "d"}], {"kind": "tevatrn"}, r"did you mean tevatron\?"),
        ("x.jsonl", [{"query": "q", "document": "d"}], {"columns": "query"}, r"cannot use '.*': write WHAT=COLUMN"),
    ],
)
def test_a_wrong_guess_is_one_line_with_what_to_type(tmp_path: Path, name, rows, given, advice):
    with pytest.raises(NoisyirError, match=advice) as caught:
        import_data(write(tmp_path / name, *rows), tmp_path / "out", **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("verb", ["import", "check", "init", "export"])
def test_the_advice_for_unknown_columns_works_with_every_command(tmp_path: Path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "x.csv", "ask,says", *(f"who sat on mat {n}?,a cat sat on mat {n}" for n in range(20)))
    typed = [verb, "x.csv", *(["--as", "beir", "--to", "out"] if verb == "export" else [])]
    assert main(typed) == 1
    advice = re.search(r"type (noisyir [^:\n]*?)(?:, and go on|; if|\n)", capsys.readouterr().err)
    assert advice and main(shlex.split(advice[1])[1:]) == 0
    if verb == "export":
        assert main([verb, "x-tables", *typed[2:]]) == 0


@pytest.mark.parametrize("verb", ["audit", "init", "mine", "check", "import"])
def test_the_advice_for_a_file_of_no_known_format_works_with_every_command(tmp_path: Path, monkeypatch, capsys, verb):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain").mkdir()
    write(tmp_path / "ids.tsv", "1\twho sat", "2\twhat is")
    write(tmp_path / "my words", *(f"who sat on mat {n}" for n in range(20)))
    write(tmp_path / "texts", *(f"a cat sat on mat {n}" for n in range(20)))
    assert main([verb, "plain"]) == 1
    assert capsys.readouterr().err.endswith("name one of its files instead\n")
    assert main([verb, "ids.tsv"]) == 1
    typed = re.search(r"(noisyir import ids.tsv --format topics) takes", capsys.readouterr().err)
    assert typed and main(shlex.split(typed[1])[1:]) == 0
    assert main([verb, "my words"]) == 1
    typed = re.search(r"noisyir (import .* --format) KIND, and go on", capsys.readouterr().err)
    assert typed and main([*shlex.split(typed[1]), "line_pairs", "--corpus", "texts", "--out", "words"]) == 0
    assert verb != "init" or main([verb, "words"]) == 0


@pytest.mark.parametrize(("verb", "advised"), [("import", "audit"), ("import", "check"), ("init", "run")])
def test_the_next_command_names_a_file_with_spaces_so_that_it_can_be_typed(
    tmp_path, monkeypatch, capsys, verb, advised
):
    monkeypatch.chdir(tmp_path)
    write(
        tmp_path / "my pairs.csv", "query,document", *(f"who sat on mat {n}?,a cat sat on mat {n}" for n in range(30))
    )
    assert main([verb, "my pairs.csv"]) == 0
    [typed] = re.findall(rf"noisyir ({advised} .*)", capsys.readouterr().out)
    _, named = shlex.split(typed)
    assert Path(named).exists()


@pytest.mark.parametrize("header", [" Query , document ", '"query", "document"', "query, document"])
def test_spaces_around_a_name_do_not_count(tmp_path: Path, header):
    source = write(tmp_path / "x.csv", header, '"who, then?", "a cat, and a dog"')
    import_data(source, tmp_path / "out")
    [(example, passage)] = Collection.load(tmp_path / "out").pairs()
    assert (example.query, passage.text) == ("who, then?", "a cat, and a dog")


@pytest.mark.parametrize(
    ("name", "content", "fault"),
    [
        ("x.csv", b'query,document\r"a","b"\r', r"x.csv: its lines end with bare returns"),
        ("x.csv", b"query,document\nwho?,caf\xe9\n", r"x.csv line 2: not UTF-8 .*iconv"),
        ("x.csv", "query,document\nwho?,a cat\n".encode("utf-16"), r"x.csv line 1: holds zero bytes.*iconv"),
        ("x.jsonl", b'{"query": "who?", "document": "a cat"},\n', r"x.jsonl line 1: invalid JSON"),
    ],
)
def test_a_file_of_which_no_row_can_be_read_is_told_its_first_fault(tmp_path: Path, name, content, fault):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=fault) as caught:
        import_data(str(tmp_path / name), tmp_path / "out")
    assert "empty" not in str(caught.value) and not (tmp_path / "out").exists()


def test_the_advice_for_triples_of_ids_works(tmp_path: Path, capsys):
    source = write(tmp_path / "triples.tsv", "1\t10\t11")
    queries, corpus = write(tmp_path / "q.tsv", "1\twho sat"), write(tmp_path / "c.tsv", "10\ta cat", "11\ta dog")
    folder = tmp_path / "out"
    assert main(["import", source, "--queries", queries, "--corpus", corpus, "--out", str(folder)]) == 0
    assert "1 pairs (1 train), 1 negatives" in capsys.readouterr().out
    assert pq.read_table(folder / "negatives.parquet")["doc_id"].to_pylist() == ["11"]


def test_a_run_beside_qrels_gives_negatives(tmp_path: Path):
    files = {
        "queries": write(tmp_path / "q.tsv", "1\twho sat"),
        "corpus": write(tmp_path / "c.tsv", "10\ta cat", "11\ta dog"),
        "run": write(tmp_path / "run.txt", "1 Q0 10 1 2.5 x", "1 Q0 11 2 1.5 x"),
    }
    import_data(write(tmp_path / "qrels.txt", "1 0 10 1"), tmp_path / "out", beside=files)
    assert Collection.load(tmp_path / "out").negatives.to_pylist() == [{"query_id": "1", "doc_id": "11", "score": 1.5}]


def test_comments_in_qrels_and_tags_with_spaces_are_read_and_lines_of_another_form_are_told(tmp_path: Path):
    files = {
        "queries": write(tmp_path / "q.tsv", "1\twho sat"),
        "corpus": write(tmp_path / "c.tsv", "10\ta cat", "11\ta dog", "12\ta cow"),
        "run": write(tmp_path / "run.txt", "1 Q0 10 1 2.5 my run", "1 Q0 11 2 1.5 x", "1 12 3", "1 Q0 12 4"),
    }
    done = import_data(write(tmp_path / "qrels.txt", "# of 1", "1 0 10 1", "# no more"), tmp_path / "out", beside=files)
    found = Collection.load(tmp_path / "out")
    assert found.judgements["doc_id"].to_pylist() == ["10"]
    assert found.negatives.to_pylist() == [{"query_id": "1", "doc_id": "11", "score": 1.5}]
    (run,) = (of for place, of in done.report["files"].items() if "run" in place)
    (lines,) = (of["first"] for reason, of in run["left_out"].items() if "expected qid Q0" in reason)
    assert lines == [3, 4]


def test_many_documents_at_once_are_as_one_by_one(tmp_path: Path):
    rows = [{"_id": str(n), "title": "t" if n % 2 else None, "text": f"text {n % 40}"} for n in range(50)]
    rows[3]["text"], rows[4]["text"], rows[5]["text"] = (
        "\N{GRINNING FACE} \N{PARTY POPPER}",
        "lost \N{REPLACEMENT CHARACTER}",
        "d\\ud83d",
    )
    beir = [
        write(tmp_path / name / "corpus.jsonl", *some) for name, some in (("a", rows), ("b", [*rows, {"_id": "7"}]))
    ]
    for path in beir:
        write(Path(path).parent / "queries.jsonl", {"_id": "q", "text": "who?"})
        write(Path(path).parent / "qrels/test.tsv", "query-id\tcorpus-id\tscore", "q\t1\t1")
    fast, slow = (import_data(str(Path(path).parent), Path(path).parent / "out") for path in beir)
    assert Collection.load(fast.folder).documents.equals(Collection.load(slow.folder).documents)
    assert fast.report["odd"] == slow.report["odd"]
    [lost] = [of for place, of in slow.report["files"].items() if "corpus" in place]
    assert (lost["read"], lost["kept"], lost["left_out"]["lacks 'text'"]["first"]) == (51, 50, [51])


def test_ids_of_ir_datasets_are_read_by_the_package(tmp_path: Path):
    ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")
    data = ir_datasets.create_dataset(
        docs_tsv=write(tmp_path / "d.tsv", "10\ta cat", "11\ta dog"),
        queries_tsv=write(tmp_path / "q.tsv", "1\twho sat"),
        qrels_trec=write(tmp_path / "r.txt", "1 0 10 1"),
    )
    if "ours/test" not in ir_datasets.registry:
        ir_datasets.registry.register("ours/test", data)
    report = import_data("ir_datasets:ours/test", tmp_path / "out").report
    assert report["pairs"] == {"test": 1}
    with refuses(DataError, "data.ir_datasets_unknown_id", id="nowhere"):
        import_data("ir_datasets:nowhere", tmp_path / "other")


def test_tables_of_other_columns_are_refused(tmp_path: Path):
    import_data(write(tmp_path / "x.jsonl", {"query": "q", "document": "d"}), tmp_path / "out")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "out/queries.parquet")
    with refuses(DataError, "data.wrong_table_columns"):
        Format.parse(recognise(str(tmp_path / "out"))).open()


def test_a_damaged_arrow_file_is_told_and_not_followed_out_of_memory(tmp_path: Path):
    path = tmp_path / "pairs.arrow"
    table = pa.table({"query": [f"what is {n}?" for n in range(99)], "document": [f"text {n}" for n in range(99)]})
    with pa.OSFile(str(path), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    whole = path.read_bytes()
    ends = table["document"].chunk(0).buffers()[1].to_pybytes()  # where each text ends
    assert whole.count(ends) == 1
    path.write_bytes(whole.replace(ends, ends[:8] + b"\xff\xff\xff\x7f" + ends[12:]))
    with refuses(DataError, "data.damaged_after", number=0):
        import_data(str(path), tmp_path / "out")
    path.write_bytes(whole)
    assert import_data(str(path), tmp_path / "out").report["tables"]["judgements"] == 99


def test_a_line_that_is_left_out_takes_its_partner_along_and_no_other(tmp_path: Path):
    (tmp_path / "x.nl").write_bytes(b"one\n\xff\xfe\nthree\n")
    (tmp_path / "x.cm").write_text("a\nb\nc\n")
    import_data(str(tmp_path / "x.nl"), tmp_path / "out")
    back = Collection.load(tmp_path / "out")
    assert [(e.query, p.text) for e, p in back.pairs()] == [("one", "a"), ("three", "c")]


@pytest.mark.parametrize(
    ("row", "late"),
    [
        ({"query": "q", "pos": ["d"], "neg": ["n"]}, {"split": "test"}),
        ({"anchor": "q", "positive": "d"}, {"split": "dev"}),
    ],
)
def test_a_split_that_comes_up_late_is_never_unread(tmp_path: Path, row, late):
    """The message's own remedy, a null in the first row, has it read."""
    rows = [
        row | {"query": f"{n}?", "anchor": f"{n}?"} if "anchor" in row else row | {"query": f"{n}?"} for n in range(110)
    ]
    kind = "sentence_transformers" if "anchor" in row else "flagembedding"
    path = write(tmp_path / "x.jsonl", *rows, rows[0] | {"query": "last?", "anchor": "last?"} | late)
    with refuses(DataError, "data.late_column", number=111, first=100):
        list(Format.parse({"kind": kind, "path": path}).open().judgements())
    write(Path(path), rows[0] | {"split": None}, *rows[1:], rows[0] | {"query": "last?", "anchor": "last?"} | late)
    found = [one.split for one in Format.parse({"kind": kind, "path": path}).open().judgements()]
    assert found == ["train"] * 110 + [late["split"]]


def test_damaged_tables_are_told_and_imported_again(tmp_path: Path):
    source = write(tmp_path / "x.jsonl", {"query": "q", "document": "d"})
    import_data(source, tmp_path / "out")
    for name in ("documents", "queries", "judgements", "negatives"):
        (tmp_path / "out" / f"{name}.parquet").write_bytes(b"PAR1PAR1")
        with pytest.raises(DataError, match=rf"{name}.parquet is damaged: import the data again"):
            Format.parse(recognise(str(tmp_path / "out"))).open()
        import_data(source, tmp_path / "out")
        assert list(Format.parse(recognise(str(tmp_path / "out"))).open().judgements())


@pytest.mark.parametrize(("file", "said"), [("qrels.txt", "is empty"), ("run.txt", "holds no hits")])
def test_an_empty_file_of_trec_is_not_taken_for_one_without_rows(tmp_path: Path, file, said):
    write(tmp_path / "qrels.txt", "1 0 10 1")
    write(tmp_path / "run.txt", "1 Q0 11 1 2.5 x")
    write(tmp_path / "topics.tsv", "1\twho sat")
    write(tmp_path / "corpus.tsv", "10\ta cat", "11\ta dog")
    (tmp_path / file).write_text("")
    with pytest.raises(DataError, match=f"{file} {said}"):
        import_data(str(tmp_path), tmp_path / "out")


def test_nothing_that_could_be_read_is_one_line(tmp_path: Path):
    (tmp_path / "x.tsv").write_bytes("a\tb\tc\n".encode("utf-16"))
    with refuses(DataError, "app.no_pair_read") as caught:
        import_data(str(tmp_path / "x.tsv"), tmp_path / "out", kind="triples")
    assert "\n" not in str(caught.value)
