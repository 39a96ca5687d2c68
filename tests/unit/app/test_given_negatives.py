"""Negatives that a file brings are candidates: judged, trained on, and written back into the same file."""

import json

import pytest

from noisyir.audits.rewriting import rewrite
from noisyir.data.examples import content_id
from noisyir.data.fewer_negatives import rows_with, without
from noisyir.data.formats import Format
from noisyir.front.cli import main
from noisyir.methods.experiments import from_settings
from noisyir.methods.plans.retrievers import train_retriever

WRONG = "negative_messages"
QUESTIONS, PLANTED = 200, 3  # every third question has a copy of its answer among its negatives


def passage(thing, part=""):
    return {"title": f"thing{thing}", "text": f"it is thing{thing}, of kind{thing}{part}"}


def item(n):
    wrong = [passage((n + step) % QUESTIONS) | {"score": 1.5, "passage_id": f"w{(n + step) % QUESTIONS}"}
             for step in (7, 31, 64)]  # fmt: skip
    if n % PLANTED == 0:
        wrong.insert(1, passage(n, ", once more") | {"score": 0, "passage_id": f"copy{n}"})
    return {
        "dataset": "made_up", "question": f"what is thing{n} of kind{n}?", "answers": [f"kind {n}"],
        "positive_ctxs": [passage(n) | {"score": 1000, "passage_id": f"w{n}"}],
        "negative_ctxs": wrong[-1:], "hard_negative_ctxs": wrong[:-1],
    }  # fmt: skip


@pytest.fixture(scope="module")
def train_ce(tmp_path_factory):
    path = tmp_path_factory.mktemp("dpr") / "train_ce.json"
    path.write_text(json.dumps([item(n) for n in range(QUESTIONS)], indent=4))
    return path


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))


def negatives(one):
    return [*one["hard_negative_ctxs"], *one["negative_ctxs"]]


def text(context):
    return context["text"]


def test_the_sieve_writes_the_same_file_with_the_survivors(train_ce, tmp_path, at_home, capsys):
    to = tmp_path / "sieved.json"
    asked = ["mine", str(train_ce), "mine.run=given", "mine.judges=[sieve]", "--as", "dpr_json", "--to", str(to)]
    assert main(asked) == 0
    before, after = json.loads(train_ce.read_text()), json.loads(to.read_text())
    gone = sum(len(negatives(one)) for one in before) - sum(len(negatives(one)) for one in after)
    assert f"without {gone:,} of its {QUESTIONS * 3 + 67:,} negatives ({gone:,} by sieve)" in capsys.readouterr().out
    assert not [one for one in after for wrong in negatives(one) if wrong["passage_id"].startswith("copy")]
    for old, new in zip(before, after, strict=True):
        for name in old:
            assert new[name] == ([one for one in old[name] if one in new[name]] if "neg" in name else old[name])
    assert gone >= 67
    untouched = train_ce.read_text().split("\n    },\n    {\n")
    assert len([text for text in untouched if text in to.read_text()]) == sum(map(dict.__eq__, before, after))


def test_the_survivors_train_another_system_and_come_back_with_new_ones(train_ce, at_home, tmp_path, capsys):
    settings = {
        "name": "own", "data": {"kind": "dpr_json", "path": str(train_ce)}, "mine": {"run": "given"},
        "train": {"hard_negatives": 2, "epochs": 1, "batch_size": 32},
    }  # fmt: skip
    plan = train_retriever(from_settings(settings, []))
    (trained,), (drawn,) = plan.named("train_dpr"), plan.named("mine")
    assert trained.inputs["negatives"].step == drawn.name
    both = ["mine", str(train_ce), "mine.run=given+dense", "--per-query", "8", "--as", "tevatron", "--to"]
    assert main([*both, str(tmp_path / "new.jsonl"), "mine.filters={}"]) == 0
    for n, line in enumerate((tmp_path / "new.jsonl").read_text().splitlines()):
        found = [one["docid"] for one in json.loads(line)["negative_passages"]]
        assert found[: len(negatives(item(n)))] == [one["passage_id"] for one in negatives(item(n))] and len(found) == 8


def test_a_file_whose_negatives_cannot_be_cut_out_is_written_new(train_ce, at_home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["export", str(train_ce), "--as", "swift", "--to", "chats.jsonl"]) == 0
    assert main(["mine", "chats.jsonl", "mine.run=given", "--as", "swift", "--to", "mined.jsonl"]) == 0
    before, after = ([json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
                     for name in ("chats.jsonl", "mined.jsonl"))  # fmt: skip
    assert all(0 < len(new[WRONG]) <= len(old[WRONG]) for old, new in zip(before, after, strict=True))
    assert sum(len(new[WRONG]) < len(old[WRONG]) for old, new in zip(before, after, strict=True)) > 60


def test_what_an_audit_calls_relevant_leaves_the_cleaned_file_and_the_exports(tmp_path, at_home, capsys):
    rows = []
    for one in map(item, range(24)):
        right = f"it was said elsewhere that {text(*one['positive_ctxs'])}, among other things"
        rows.append({"query": one["question"], "pos": [right], "neg": [text(wrong) for wrong in negatives(one)]})
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    asked = ["audit", str(path), "--assume", "random", "--force", "--out", str(tmp_path)]
    assert main([*asked, "--apply", "detectors={b: bm25_margin}"]) == 0
    log = [json.loads(line) for line in (tmp_path / "pairs.changes.jsonl").read_text().splitlines()]
    gone = [entry for entry in log if entry["action"] == "leave_out_negative"]
    out = capsys.readouterr().out
    assert f" {len(gone)} with a positive that is not flagged\n" in out and f"left out {len(gone)} negatives" in out
    cleaned = [json.loads(line) for line in (tmp_path / "pairs.cleaned.jsonl").read_text().splitlines()]
    assert gone and all(entry["reason"] == "fits its query as the best positive does" for entry in gone)
    assert sum(len(row["neg"]) for row in rows) - sum(len(row["neg"]) for row in cleaned) == len(gone)
    assert [row["pos"] for row in cleaned] == [row["pos"] for row in rows]
    assert main(["export", "pairs", "--as", "flagembedding", "--force", "--to", str(tmp_path / "out.jsonl")]) == 0
    logged = (tmp_path / "out.jsonl.left_out.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in logged] == gone
    exported = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [row["neg"] for row in exported] == [row["neg"] for row in cleaned]


@pytest.mark.parametrize(
    ("before", "gone", "after"),
    [
        ('["a",  "b" , "c"]', "a", '["b" , "c"]'),
        ('["a",  "b" , "c"]', "b", '["a" , "c"]'),
        ('["a",  "b" , "c"]', "bc", '["a"]'),
        ('[ "a", "b","c" ]', "abc", "[]"),
        ('["a", "\\u0063", "b"]', "c", '["a", "b"]'),
        ('"a"', "a", "null"),
    ],
)
@pytest.mark.parametrize("kind", ["line", "array"])
def test_only_what_leaves_is_cut_out_of_the_bytes(tmp_path, before, gone, after, kind, monkeypatch):
    monkeypatch.setattr("noisyir.data.json_arrays._READ_AT_ONCE", 5)  # cuts cross the parts that are read
    rows = ['{"query": "q1", "pos": ["p"], "neg": ["a"]}', '{"query": "q2", "pos": ["é"], "neg": %s , "x": 1.50}']
    text = "[ " + " ,\n".join(rows) + "]\n" if kind == "array" else "\r\n\n".join(rows) + "\n"
    path, to = tmp_path / f"rows.{'json' if kind == 'array' else 'jsonl'}", tmp_path / f"new.{kind}"
    path.write_bytes((text % before).encode())
    source = Format.parse({"kind": "flagembedding", "path": str(path)}).open()
    names = {text: content_id(1, "", text) for text in "abc"}
    rows = rows_with(source, {(content_id(1, "q2"), names[name]) for name in gone})
    rewrite(source.negatives_at[0], to, rows, lambda number, row: without(row, rows[number]))
    assert to.read_bytes() == (text % after).encode()
