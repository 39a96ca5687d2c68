"""MS MARCO's files: read as they are published, with every grade, and every fault told with its place."""

import gzip
from pathlib import Path

import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.msmarco import Msmarco
from noisyir.data.formats.pairs import Pairs
from noisyir.data.stages.ingest import INGEST
from tests.refusals import refuses

GOOD = {
    "collection.tsv": "0\tA cat sat.\n1\tA dog ran.\n2\tGröße zählt nicht.\n3\tA cat slept.\n",
    "queries.train.tsv": "10\twho sat?\n11\tnobody judged me\n",
    "queries.dev.tsv": "20\twho ran?\n",
    "queries.test.tsv": "30\twhat counts?\n",
    "qrels.train.tsv": "10\t0\t0\t3\n10\t0\t3\t1\n10\t0\t1\t0\n",
    "qrels.dev.tsv": "20\t0\t1\t1\n",
    "qrels.test.txt": "30 Q0 2 2\n30 Q0 0 0\n",
}


def write(folder: Path, changes: dict[str, str | bytes | None] | None = None) -> Path:
    """The good folder with some files replaced or added; None leaves a file out."""
    folder.mkdir()
    for name, content in {**GOOD, **(changes or {})}.items():
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def ingest(run_stage_on):
    def run(folder, **settings):
        params = Msmarco(path=str(folder), **settings)
        return run_stage_on(INGEST, params, {})

    return run


def pairs_of(tables):
    return [(row["query_id"], row["doc_id"], row["split"]) for row in tables["pairs"].to_pylist()]


def test_training_queries_that_nobody_judged_are_kept_where_that_is_set(ingest, tmp_path):
    more = {
        "queries.dev.tsv": GOOD["queries.dev.tsv"] + "21\tnobody judged me either\n",
        "queries.train.tsv": GOOD["queries.train.tsv"] + "12\tonly by a passage that is left out\n",
        "qrels.train.tsv": GOOD["qrels.train.tsv"] + "12\t0\t3\t1\n",
    }
    tables = ingest(write(tmp_path / "raw", more), unlabelled="train", max_documents=3)
    assert [tuple(row.values())[::2] for row in tables["queries"].to_pylist()] == [
        ("10", "train"), ("11", "train"), ("20", "dev"), ("30", "test"),
    ]  # fmt: skip
    assert pairs_of(tables) == [("10", "0", "train"), ("20", "1", "dev")]
    excluded = {row["id"] for row in tables["excluded"].to_pylist() if row["kind"] == "query"}
    assert excluded == {"12", "21"}  # 12 is labelled, 21 is no training query


def test_a_good_folder_becomes_tables(ingest, tmp_path):
    tables = ingest(write(tmp_path / "raw"))
    assert tables["corpus"].to_pylist()[2] == {"doc_id": "2", "doc_row": 2, "title": "", "text": "Größe zählt nicht."}
    assert tables["corpus"].num_rows == 4
    assert list(zip(*tables["queries"].select(["query_id", "split"]).to_pydict().values(), strict=True)) == [
        ("10", "train"),
        ("20", "dev"),
        ("30", "test"),
    ]
    assert pairs_of(tables) == [("10", "0", "train"), ("10", "3", "train"), ("20", "1", "dev")]
    assert [tuple(row.values()) for row in tables["qrels"].to_pylist()] == [
        ("10", "0", 3), ("10", "3", 1), ("10", "1", 0), ("20", "1", 1), ("30", "2", 2), ("30", "0", 0),
    ]  # fmt: skip
    assert tables["excluded"].to_pylist() == [
        {"reason": "no judgement of a kept document", "kind": "query", "id": "11"}
    ]


@pytest.mark.parametrize(("least", "documents"), [(1, ["0", "3", "1"]), (2, ["0", "1"]), (3, ["0", "1"]), (4, ["1"])])
def test_min_relevance_takes_training_pairs_away_and_leaves_judgements_and_dev(ingest, tmp_path, least, documents):
    tables = ingest(write(tmp_path / "raw"), min_relevance=least)
    assert tables["pairs"]["doc_id"].to_pylist() == documents
    assert tables["qrels"]["relevance"].to_pylist() == [3, 1, 0, 1, 2, 0]
    assert tables["queries"]["query_id"].to_pylist() == ["10", "20", "30"]


def test_min_relevance_leaves_pairs_that_nobody_judged(run_stage_on, tmp_path):
    (tmp_path / "pairs.csv").write_text("query,document\nwho sat?,A cat sat.\n")
    params = Pairs(path=str(tmp_path / "pairs.csv"), min_relevance=2)
    assert run_stage_on(INGEST, params, {})["pairs"].num_rows == 1


def test_windows_line_ends_blank_lines_and_a_byte_order_mark_are_read(ingest, tmp_path):
    odd = {name: text.replace("\n", "\r\n\r\n").encode("utf-8-sig") for name, text in GOOD.items()}
    plain, other = ingest(write(tmp_path / "plain")), ingest(write(tmp_path / "odd", odd))
    assert all(plain[name] == other[name] for name in plain)


def test_splits_without_qrels_are_not_read_and_the_notes_say_so(ingest, tmp_path, store):
    tables = ingest(write(tmp_path / "raw", {"qrels.dev.tsv": None, "queries.eval.tsv": "99\tnot read\n"}))
    assert tables["queries"]["split"].to_pylist() == ["train", "test"]
    [meta] = store.builds.all()
    not_read = ["queries.dev.tsv", "queries.eval.tsv"]
    assert meta.notes["source"] == {"name": "raw", "splits": ["train", "test"], "not_read": not_read}


def test_the_small_dev_set_is_the_dev_split_beside_the_large_ones_queries(ingest, tmp_path):
    """As in the published collectionandqueries.tar.gz: queries.dev.tsv has no qrels there."""
    small = {"queries.dev.small.tsv": GOOD["queries.dev.tsv"], "qrels.dev.small.tsv": GOOD["qrels.dev.tsv"]}
    large = {"queries.dev.tsv": GOOD["queries.dev.tsv"] + "21\tnot read\n", "qrels.dev.tsv": None}
    assert ingest(write(tmp_path / "raw", {**small, **large})) == ingest(write(tmp_path / "plain"))


def test_documents_have_urls_titles_and_bodies(ingest, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    docs = "D1\thttps://a\tOn cats\tA cat sat.\nD2\thttps://b\t\tA dog ran.\nD3\thttps://c\t\t\n"
    (raw / "msmarco-docs.tsv.gz").write_bytes(gzip.compress(docs.encode()))
    (raw / "msmarco-doctrain-queries.tsv.gz").write_bytes(gzip.compress(b"10\twho sat?\n"))
    (raw / "msmarco-doctrain-qrels.tsv.gz").write_bytes(gzip.compress(b"10 0 D1 1\n"))
    (raw / "msmarco-docdev-queries.tsv").write_text("20\twho ran?\n")
    (raw / "msmarco-docdev-qrels.tsv").write_text("20 0 D2 1\n")
    tables = ingest(raw, on_empty="exclude")
    assert tables["corpus"].select(["doc_id", "title", "text"]).to_pylist() == [
        {"doc_id": "D1", "title": "On cats", "text": "A cat sat."},
        {"doc_id": "D2", "title": "", "text": "A dog ran."},
    ]
    assert pairs_of(tables) == [("10", "D1", "train"), ("20", "D2", "dev")]
    assert tables["excluded"].to_pylist() == [{"reason": "no text", "kind": "document", "id": "D3"}]


def test_rocketqas_release_has_titles_and_further_positives_that_nobody_judged(ingest, tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    files = {
        "para.txt": GOOD["collection.tsv"], "para.title.txt": "1\tOn dogs\n0\t-\n",
        "train.query.txt": "10\twho sat?\n", "dev.query.txt": "20\twho ran?\n",
        "qrels.train.tsv": "10\t0\n", "qrels.train.addition.tsv": "10\t3\n10\t0\n", "qrels.dev.tsv": "20\t1\n",
    }  # fmt: skip
    for name, text in files.items():
        (raw / name).write_text(text)
    tables = ingest(raw)
    assert tables["corpus"]["title"].to_pylist() == ["", "On dogs", "", ""]
    assert pairs_of(tables) == [("10", "0", "train"), ("20", "1", "dev"), ("10", "3", "train")]
    assert [tuple(row.values()) for row in tables["qrels"].to_pylist()] == [("10", "0", 1), ("20", "1", 1)]
    (raw / "qrels.dev.tsv").write_text("20 0 1 1\n")
    with pytest.raises(DataError, match=r"qrels.dev.tsv line 1: expected qid pid, found 4 columns"):
        ingest(raw)
    (raw / "collection.tsv").write_text("")
    with refuses(DataError, "data.msmarco_files"):
        ingest(raw)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"collection.tsv": None}, r"lacks collection.tsv"),
        ({"queries.dev.tsv": None}, r"lacks queries.dev.tsv: each split with qrels"),
        ({"qrels.train.tsv": None, "qrels.dev.tsv": None, "qrels.test.txt": None}, r"lacks qrels: put qrels.train.tsv"),
        ({"qrels.test.tsv": ""}, r"qrels.test.tsv and qrels.test.txt: keep the one"),
        ({"collection.tsv": "0\tx\n1 y\n"}, r"collection.tsv line 2: expected id<TAB>text, found 1 columns"),
        ({"collection.tsv": "0\ttitle\ttext\n"}, r"collection.tsv line 1: expected id<TAB>text, found 3 columns"),
        ({"collection.tsv": b"0\tcaf\xe9\n"}, r"collection.tsv line 1: not UTF-8 .byte 5 of the file"),
        ({"collection.tsv": "0\tx\n0\ty\n"}, r"collection.tsv line 2: document id '0' occurs again, first at 1"),
        ({"collection.tsv": ""}, r"the corpus is empty"),
        ({"collection.tsv": "0\tx\n1\t \n"}, r"collection.tsv line 2: document '1' has no text.*on_empty"),
        ({"queries.dev.tsv": "10\twho ran?\n"}, r"queries.dev.tsv line 1: query id '10' occurs again"),
        ({"qrels.dev.tsv": "20\t1\n"}, r"qrels.dev.tsv line 1: expected qid 0 pid grade, found 2 columns"),
        ({"qrels.dev.tsv": "20 0 1 0.5\n"}, r"qrels.dev.tsv line 1: the relevance must be an integer, found '0.5'"),
        ({"qrels.dev.tsv": "20 0 9 1\n"}, r"qrels.dev.tsv line 1: unknown document '9'"),
        ({"qrels.dev.tsv": "9 0 1 1\n"}, r"qrels.dev.tsv line 1: unknown query '9'"),
        ({"qrels.dev.tsv": "20 0 1 1\n20 0 1 1\n"}, r"qrels.dev.tsv line 2: .* are judged again, first at 1"),
    ],
)
def test_a_fault_is_one_line_with_its_place(ingest, tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(write(tmp_path / "raw", changes))
    assert "\n" not in str(caught.value)


def test_the_digest_follows_the_content_that_is_read(tmp_path):
    def digest(name: str, changes=None) -> str:
        return Msmarco(path=str(write(tmp_path / name, changes))).digest()

    first = digest("a")
    assert digest("b", {"queries.eval.tsv": "99\tnot read\n"}) == first
    assert digest("c", {"queries.dev.tsv": "20\twho ran away?\n"}) != first


TREC_DL = Path(__file__).parents[3].parent / "shared" / "data" / "trec_dl"


@pytest.mark.skipif(not TREC_DL.is_dir(), reason=f"needs the TREC DL pools in {TREC_DL}")
def test_trec_dl_2019_has_its_published_grades(ingest, tmp_path):
    """Of its 9,260 judgements 4,337 are of passages whose text is here; 1,789 of these are of grade 2 or 3."""
    passages = (TREC_DL / "dl19_passages.tsv").read_text()
    there = {line.split("\t", 1)[0] for line in passages.splitlines()}
    judged = (TREC_DL / "qrels.dl19-passage.txt").read_text().splitlines()
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "collection.tsv").write_text(passages)
    (raw / "queries.train.tsv").write_text((TREC_DL / "dl19_queries.tsv").read_text())
    (raw / "qrels.train.txt").write_text("".join(f"{line}\n" for line in judged if line.split()[2] in there))
    tables = ingest(raw, min_relevance=2)
    counts = {name: tables[name].num_rows for name in ("corpus", "queries", "qrels", "pairs")}
    assert counts == {"corpus": 14581, "queries": 43, "qrels": 4337, "pairs": 1789}
