"""DPR's release, flat or as its download script lays it out: what is read, and every fault with its place."""

import gzip
import json
from pathlib import Path

import pytest

from noisyir.base.errors import DataError
from noisyir.data.formats.dpr import DprData
from noisyir.data.records import Query
from noisyir.data.stages.ingest import INGEST
from tests.refusals import refuses

PASSAGES = (
    "id\ttext\ttitle\n"
    '1\t"Aaron ( ; ""Ahärôn"") is a prophet"\tAaron\n'
    '2\tA 5" pipe\t"""Weird Al"" Yankovic"\n'
    "3\tThe moon was reached in 1969.\tMoon\n"
)


def contexts(*ids: object, key: str = "passage_id") -> list[dict[str, object]]:
    return [{"title": "t", "text": "a long text", "score": 1000, "title_score": 1, key: found} for found in ids]


def question(text: str, answers: list[str], *ids: object, **more: object) -> dict[str, object]:
    item = {"dataset": "nq", "question": text, "answers": answers, "positive_ctxs": contexts(*ids)}
    return {**item, "negative_ctxs": contexts("2"), "hard_negative_ctxs": contexts("3"), **more}


TRAIN = [
    question("who\N{RIGHT SINGLE QUOTATION MARK}s aaron", ["a prophet"], "1", "2"),
    question("nobody knows", ["x"]),
    question("what lies elsewhere", ["x"], "999", "2"),
    question("which pipe", ["5"], 2, positive_ctxs=contexts(2, key="psg_id")),
]
DEV = [question("when was the moon reached", ["1969"], "3"), question("who else", ["Aaron"], "1")]
GOOD = {
    "psgs_w100.tsv": PASSAGES,
    "biencoder-nq-train.json": json.dumps(TRAIN, indent=4),
    "biencoder-nq-dev.json": json.dumps(DEV),
    "nq-dev.qa.csv": "when was the moon reached\t['1969', \"in '69\"]\nwho was it\t[\"Dr. Pepper's\"]\n",
    "nq-test.qa.csv": "is it 5\t['5', '5', ' ']\n\"what is \"\"it\"\"\"\t['a pipe']\nnone\t[]\n",
}


def write(folder: Path, changes: dict[str, str | bytes | None] | None = None) -> Path:
    """The good folder with some files replaced or added; None leaves a file out."""
    for name, content in {**GOOD, **(changes or {})}.items():
        if content is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


@pytest.fixture
def ingest(run_stage_on):
    def run(folder, **settings):
        params = DprData(**{"path": str(folder), "on_unknown": "exclude", **settings})
        return run_stage_on(INGEST, params, {})

    return run


def rows(table, *columns):
    return [tuple(row[name] for name in columns) for row in table.to_pylist()]


def test_a_good_folder_becomes_tables(ingest, tmp_path):
    tables = ingest(write(tmp_path))
    assert rows(tables["corpus"], "doc_id", "title", "text") == [
        ("1", "Aaron", 'Aaron ( ; "Ahärôn") is a prophet'),
        ("2", '"Weird Al" Yankovic', 'A 5" pipe'),
        ("3", "Moon", "The moon was reached in 1969."),
    ]
    assert rows(tables["queries"], "query_id", "split", "text") == [
        ("dev-1", "dev", "when was the moon reached"),
        ("dev-2", "dev", "who was it"),
        ("test-1", "test", "is it 5"),
        ("test-2", "test", 'what is "it"'),
        ("train-1", "train", "who's aaron"),
        ("train-4", "train", "which pipe"),
        ("dev-contexts-2", "dev", "who else"),
    ]
    assert rows(tables["pairs"], "query_id", "doc_id", "split") == [
        ("train-1", "1", "train"), ("train-4", "2", "train"), ("dev-1", "3", "dev"), ("dev-contexts-2", "1", "dev"),
    ]  # fmt: skip
    assert rows(tables["qrels"], "query_id", "doc_id") == [("dev-1", "3"), ("dev-contexts-2", "1")]
    answers = dict(rows(tables["answers"], "query_id", "aliases"))
    assert (
        answers["dev-1"] == ["1969", "in '69"] and answers["dev-2"] == ["Dr. Pepper's"] and answers["test-1"] == ["5"]
    )
    assert sorted(rows(tables["excluded"], "kind", "id", "reason")) == [
        ("judgement", "train-3 999", "its document is not in the corpus"),
        ("query", "test-3", "no judgement of a kept document"),
        ("query", "train-2", "no judgement of a kept document"),
        ("query", "train-3", "no judgement of a kept document"),
    ]


def test_all_positives_make_pairs_where_that_is_set(ingest, tmp_path):
    tables = ingest(write(tmp_path), positives="all")
    train = [row[:2] for row in rows(tables["pairs"], "query_id", "doc_id", "split") if row[2] == "train"]
    assert train == [("train-1", "1"), ("train-1", "2"), ("train-3", "2"), ("train-4", "2")]


@pytest.mark.parametrize("root", ["", "downloads/data/"])
def test_gzipped_files_and_the_folders_of_dprs_download_script_give_the_same_tables(ingest, tmp_path, root):
    names = {
        "psgs_w100.tsv": f"{root}wikipedia_split/psgs_w100.tsv.gz",
        "biencoder-nq-train.json": f"{root}retriever/nq-train.json.gz",
        "biencoder-nq-dev.json": f"{root}retriever/nq-dev.json",
        "nq-dev.qa.csv": f"{root}retriever/qas/nq-dev.csv",
        "nq-test.qa.csv": f"{root}retriever/qas/nq-test.csv.gz",
    }
    laid_out = {new: gzip.compress(GOOD[old].encode()) if ".gz" in new else GOOD[old] for old, new in names.items()}
    other = ingest(write(tmp_path / "b", {**dict.fromkeys(GOOD), **laid_out}))
    plain = ingest(write(tmp_path / "a"))
    assert all(plain[name] == other[name] for name in plain)


def test_answers_alone_can_be_searched_and_scored(ingest, tmp_path, store):
    only = {name: None for name in GOOD if not name.startswith(("psgs", "nq-test"))}
    tables = ingest(write(tmp_path, only))
    assert tables["queries"]["query_id"].to_pylist() == ["test-1", "test-2"] and tables["qrels"].num_rows == 0
    [meta] = store.builds.all()
    assert "scoring" not in meta.notes and meta.notes["training"].startswith("no training pairs")
    assert meta.notes["source"]["files"] == ["psgs_w100.tsv", "nq-test.qa.csv"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"psgs_w100.tsv": None}, r"lacks psgs_w100.tsv, or .gz of it"),
        ({"psgs_w100.tsv.gz": b""}, r"has psgs_w100.tsv and psgs_w100.tsv.gz: keep the one"),
        ({"psgs_w100.tsv": "1\tx\ty\n"}, r"psgs_w100.tsv line 1: the header must be id<TAB>text<TAB>title"),
        ({"psgs_w100.tsv": PASSAGES + "4\tx\n"}, r"psgs_w100.tsv line 5: expected id<TAB>text<TAB>title, found 2"),
        ({"psgs_w100.tsv": PASSAGES + '4\t"x\ty\n5\tx\ty\n'}, r"psgs_w100.tsv line 5: expected .* found 2"),
        ({"nq-test.qa.csv": "who\n"}, r"nq-test.qa.csv line 1: expected question<TAB>\['an answer', .* found 1"),
        ({"nq-test.qa.csv": "who\t['a']\nwho\t__import__('os')\n"}, r"line 2: the answers must be a list such as"),
        ({"nq-test.qa.csv": "who\t{'a': 1}\n"}, r"nq-test.qa.csv line 1: the answers must be a list such as"),
        ({"nq-test.qa.csv": "who\t['a', 1]\n"}, r"nq-test.qa.csv line 1: the answers must be a list such as"),
        ({"biencoder-nq-train.json": json.dumps(TRAIN)[:-300]}, r"train.json item 4: the file ends within it"),
        ({"biencoder-nq-train.json": '{"data": []}'}, r"train.json: expected a JSON array, which starts with \["),
        ({"biencoder-nq-train.json": '[{"answers": []}]'}, r"train.json item 1: lacks 'question'"),
        ({"biencoder-nq-train.json": '[{"question": "q", "answers": "a"}]'}, r"item 1: 'answers' must be a list"),
        ({"biencoder-nq-train.json": '[{"question": "q", "answers": []}]'}, r"item 1: lacks 'positive_ctxs'"),
        ({"biencoder-nq-train.json": json.dumps([question("q", [], None)])}, r"a context needs passage_id or psg_id"),
        (
            {name: None for name in GOOD if name != "psgs_w100.tsv"},
            r"lacks questions: put biencoder-nq-train.json, nq-dev.qa.csv or nq-test.qa.csv in it",
        ),
    ],
)
def test_a_fault_is_one_line_with_its_place(ingest, tmp_path, changes, message):
    with pytest.raises(DataError, match=message) as caught:
        ingest(write(tmp_path, changes))
    assert "\n" not in str(caught.value)


def test_contexts_outside_the_collection_are_refused_unless_they_may_be_left_out(ingest, tmp_path):
    with refuses(DataError, "data.unknown_documents", doc_id="999", n_unknown=1):
        ingest(write(tmp_path), on_unknown="error")


def test_another_subset_is_other_files(tmp_path):
    with refuses(DataError, "data.dpr_questions_missing", subset="trivia"):
        DprData(path=str(write(tmp_path)), subset="trivia").digest()
    with refuses(DataError, "data.format_folder_missing", holds="psgs_w100.tsv"):
        DprData().digest()


TOPICS = Path(__file__).parents[3].parent / "shared" / "data" / "open_qa" / "dpr_topics"


@pytest.mark.skipif(not TOPICS.is_dir(), reason=f"needs DPR's questions in {TOPICS}")
@pytest.mark.parametrize(("split", "count"), [("dev", 8757), ("test", 3610)])
def test_the_published_questions_are_all_read(tmp_path, split, count):
    text = (TOPICS / f"topics.dpr.nq.{split}.txt").read_text()
    folder = write(tmp_path, {**dict.fromkeys(GOOD), "psgs_w100.tsv": PASSAGES, f"nq-{split}.qa.csv": text})
    found = [one for one in DprData(path=str(folder)).open().records() if isinstance(one, Query)]
    assert len(found) == count and all(query.answers for query in found)
