"""BEIR folders, good and bad: every fault is one line that says what, where and what to do."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.beir import Beir
from noisyir.data.recognise import recognise
from noisyir.data.stages.ingest import INGEST
from tests.refusals import refuses

HEADER = "query-id\tcorpus-id\tscore\n"
GOOD = {
    "corpus.jsonl": [
        {"_id": "d1", "title": "Cats", "text": "A cat sat."},
        {"_id": "d2", "title": "", "text": "A dog ran.", "metadata": {"source": "x"}},
        {"_id": "d3", "text": "Größe zählt nicht."},
    ],
    "queries.jsonl": [
        {"_id": "q1", "text": "who sat?"},
        {"_id": "q2", "text": "who ran?"},
        {"_id": "q3", "text": "nobody judged me"},
        {"_id": "q4", "text": "what counts?"},
    ],
    "qrels/train.tsv": "q1\td1\t1\nq1\td2\t0\n",
    "qrels/dev.tsv": "q2\td2\t1\n",
    "qrels/test.tsv": "q4\td3\t2\n",
}


def write(folder: Path, **changes: object) -> Path:
    """The good folder with some files replaced (`corpus_jsonl=...`), a text as it is; None leaves a file out."""
    for name, content in GOOD.items():
        content = changes.get(name.replace("/", "_").replace(".", "_"), content)
        if content is None:
            continue
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif isinstance(content, list):
            path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in content), encoding="utf-8")
        else:
            path.write_text(HEADER + content)
    return folder


@pytest.fixture
def ingest(run_stage_on):
    def run(folder, **settings):
        params = Beir(path=str(folder), **settings)
        return run_stage_on(INGEST, params, {})

    return run


def test_a_good_folder_becomes_tables(ingest, tmp_path):
    tables = ingest(write(tmp_path / "raw"))
    assert tables["corpus"].to_pylist() == [
        {"doc_id": "d1", "doc_row": 0, "title": "Cats", "text": "A cat sat."},
        {"doc_id": "d2", "doc_row": 1, "title": "", "text": "A dog ran."},
        {"doc_id": "d3", "doc_row": 2, "title": "", "text": "Größe zählt nicht."},
    ]
    assert tables["queries"]["split"].to_pylist() == ["train", "dev", "test"]
    assert tables["pairs"].to_pylist() == [
        {"query_id": "q1", "doc_id": "d1", "split": "train", "source": None},
        {"query_id": "q2", "doc_id": "d2", "split": "dev", "source": "x"},
    ]
    assert tables["qrels"]["relevance"].to_pylist() == [1, 0, 1, 2]
    assert tables["answers"].num_rows == 0
    assert tables["excluded"].to_pylist() == [
        {"reason": "no judgement of a kept document", "kind": "query", "id": "q3"}
    ]


def test_qrels_may_be_lines_of_json_and_dev_may_be_called_validation(ingest, tmp_path):
    plain, other = write(tmp_path / "plain"), write(tmp_path / "other")
    for split, called in {"train": "train", "dev": "validation", "test": "test"}.items():
        lines = (other / f"qrels/{split}.tsv").read_text().splitlines()[1:]
        judged = [dict(zip(("query-id", "corpus-id", "score"), line.split("\t"), strict=True)) for line in lines]
        rows = [row | {"score": float(row["score"])} for row in judged]
        (other / f"qrels/{called}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (other / f"qrels/{split}.tsv").unlink()
    assert ingest(other) == ingest(plain)


@pytest.mark.parametrize(("qrels", "named"), [("qrels", True), ("default", False)])
def test_tables_in_folders_are_read_as_the_hub_has_them(ingest, tmp_path, qrels, named):
    plain, other = write(tmp_path / "plain"), tmp_path / "other"
    rows = {f"{name}/{'test' if named else name}": GOOD[f"{name}.jsonl"] for name in ("corpus", "queries")}
    for split in ("train", "dev", "test"):
        lines = [line.split("\t") for line in (plain / f"qrels/{split}.tsv").read_text().splitlines()[1:]]
        rows[f"{qrels}/{split}"] = [{"query-id": q, "corpus-id": d, "score": float(score)} for q, d, score in lines]
    for name, listed in rows.items():
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        columns = dict.fromkeys(column for row in listed for column in row)
        renamed = {"_id": "id"} if named else {}
        table = pa.table({renamed.get(column, column): [row.get(column) for row in listed] for column in columns})
        pq.write_table(table, other / f"{name}-00000-of-00001.parquet")
    assert recognise(str(other)) == {"kind": "beir", "path": str(other)} and ingest(other) == ingest(plain)


def test_packed_documents_and_queries_are_read(ingest, tmp_path):
    plain, packed = write(tmp_path / "plain"), write(tmp_path / "packed")
    for name in ("corpus.jsonl", "queries.jsonl"):
        (packed / f"{name}.gz").write_bytes(gzip.compress((packed / name).read_bytes()))
        (packed / name).unlink()
    assert ingest(packed) == ingest(plain)


@pytest.mark.parametrize("metadata", [None, "web", {}, {"source": None}, {"source": 3}, {"source": " "}])
def test_a_source_that_is_no_text_is_null(ingest, tmp_path, metadata):
    corpus = [CORPUS[0] | {"metadata": metadata}, *CORPUS[1:]]
    assert ingest(write(tmp_path / "raw", corpus_jsonl=corpus))["pairs"]["source"].to_pylist() == [None, "x"]


def test_windows_line_ends_blank_lines_and_a_byte_order_mark_are_read(ingest, tmp_path):
    corpus = "".join(json.dumps(row) + "\r\n\r\n" for row in GOOD["corpus.jsonl"]).encode("utf-8-sig")
    qrels = (HEADER + GOOD["qrels/train.tsv"]).replace("\n", "\r\n").encode()
    plain = ingest(write(tmp_path / "plain"))
    odd = ingest(write(tmp_path / "odd", corpus_jsonl=corpus, qrels_train_tsv=qrels))
    assert odd["corpus"] == plain["corpus"] and odd["qrels"] == plain["qrels"]


CORPUS, QUERIES = GOOD["corpus.jsonl"], GOOD["queries.jsonl"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"corpus_jsonl": None}, r"lacks corpus.jsonl"),
        ({"queries_jsonl": None}, r"lacks queries.jsonl"),
        ({"corpus_jsonl": b'{"_id": "d1", "text": "x"}\n{"_id": \n'}, r"corpus.jsonl line 2: invalid JSON.*column 9"),
        ({"corpus_jsonl": b"[1]\n"}, r"corpus.jsonl line 1: expected a JSON object, found list"),
        ({"corpus_jsonl": [{"_id": "d1", "body": "x"}]}, r"corpus.jsonl line 1: lacks 'text'; it has _id, body"),
        ({"corpus_jsonl": [{"_id": 1.5, "text": "x"}]}, r"corpus.jsonl line 1: '_id' must be an id, found 1.5"),
        ({"corpus_jsonl": [{"_id": " ", "text": "x"}]}, r"corpus.jsonl line 1: the document's id is empty"),
        ({"corpus_jsonl": [*CORPUS, CORPUS[1]]}, r"corpus.jsonl line 4: document id 'd2' occurs again, first at 2"),
        ({"queries_jsonl": [*QUERIES, QUERIES[0]]}, r"queries.jsonl line 5: query id 'q1' occurs again, .* line 1"),
        ({"corpus_jsonl": b""}, r"the corpus is empty"),
        ({"corpus_jsonl": b'{"_id": "d1", "text": "caf\xe9"}\n'}, r"line 1: not UTF-8 .byte 26 of the file"),
        ({"corpus_jsonl": b'{"_id": "d1", "text": "\\ud800"}\n'}, r"corpus.jsonl line 1: .*without its other half"),
        ({"corpus_jsonl": [*CORPUS, {"_id": "d9", "text": ""}]}, r"4: document 'd9' has no text.*on_empty"),
        ({"queries_jsonl": [*QUERIES, {"_id": "q9", "text": "\n"}]}, r"line 5: query 'q9' has no text.*on_empty"),
        ({"qrels_test_tsv": "q4\td3\t1\nq4\tnowhere\t1\n"}, r"test.tsv line 3: unknown document 'nowhere'"),
        (
            {"qrels_test_tsv": "q4\tno\t1\nq4\tnor\t1\n"},
            r"line 2: unknown document 'no'; 2 of the documents .* are not",
        ),
        ({"qrels_test_tsv": "nobody\td3\t1\n"}, r"test.tsv line 2: unknown query 'nobody'"),
        ({"qrels_test_tsv": "q4\td3\n"}, r"test.tsv line 2: expected 3 tab-separated columns, found 2"),
        ({"qrels_test_tsv": "q4\td3\t0.5\n"}, r"test.tsv line 2: the relevance must be an integer, found '0.5'"),
        ({"qrels_test_tsv": "q4\td3\t1\nq4\td3\t2\n"}, r"test.tsv line 3: query 'q4' and .* are judged again"),
        ({"qrels_test_tsv": "q1\td3\t1\n"}, r"line 2: query 'q1' is in split test, and in train by .*line 2"),
        ({"qrels_test_tsv": b"q4 0 d3 1\n"}, r"test.tsv line 1: the header must be query-id<TAB>corpus-id<TAB>score"),
        ({"qrels_train_tsv": "", "qrels_dev_tsv": "", "qrels_test_tsv": ""}, r"no judgement joins"),
        ({"qrels_train_tsv": None, "qrels_dev_tsv": None, "qrels_test_tsv": None}, r"lacks qrels"),
    ],
)
def test_a_fault_is_one_line_with_its_place(ingest, tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(write(tmp_path / "raw", **changes))
    assert "\n" not in str(caught.value)


def test_the_digest_follows_the_content_and_not_the_place(tmp_path):
    def digest(folder: Path) -> str:
        return Beir(path=str(folder)).digest()

    first = digest(write(tmp_path / "a"))
    assert digest(write(tmp_path / "b")) == first
    assert digest(write(tmp_path / "c", qrels_test_tsv="q4\td3\t1\n")) != first


def test_texts_left_out_take_their_judgements_along_and_are_counted(ingest, tmp_path, store):
    corpus = [*CORPUS[:2], {"_id": "d3", "title": "", "text": "  "}, {"_id": "d4", "text": "x" * 1_000_001}]
    tables = ingest(write(tmp_path / "raw", corpus_jsonl=corpus), on_empty="exclude")
    assert tables["corpus"]["doc_row"].to_pylist() == [0, 1]
    assert tables["excluded"].to_pylist() == [
        {"reason": "no text", "kind": "document", "id": "d3"},
        {"reason": "longer than 1,000,000 characters", "kind": "document", "id": "d4"},
        {"reason": "its document is left out", "kind": "judgement", "id": "q4 d3"},
        {"reason": "no judgement of a kept document", "kind": "query", "id": "q3"},
        {"reason": "no judgement of a kept document", "kind": "query", "id": "q4"},
    ]
    [meta] = store.builds.all()
    assert meta.notes["excluded"]["query: no judgement of a kept document"] == 2


def test_a_document_with_a_title_alone_is_kept(ingest, tmp_path):
    corpus = [*CORPUS, {"_id": "d4", "title": "only a title", "text": ""}]
    assert ingest(write(tmp_path / "raw", corpus_jsonl=corpus))["corpus"].num_rows == 4


def test_max_documents_keeps_the_first_and_drops_queries_without_any(ingest, tmp_path):
    tables = ingest(write(tmp_path / "raw"), max_documents=2)
    assert tables["corpus"]["doc_id"].to_pylist() == ["d1", "d2"]
    assert tables["queries"]["query_id"].to_pylist() == ["q1", "q2"]
    assert set(tables["qrels"]["doc_id"].to_pylist()) <= {"d1", "d2"}


def test_a_share_of_the_documents_is_drawn_by_their_ids(ingest, tmp_path):
    corpus = [{"_id": f"d{number}", "text": "some text"} for number in range(1, 401)]
    folder = write(
        tmp_path / "raw", corpus_jsonl=corpus, qrels_train_tsv="".join(f"q1\td{n}\t1\n" for n in range(1, 401))
    )
    half = ingest(folder, document_share=0.5)["corpus"]["doc_id"].to_pylist()
    assert 160 < len(half) < 240 and set(ingest(folder, document_share=0.2)["corpus"]["doc_id"].to_pylist()) < set(half)
    turned = write(
        tmp_path / "turned",
        corpus_jsonl=corpus[::-1],
        qrels_train_tsv=f"q1\t{half[0]}\t1\n",
        qrels_dev_tsv=None,
        qrels_test_tsv=None,
    )
    assert sorted(ingest(turned, document_share=0.5)["corpus"]["doc_id"].to_pylist()) == sorted(half)


def test_max_held_out_keeps_so_many_queries_of_each_held_out_split_and_all_of_train(ingest, tmp_path):
    folder = write(tmp_path / "raw", qrels_dev_tsv="q2\td2\t1\nq3\td3\t1\n")
    kept = [ingest(folder, max_held_out=limit) for limit in (2, 1)]
    assert [sorted(tables["queries"]["split"].to_pylist()) for tables in kept] == [
        ["dev", "dev", "test", "train"],
        ["dev", "test", "train"],
    ]
    assert set(kept[1]["qrels"]["query_id"].to_pylist()) <= set(kept[1]["queries"]["query_id"].to_pylist())
    assert "beyond max_held_out" in kept[1]["excluded"]["reason"].to_pylist()


def test_a_share_of_the_dev_queries_becomes_the_promotion_gates_and_teaches_nothing(ingest, tmp_path):
    folder = write(tmp_path / "raw", qrels_dev_tsv="q2\td2\t1\nq3\td3\t1\n")
    plain, shared, whole = (ingest(folder, promotion_share=share) for share in (0.0, 0.5, 1.0))
    before, split = (
        dict(zip(tables["queries"]["query_id"].to_pylist(), tables["queries"]["split"].to_pylist(), strict=True))
        for tables in (plain, whole)
    )
    assert {query for query in before if before[query] != split[query]} == {"q2", "q3"}
    assert split["q2"] == split["q3"] == "promotion" and whole["qrels"].equals(plain["qrels"])
    assert {*whole["pairs"]["split"].to_pylist()} == {"train"}
    assert shared["queries"]["split"].to_pylist().count("promotion") <= 2


def test_data_without_training_pairs_is_noted(ingest, tmp_path, store):
    ingest(write(tmp_path / "raw", qrels_train_tsv=None))
    [meta] = store.builds.all()
    assert "no training pairs" in meta.notes["training"]


REAL = Path(__file__).parents[3].parent / "shared" / "data" / "beir"


@pytest.mark.skipif(not REAL.is_dir(), reason="the BEIR collections of ../shared/data are not here")
@pytest.mark.parametrize(
    ("name", "documents", "queries", "judgements", "on_empty"),
    [("nfcorpus", 3633, 3237, 134294, "error"), ("cran", 1398, 225, 1836, "exclude"), ("med", 1033, 30, 696, "error")],
)
def test_published_collections_have_their_published_sizes(ingest, name, documents, queries, judgements, on_empty):
    tables = ingest(REAL / name, on_empty=on_empty)
    assert [tables[table].num_rows for table in ("corpus", "queries", "qrels")] == [documents, queries, judgements]


def test_a_question_may_list_its_answers(ingest, tmp_path):
    queries = [
        {**row, "answers": ["a cat", "a cat", " "]} if row["_id"] == "q1" else row for row in GOOD["queries.jsonl"]
    ]
    assert ingest(write(tmp_path / "raw", queries_jsonl=queries))["answers"].to_pylist() == [
        {"query_id": "q1", "aliases": ["a cat"]}
    ]
    for wrong in ("a cat", [1]):
        with refuses(DataError, "data.wrong_value", name="answers"):
            ingest(write(tmp_path / f"raw{wrong}", queries_jsonl=[{**queries[0], "answers": wrong}, *queries[1:]]))
