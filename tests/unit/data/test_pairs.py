"""Files of pairs as people have them: every format says the same, and every fault is one line with its place."""

import csv
import gzip
import json
import random
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.app.own_data import said_of_length
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.formats.pairs import Pairs
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan, resolve
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.methods import experiments
from tests.refusals import refuses

ROWS = [
    {"question": "who sat?", "answer": 'A cat, "the" cat\nsat.', "topic": "cats"},
    {"question": "who ran?", "answer": "A dog ran.", "topic": "dogs"},
    {"question": "what counts?", "answer": "Größe zählt nicht.", "topic": ""},
    {"question": "who sat?", "answer": "A dog ran.", "topic": "dogs"},
    {"question": "who ran?", "answer": "A dog ran.", "topic": "cats"},
]
CORPUS = [
    {"_id": "1", "title": "Cats", "text": "A cat sat.", "metadata": {}},
    {"_id": "2", "title": "", "text": "A dog ran."},
    {"_id": "3", "text": "Nobody asks for this."},
]
NAMED = [{"qid": 7, "text": "who sat?", "doc_id": 1}, {"qid": 8, "text": "who ran?", "doc_id": 2}]


def write(path: Path, rows: list[dict[str, object]] | bytes) -> Path:
    """The rows in the format of the file's suffix; bytes as they are."""
    if isinstance(rows, bytes):
        path.write_bytes(rows)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(write(path.with_suffix(""), rows).read_bytes()))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    else:
        with path.open("w", newline="", encoding="utf-8") as handle:
            out = csv.DictWriter(handle, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
            out.writeheader()
            out.writerows(rows)
    return path


@pytest.fixture
def ingest(run_stage_on, tmp_path):
    def run(rows=None, name="pairs.jsonl", *, corpus=None, corpus_name="corpus.jsonl", **settings):
        if rows is not None:
            settings["path"] = str(write(tmp_path / name, rows))
        if corpus is not None:
            settings["corpus"] = str(write(tmp_path / corpus_name, corpus))
        params = Pairs(**settings)
        return run_stage_on(INGEST, params, {})

    return run


def texts(tables):
    """Pairs with the texts that their ids stand for."""
    documents = {row["doc_id"]: row["text"] for row in tables["corpus"].to_pylist()}
    queries = {row["query_id"]: row["text"] for row in tables["queries"].to_pylist()}
    rows = tables["pairs"].to_pylist()
    return [(queries[row["query_id"]], documents[row["doc_id"]], row["split"], row["source"]) for row in rows]


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv", "pairs.parquet", "PAIRS.jsonl.gz", "pairs.csv.gz"])
def test_every_format_gives_the_same_tables(ingest, store, name):
    tables = ingest(ROWS, name)
    assert texts(tables) == [
        ("who sat?", 'A cat, "the" cat\nsat.', "train", "cats"),
        ("who ran?", "A dog ran.", "train", "dogs"),
        ("what counts?", "Größe zählt nicht.", "train", None),
        ("who sat?", "A dog ran.", "train", "dogs"),
    ]
    assert (tables["corpus"].num_rows, tables["queries"].num_rows, tables["qrels"].num_rows) == (3, 3, 0)
    [meta] = store.builds.all()
    assert meta.notes["source"] == {
        "name": name.split(".")[0],
        "columns": {"document": "answer", "query": "question", "source": "topic"},
        "repeated_pairs": 1,
    }
    assert "not scored" in meta.notes["scoring"]


def test_tsv_cells_are_taken_as_they_stand(ingest):
    tables = ingest(b'query\tdocument\n"quoted\tls -l "*.py"\n', "pairs.tsv")
    assert texts(tables) == [('"quoted', 'ls -l "*.py"', "train", None)]


def test_quotes_of_a_tsv_are_known_by_a_cell_with_tabs_and_several_lines(ingest):
    cells = [("who sat?", "A cat:\n\tthe\tone", "cats"), ("who ran?", "Dogs:\n\ttwo\n\tof them", "dogs")]
    rows = "".join(f'{query}\t"{document}"\t{source}\n' for query, document, source in cells)
    tables = ingest(f"query\tdocument\tsource\n{rows}".encode(), "pairs.tsv")
    assert texts(tables) == [(query, document, "train", source) for query, document, source in cells]


@pytest.mark.parametrize("short", [1, 19, 20])
def test_documents_that_models_do_not_read_whole_are_counted_and_told_unless_they_are_cut_or_few(ingest, store, short):
    brief = [{"question": f"how short is {n}?", "answer": f"word {n} " * 250} for n in range(short)]
    ingest([{"question": "how long?", "answer": "word " * 501}, *brief])
    [read] = [SimpleNamespace(meta=meta) for meta in store.builds.all()]
    said = said_of_length(SimpleNamespace(results={"ingest": read}))
    told = "of documents longer than 500 words (1) models read the beginnings; chunk.words=150 cuts them"
    assert said == (None if short == 20 else told)
    assert said_of_length(SimpleNamespace(results={"ingest": read, "chunk": read})) is None


def test_ids_depend_on_the_texts_alone(ingest):
    forwards, backwards = ingest(ROWS), ingest(ROWS[::-1])
    for name, key in (("corpus", "doc_id"), ("queries", "query_id")):
        assert set(forwards[name][key].to_pylist()) == set(backwards[name][key].to_pylist())


@pytest.mark.parametrize(
    ("ids", "queries"),
    [
        ([{"id": 1}, {"id": 2}, {"id": 3}], None),
        ([{"id": 1}, {"id": 1}, {"id": 3}], ["1", "3"]),
        ([{"id": 1, "question_id": 7}, {"id": 2, "question_id": 7}, {"id": 3, "question_id": 8}], ["7", "8"]),
        ([{"query_id": 1}, {"query_id": 2}, {"query_id": 3}], ["1", "2", "3"]),
    ],
)
def test_ids_of_rows_are_no_ids_of_queries(ingest, ids, queries):
    texts = [("who sat?", "A cat."), ("who sat?", "A cow."), ("who ran?", "A dog.")]
    rows = [one | {"question": query, "answer": document} for one, (query, document) in zip(ids, texts, strict=True)]
    found = ingest(rows)["queries"]["query_id"].to_pylist()
    assert len(found) == 2 if queries is None else found == queries


@pytest.mark.parametrize(("name", "is_read"), [("question_id", False), ("id", False), ("query_id", True)])
def test_an_id_of_several_queries_is_not_read_as_theirs_and_is_named(tmp_path, name, is_read):
    rows = [{name: n // 2, "intent": f"how {n // 2 if n < 50 else n}", "snippet": f"s{n}"} for n in range(52)]
    same = write(tmp_path / "same.jsonl", [{**row, "intent": f"how {row[name]}"} for row in rows])
    assert Pairs(path=str(same)).open().columns["query_id"] == name
    opened = Pairs(path=str(write(tmp_path / "p.jsonl", rows))).open()
    assert (opened.columns.get("query_id"), opened.unread) == ((name, []) if is_read else (None, [name]))
    if not is_read:
        assert len({pair.query_id for pair in opened.judgements()}) == 27
        mapped = Pairs(path=str(tmp_path / "p.jsonl"), columns={"query_id": name}).open()
        with refuses(DataError, "data.changed_text", column=name, first=51):
            list(mapped.judgements())


def test_ids_beside_missing_queries_are_ids_of_queries(tmp_path):
    rows = [{"id": number, "query": query, "document": "d"} for number, query in enumerate(["", "", "who sat?"])]
    (tmp_path / "p.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert Pairs(path=str(tmp_path / "p.jsonl")).open().columns["query_id"] == "id"


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.csv", "corpus.tsv.gz", "corpus.parquet"])
def test_pairs_may_name_documents_of_a_corpus_file(ingest, name):
    corpus = [{column: row.get(column, "") for column in ("_id", "title", "text")} for row in CORPUS]
    tables = ingest(NAMED, corpus=corpus, corpus_name=name)
    assert tables["corpus"]["doc_id"].to_pylist() == ["1", "2", "3"]
    assert tables["corpus"]["title"].to_pylist() == ["Cats", "", ""]
    assert tables["pairs"].to_pylist() == [
        {"query_id": "7", "doc_id": "1", "split": "train", "source": None},
        {"query_id": "8", "doc_id": "2", "split": "train", "source": None},
    ]


def test_a_beir_corpus_is_a_corpus_file(ingest):
    assert ingest(NAMED, corpus=CORPUS)["corpus"]["title"].to_pylist() == ["Cats", "", ""]


def test_only_the_pairs_of_dev_and_test_are_judgements(ingest):
    splits = ["Train", "dev", "TEST", "val", None]
    rows = [{"query": f"q{n}", "document": f"d{n}", "split": split} for n, split in enumerate(splits)]
    tables = ingest(rows)
    split_of = dict(zip(tables["queries"]["query_id"].to_pylist(), tables["queries"]["split"].to_pylist(), strict=True))
    assert list(split_of.values()) == ["train", "dev", "test", "dev", "train"]
    assert [split_of[query_id] for query_id in tables["qrels"]["query_id"].to_pylist()] == ["dev", "test", "dev"]
    assert tables["qrels"]["relevance"].to_pylist() == [1, 1, 1]
    assert tables["pairs"]["split"].to_pylist() == ["train", "dev", "dev", "train"]
    assert ingest(rows, columns={"split": None})["qrels"].num_rows == 0
    assert ingest([{("partition" if name == "split" else name): value for name, value in row.items() if value}
                   for row in rows]) == tables  # fmt: skip
    plain = [{"query": row["query"], "document": row["document"], "partition": "north"} for row in rows]
    assert ingest(plain)["qrels"].num_rows == 0


def test_columns_that_are_not_mapped_are_not_read(ingest):
    plain = ingest(ROWS)
    labelled = ingest(
        [{**row, "label": n % 2, "note": "mismatch"} for n, row in enumerate(ROWS)], columns={"label": None}
    )
    assert all(labelled[name] == plain[name] for name in plain)


@pytest.mark.parametrize(
    ("row", "query", "document", "title"),
    [
        ({"title": "t", "text": "x"}, "t", "x", ""),
        ({"text": "x", "code": "c"}, "x", "c", ""),
        ({"Query": "q", "TEXT": "x", "Title": "t"}, "q", "x", "t"),
        ({"anchor": "a", "positive": "p", "note": "n"}, "a", "p", ""),
        ({"sentence1": "a", "sentence2": "b", "note": 0.5}, "a", "b", ""),
        ({"question": "a", "context": "b", "answer": "c"}, "a", "b", ""),
        ({"premise": "a", "hypothesis": "b"}, "a", "b", ""),
    ],
)
def test_usual_names_are_recognised(ingest, row, query, document, title):
    tables = ingest([row])
    assert texts(tables) == [(query, document, "train", None)]
    assert tables["corpus"]["title"].to_pylist() == [title]


def test_mapped_columns_come_before_usual_names(ingest):
    row = {"query": "stemmed", "title": "as asked", "code": "c", "origin": 3, "id": 5}
    mapping = {"query": "title", "source": "origin", "query_id": None}
    tables = ingest([row], columns=mapping)
    assert texts(tables) == [("as asked", "c", "train", "3")]
    assert tables["corpus"]["title"].to_pylist() == [""]
    assert tables["queries"]["query_id"].to_pylist() != ["5"]


def test_a_row_may_list_several_documents(ingest):
    tables = ingest([{"query": "q", "pos": ["a", "b", "a"], "neg": ["c"]}])
    assert [document for _, document, _, _ in texts(tables)] == ["a", "b"]
    assert ingest([{"query": "q", "pos": ["a"]}, {"query": "r", "pos": []}], on_empty="exclude")["pairs"].num_rows == 1


def test_weights_are_read_beside_the_pairs_and_change_no_table(ingest, tmp_path):
    weights = [0.25, None, 1, 0, 0.5]
    rows = [row | {"weight": weight} for row, weight in zip(ROWS, weights, strict=True)]
    for name in ("pairs.jsonl", "pairs.parquet", "pairs.csv"):
        given = [{key: "" if value is None else value for key, value in row.items()} for row in rows]
        tables = ingest(given if name.endswith("csv") else rows, name)
        assert tables["pairs"].equals(ingest(ROWS, "plain.jsonl")["pairs"])
        data = Pairs(path=str(tmp_path / name))
        found = data.weights()
        asked = [(pair.query_id, pair.doc_id) for pair in data.open().judgements()]
        assert found == {asked[0]: 0.25, asked[2]: 1.0, asked[3]: 0.0}, "the first of equal pairs counts"
    assert Pairs(path=str(tmp_path / "pairs.csv")).has_weights
    assert not Pairs(path=str(tmp_path / "pairs.csv"), columns={"weight": None}).has_weights
    assert not Pairs(path=str(tmp_path / "none.csv")).has_weights


def test_only_training_pairs_have_weights(tmp_path):
    rows = [
        row | {"weight": 0.5, "split": split} for row, split in zip(ROWS[:3], ("train", "dev", "test"), strict=True)
    ]
    assert list(Pairs(path=str(write(tmp_path / "pairs.jsonl", rows))).weights().values()) == [0.5]


def test_identical_pairs_collapse_to_one(ingest, store):
    assert ingest([ROWS[0]] * 50)["pairs"].num_rows == 1
    [meta] = store.builds.all()
    assert meta.notes["source"]["repeated_pairs"] == 49


def test_five_pairs_of_one_source_are_enough(ingest):
    rows = [{"query": f"q{n}", "document": f"d{n}", "source": "log"} for n in range(5)]
    assert ingest(rows)["pairs"]["source"].to_pylist() == ["log"] * 5


def test_empty_texts_are_left_out_one_by_one_when_asked(ingest):
    rows = [*ROWS, {"question": " ", "answer": "x"}, {"question": None, "answer": "y"}, {"question": "q", "answer": ""}]
    tables = ingest(rows, on_empty="exclude")
    assert tables["pairs"].num_rows == 4
    assert [row["id"] for row in tables["excluded"].to_pylist() if row["reason"] == "no text"] == [
        "row 8",
        "row 6",
        "row 7",
    ]


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl.gz", "pairs.parquet"])
def test_a_document_longer_than_csv_allows_by_default_is_read(ingest, name):
    assert ingest([{"query": "q", "document": "x" * 500_000}], name)["pairs"].num_rows == 1


GOOD = b"query,document\nq,d\n"
LATIN = b"query,document\nq,caf\xe9\n"
BAD_PARQUET = pa.table({"query": ["a", "b"], "document": pa.array([b"ok", b"caf\xe9"]).view(pa.string())})
JSON = '{"query": "q", "document": "d"}\n'


@pytest.mark.parametrize(
    ("rows", "name", "settings", "message"),
    [
        (None, "", {}, r"needs a file: data\.path=FILE"),
        (None, "", {"path": "/no/such.csv"}, r"no file /no/such.csv: set data.path to one that is there$"),
        (None, "", {"path": "such.csv"}, r"no file /.*/such.csv: set data.path .* it may be relative to that file$"),
        (None, "", {"path": "/"}, r"/ is not a file: set data.path to a .jsonl, "),
        (b"[]", "pairs.json", {}, r"pairs.json is empty: data.path must name a file with at least one row"),
        (b"x", "pairs.parquet.gz", {}, r"data.path reads .jsonl, .*; .jsonl, .csv, .tsv, .json also packed"),
        (b"", "pairs.jsonl", {}, r"pairs.jsonl is empty"),
        (b"", "pairs.csv", {}, r"pairs.csv is empty"),
        (b"query,document\n", "pairs.csv", {}, r"pairs.csv holds no pairs"),
        (b"query,query\na,b\n", "pairs.csv", {}, r"two columns of .*pairs.csv are called 'query'"),
        (b"ask,document\na,b\n", "pairs.csv", {}, r"no column for query .query, question.*it has ask, document; map"),
        (b"query,doc\na,b\n", "pairs.csv", {}, r"it has query, doc; .*document: NAME.* data.corpus=FILE"),
        (b"query,doc_id\na,b\n", "pairs.csv", {}, r"pairs without a corpus: .*names documents .'doc_id'. but has no"),
        (b"query,document\na,b\n", "p.csv", {"columns": {"source": "src"}}, r"no column 'src', which data.columns maps "
         r"to source; it has query, document"),
        (b"query,document\na,b,c\n", "pairs.csv", {}, r"pairs.csv line 2: expected 2 columns .*found 3"),
        (b'query,document\na,"b\n', "pairs.csv", {}, r"pairs.csv line 2: not csv, mend it: unexpected end of data"),
        (b'query,document\n"a\nb",c\nd,\n', "pairs.csv", {}, r"pairs.csv line 4: document 'row 4' has no text"),
        (LATIN, "pairs.csv", {}, r"pairs.csv line 2: not UTF-8 .byte 20 of the file"),
        (gzip.compress(LATIN, mtime=0), "pairs.csv.gz", {}, r"pairs.csv.gz line 2: not UTF-8"),
        (gzip.compress(GOOD, mtime=0)[:-12], "pairs.csv.gz", {}, r"pairs.csv.gz: damaged after line"),
        (b"no gzip", "pairs.csv.gz", {}, r"pairs.csv.gz: damaged after line 0"),
        (b"PAR1", "pairs.parquet", {}, r"pairs.parquet is not Parquet, or damaged"),
        (b'{"query": "q", "document": "d"}\n{\n', "pairs.jsonl", {}, r"pairs.jsonl line 2: invalid JSON"),
        ((JSON * 150 + "{\n").encode(), "pairs.jsonl", {}, r"pairs.jsonl line 151: invalid JSON"),
        ([{"query": 5, "document": "d"}], "pairs.parquet", {}, r"pairs.parquet row 1: 'query' must be text, found 5"),
        ([{"query": "q", "document": {"a": 1}}], "pairs.jsonl", {}, r"line 1: .document. must be text or hold it"),
        ([{"query": "q", "qid": 1.5, "document": "d"}], "pairs.jsonl", {}, r"line 1: 'qid' must be text, found 1.5"),
        ([{"query": "q", "qid": " ", "document": "d"}], "pairs.jsonl", {}, r"line 1: the query's id is empty"),
        ([{"query": "q", "pos": ["a", "b"], "pid": ["1"]}], "pairs.jsonl", {}, r"line 1: doc_id and document list"),
        ([{"query": "q", "document": "d", "weight": 7}], "pairs.jsonl", {}, r"line 1: 'weight' must be a weight from 0 "
         r"to 1, found 7; data.columns={weight: null} leaves the column unread"),
        ([{"query": "q", "document": "d", "weight": "nan"}], "pairs.csv", {}, r"line 2: 'weight' must be a weight"),
        ([{"query": "q", "document": "d", "weight": True}], "pairs.jsonl", {}, r"line 1: 'weight' must be a weight"),
        ([{"query": "q", "document": "d", "weight": [0.5, 1]}], "pairs.jsonl", {}, r"line 1: weight lists 2 values"),
        ([{"query": "q", "pos": ["a", "b"], "weight": [1]}], "pairs.jsonl", {}, r"document and weight list different"),
        ([{"query": "q", "document": "d", "split": "all"}], "pairs.csv", {}, r"'split' must be train, dev or test"),
        ([{"query": "q", "document": "d", "split": s} for s in ("train", "dev")], "p.csv", {}, r"line 3: .* split dev"),
        ([{"QID": 1, "query": q, "document": "d"} for q in "ab"], "p.csv", {}, r"line 3: QID '1' has another text "
         r"than at 2; .*columns={query_id: null}"),
        ([{"id": n % 1000, "query": f"{n}", "document": "d"} for n in range(1001)], "p.csv", {}, r"line 1002: "
         r"id '0' has another text than at 2; .*columns={query_id: null}"),
        ([{"query": "q", "pid": 1, "document": d} for d in "ab"], "p.csv", {}, r"line 3: pid '1' has another text"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_with_its_place(ingest, rows, name, settings, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(rows, name, **settings)
    assert "\n" not in str(caught.value)


def test_bytes_that_are_not_utf8_are_found_in_parquet_too(ingest, tmp_path):
    pq.write_table(BAD_PARQUET, tmp_path / "bad.parquet")
    with refuses(DataError, "data.not_utf8_row", number=2):
        ingest(path=str(tmp_path / "bad.parquet"))


@pytest.mark.parametrize(
    ("rows", "corpus", "settings", "message"),
    [
        ([*NAMED, {"qid": 9, "text": "who?", "doc_id": 4}, {"qid": 9, "text": "who?", "doc_id": 5}], CORPUS, {},
         r"pairs.jsonl line 3: unknown document '4'; 2 of the documents .* not in the corpus"),
        (ROWS, [{"name": "x"}], {}, r"corpus.jsonl has no column for document .text, document.*it has name$"),
        (NAMED, CORPUS, {"columns": {"document": "text"}}, r"maps document, but with data.corpus the texts come from "),
        (NAMED, [{"name": "1", "text": "x"}], {}, r"corpus.jsonl has no column for doc_id .*it has name, text$"),
        (NAMED, [*CORPUS, CORPUS[0]], {}, r"corpus.jsonl line 4: document id '1' occurs again, first at 1"),
        (NAMED, b"", {}, r"corpus.jsonl is empty: data.corpus must name a file"),
    ],
)  # fmt: skip
def test_a_fault_with_a_corpus_file_is_one_line_with_its_place(ingest, rows, corpus, settings, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(rows, corpus=corpus, **settings)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("ids", [False, True])
def test_a_file_of_texts_adds_to_the_documents_of_pairs_that_have_their_own(ingest, ids):
    pool = [*CORPUS, {"_id": "4", "text": "A dog ran."}] if ids else [{"text": row["text"]} for row in CORPUS]
    read = ingest(ROWS, corpus=pool)["corpus"]["text"].to_pylist()
    assert read[:3] == [row["answer"] for row in ROWS[:3]] and "Nobody asks for this." in read[3:]
    assert read.count("A dog ran.") == (3 if ids else 1)


def test_the_digest_follows_the_content_of_both_files_and_not_their_place(tmp_path):
    def digest(folder: str, pairs: object = NAMED, corpus: object = CORPUS) -> str:
        (tmp_path / folder / "elsewhere").mkdir(parents=True)
        path = write(tmp_path / folder / "pairs.jsonl", pairs)
        other = write(tmp_path / folder / "elsewhere" / "corpus.jsonl", corpus)
        return Pairs(path=str(path), corpus=str(other)).digest()

    first = digest("a")
    assert digest("b") == first
    assert len({first, digest("c", pairs=NAMED[:1]), digest("d", corpus=CORPUS[:2])}) == 3


def test_the_mapping_enters_the_key_and_the_places_do_not():
    exp = experiments.load("demo", ["data.kind=pairs", "data.corpus=/a", "data.columns={query: q, split: null}"])
    values = exp.data.key_values()
    assert values["columns"] == {"query": "q", "split": None} and not {"path", "corpus"} & set(values)
    assert experiments.load("demo", ["data.kind=pairs", "data.columns.query=q"]).data.columns == {"query": "q"}
    with pytest.raises(ConfigError, match=r"data\.columns\.qery.*'query', 'document'"):
        experiments.load("demo", ["data.kind=pairs", "data.columns={qery: q}"])


STAQC = Path(__file__).parents[3].parent / "shared" / "data" / "staqc_sql" / "sql_annotated.jsonl"


@pytest.mark.skipif(not STAQC.is_file(), reason="StaQC of ../shared/data is not here")
def test_staqc_is_read_without_its_labels(ingest):
    columns = {"query": "title", "document": "code", "query_id": "qid", "doc_id": "id", "split": None, "label": None}
    tables = ingest(path=str(STAQC), columns=columns)
    assert tables["pairs"].num_rows == 3637 and tables["qrels"].num_rows == 0
    assert tables["pairs"]["split"].unique().to_pylist() == ["train"]


class Progress(Observer):
    def __init__(self) -> None:
        self.told: list[tuple[int, int | None, str]] = []

    def progress(self, step, done, total, unit):
        self.told.append((done, total, unit))


@pytest.mark.parametrize("name", ["pairs.jsonl", "pairs.csv", "pairs.jsonl.gz"])
def test_reading_tells_how_much_of_the_file_is_read(name, store, tmp_path, monkeypatch):
    monkeypatch.setattr("noisyir.data.ingesting.PART_DOCUMENTS", 10)
    draw = random.Random(0)  # its texts shrink little, so that each part is more than a megabyte in every file
    texts = [b64encode(draw.randbytes(105_000)).decode() for _ in range(30)]
    rows = [{"query": f"who {n}?", "document": text} for n, text in enumerate(texts)]
    path = write(tmp_path / name, rows)
    plan, seen = Plan(0), Progress()
    plan.add(INGEST, Pairs(path=str(path)))
    (step,) = plan.steps
    run_stage(step, resolve(step, plan, store, {}), store=store, runtime=Runtime(), observer=seen)
    done, totals, units = zip(*seen.told, strict=True)
    assert {*totals} == {round(path.stat().st_size / 1e6)} and {*units} == {"MB"}
    assert len(done) >= 3 and list(done) == sorted({*done}) and done[-1] <= totals[0]
