"""Files of pairs whose wrong pairs' right documents are absent or present: how they are made, and that they audit."""

import importlib.util
import json
import random
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
REAL = ROOT.parent / "shared" / "data" / "squad" / "train-v1.1.json"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("faq_files", ROOT / "bench" / "faq_files.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["faq_files"] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules["faq_files"]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """300 paragraphs of own and of common words, with five questions each; an answer is in its paragraph alone."""
    draw, words = random.Random(0), [f"word{n}" for n in range(200)]
    paragraphs = []
    for n in range(300):
        own = [f"own{n}x{k}" for k in range(5)]
        text = draw.sample(words, 12) + own + [f"answer{n}"]
        asked = [
            {"question": f"{own[k]} {text[k]} {text[k + 5]}?", "answers": [{"text": f"Answer{n}", "answer_start": 0}]}
            for k in range(5)
        ]
        paragraphs.append({"context": " ".join(draw.sample(text, len(text))), "qas": asked})
    path = tmp_path_factory.mktemp("squad") / "train-v1.1.json"
    path.write_text(json.dumps({"data": [{"title": "a", "paragraphs": paragraphs}]}))
    return path


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(file, pairs):
    """24 % are wrong, each document stands as often as the name says, and right ones are there or not, as it says."""
    rows, truth = read(file.path), read(file.truth)
    assert len(rows) == len(truth) == pairs
    assert len({row["query_id"] for row in rows}) == pairs and "is_wrong" not in rows[0]
    assert abs(len(file.wrong) / pairs - 0.24) < 0.01
    documents = Counter(row["document"] for row in rows)
    for row, true in zip(rows, truth, strict=True):
        assert row["query_id"] == true["query_id"] and true["is_wrong"] == (row["query_id"] in file.wrong)
        assert (row["document"] != true["right"]) == true["is_wrong"]
        if true["is_wrong"]:
            assert (documents[true["right"]] > 0) == file.name.endswith("present")
    if file.name.startswith("one"):
        assert set(documents.values()) == {1}
    else:
        assert min(Counter(row["right"] for row in truth).values()) == 4


def test_the_four_files_are_as_their_names_say_and_the_seed_alone_decides(bench, made_up, tmp_path):
    files = bench.write_files(made_up, tmp_path / "a", pairs=200)
    assert [file.name for file in files] == list(bench.SHAPES)
    for file, again in zip(files, bench.write_files(made_up, tmp_path / "b", pairs=200), strict=True):
        check(file, 200)
        assert file.path.read_bytes() == again.path.read_bytes() and file.wrong == again.wrong
    (other, *_) = bench.write_files(made_up, tmp_path / "c", pairs=200, seed=1)
    assert other.path.read_bytes() != files[0].path.read_bytes()


def test_wrong_documents_hold_no_answer(bench, made_up, tmp_path):
    for file in bench.write_files(made_up, tmp_path, pairs=200):
        for row in read(file.path):
            if row["query_id"] in file.wrong:
                number = row["query"].split("x")[0].removeprefix("own")
                assert f"answer{number}" not in row["document"].split()


def test_too_few_paragraphs_are_an_error(bench, made_up, tmp_path):
    with pytest.raises(bench.DataError, match="300 paragraphs have 1 questions, 500 are needed"):
        bench.write_files(made_up, tmp_path, pairs=500)


def test_a_file_can_be_audited_and_the_flags_are_measured(bench, made_up, tmp_path):
    file = bench.write_files(made_up, tmp_path / "files", pairs=200)[3]
    found = bench.audited(file, tmp_path)
    measured = bench.quality(found, file)
    assert found.table.num_rows == 200 and measured["true_rate"] == 0.24
    assert measured["auroc"] > 0.9, "questions and their paragraphs share rare words"


@pytest.mark.skipif(not REAL.exists(), reason="needs SQuAD in ../shared/data/squad")
def test_the_four_files_can_be_made_of_squad(bench, tmp_path):
    some = tmp_path / "articles.json"
    some.write_text(json.dumps({"data": json.loads(REAL.read_text())["data"][:40]}))
    for file in bench.write_files(some, tmp_path, pairs=400):
        check(file, 400)
