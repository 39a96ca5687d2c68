"""Files from public threads: each is read right or refused in one line, by every verb, and none without a word."""

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from noisyir.app.audit_data import experiment_to_audit
from noisyir.data.checked_records import CheckedRecords
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.data.recognise import recognise
from noisyir.data.stages.ingest import INGEST
from noisyir.front.cli import main
from tests.refusals import refuses

REPORTS = Path(__file__).parents[4] / "shared" / "reports"
pytestmark = pytest.mark.skipif(not REPORTS.is_dir(), reason=f"the reports are not at {REPORTS}")

KETTLE, EGGS, DOUGH = "how do I descale a kettle?", "how long do eggs keep?", "what is sourdough?"
BOIL, TOAST, FRIDGE = "Boil vinegar and water in it", "Toast it well on both sides", "Three weeks in the fridge"
PAINT, RINSED = "Paint the door in spring", "Boil vinegar and water in it, then rinse."
MAN, DOG, ON = "a man eats bread in the park", "a dog runs home to its bowl", "the kettle is on the stove"


@dataclass(frozen=True)
class Read:
    """What a file says: its right pairs, its wrong ones, its negatives and the weights, in the file's order."""

    right: list[tuple[str, str]]
    wrong: list[tuple[str, str]] = field(default_factory=list)
    negatives: int = 0
    weights: list[float] | None = None
    said: str = ""


@dataclass(frozen=True)
class Refused:
    """The code of the refusal, and what follows where the command that it advises is typed."""

    code: str
    advised: dict[str, Read] = field(default_factory=dict)


# By kind of fault and file
FILES: dict[tuple[str, str], Read | Refused] = {
    ("weights", "01-cleaned-weights.jsonl"): Read(
        [(KETTLE, RINSED), (EGGS, f"{PAINT}."), (DOUGH, "Bread raised by wild yeast.")], weights=[1.0, 0.0, 1.0]
    ),
    ("weights", "01b-cleaned-weights-flagembedding.jsonl"): Read(
        [(KETTLE, RINSED), (KETTLE, f"{PAINT}."), (DOUGH, "Bread raised by wild yeast.")],
        negatives=2, weights=[1.0, 0.0, 1.0],
    ),
    ("population", "02-duplicate-questions.csv"): Read([
        (one, two)
        for both in (
            ("how do I bake bread?", "what is the best way to bake bread?"),
            ("how do I clean a kettle?", "which is the right way to clean a kettle?"),
            ("where can I park a boat?", "which places let me park a boat?"),
        )
        for one, two in (both, both[::-1])
    ]),
    ("labels", "04b-nli-integers.csv"): Refused(
        "data.unclear_label",
        {"label=label:0": Read([(MAN, "someone is eating")],
                               [(DOG, "the dog is brown"), (ON, "nothing is on the stove")])},
    ),
    ("labels", "05-label-column.csv"): Read(
        [(KETTLE, BOIL), (EGGS, FRIDGE)], [(KETTLE, TOAST), (EGGS, PAINT)], said="label: 0 = not right; 1 = right"
    ),
    ("labels", "05b-label-words.csv"): Read(
        [(KETTLE, BOIL), (EGGS, FRIDGE)], [(KETTLE, TOAST), (EGGS, PAINT)], said="negative = not right"
    ),
    ("labels", "06-score-column.csv"): Refused(
        "data.unclear_label", {"label=score>=0.5": Read([(KETTLE, BOIL), (EGGS, FRIDGE)], [(KETTLE, TOAST)])}
    ),
    ("labels", "07-is-duplicate.csv"): Read(
        [(KETTLE, "what removes lime from a kettle?"), (EGGS, "for how many weeks are eggs good?")],
        [(KETTLE, "how do I bake a large cake at home?")], said="is_duplicate: 0 = not right",
    ),
    ("labels", "26-nli-words.csv"): Read(
        [("a man eats bread", "someone is eating")],
        [("a man eats bread", "nobody eats"), ("a dog runs in the park", "the dog is brown")],
        said="contradiction, neutral = not right",
    ),
    ("formats", "08-question-answers-positive.jsonl"): Read(
        [(KETTLE, RINSED), (EGGS, "Eggs keep for three weeks in the fridge.")]
    ),
    ("formats", "08b-question-answer-list.jsonl"): Refused(
        "data.answers_or_documents",
        {"query=question,document=answer": Read(
            [(KETTLE, RINSED), (KETTLE, "Use citric acid."), (EGGS, "Eggs keep for three weeks in the fridge.")])},
    ),
    ("formats", "14-query-response.csv"): Read(
        [("how long do eggs keep in the fridge?", "3 weeks"), (KETTLE, f"{BOIL} and then rinse it well.")]
    ),
    ("formats", "37-context-and-answer.csv"): Read([
        (KETTLE, "Boil vinegar and water in the kettle, then rinse it twice."),
        (EGGS, "Eggs keep for three weeks in the fridge when they are cold."),
    ], said="not read      answer"),
    ("formats", "38-numbered-negatives.csv"): Read(
        [(KETTLE, f"{BOIL}."), (EGGS, f"{FRIDGE}.")], negatives=4
    ),
    ("formats", "33-no-positive.jsonl"): Read([(EGGS, f"{FRIDGE}.")], negatives=4, said="without text (line 3)"),
    ("headers", "27-cp1252-header.csv"): Refused("data.not_utf8_line"),
    ("headers", "28-sep-line.csv"): Refused("data.unclear_columns"),
    ("words", "09-chinese-near-copies.jsonl"): Read([
        ("怎样用白醋把电热水壶里面的水垢清洗干净呢", "把醋和水倒进壶里煮沸，然后冲洗干净。"),  # noqa: RUF001
        ("鸡蛋放在冰箱里可以保存多少个星期", "在冰箱里可以放三个星期。"),
        ("怎样用白醋把电热水壶里面的水垢清洗干净", "把醋和水倒进壶里煮沸，然后冲洗干净"),  # noqa: RUF001
        ("鸡蛋放在冰箱里可以保存多少个星期？", "在冰箱里可以放三个星期！"),  # noqa: RUF001
    ]),
    ("spelling", "13-lists-as-python.csv"): Read(
        [(KETTLE, f"{BOIL}."), (KETTLE, "Use citric acid."), (EGGS, f"{FRIDGE}.")], negatives=3
    ),
    ("spelling", "19-return-and-nul.jsonl"): Read([
        ("how do I reset it?", "Hold the button\rfor ten seconds."),
        ("where is the number?", "On the back\0, under the label."),
        ("how long is it?", "About two metres."),
    ]),
    ("spelling", "34-emoji-codes.csv"): Read([
        ("what does :warning: mean in the log?", "It means :x: or :b: in old versions."),
        ("how do I react with :+1: here?", "Press :smile: twice and wait."),
    ]),
    ("containers", "21-one-json-object.json"): Read([(KETTLE, RINSED), (EGGS, f"{FRIDGE}.")]),
    ("containers", "21b-list-under-data.json"): Read([(KETTLE, f"{BOIL}."), (EGGS, f"{FRIDGE}.")]),
    ("containers", "21c-columns-of-pandas.json"): Read([(KETTLE, "Boil vinegar and water."), (EGGS, "Three weeks.")]),
    ("containers", "22-triples-of-arrays.jsonl"): Refused("data.triples_of_ids"),
    ("containers", "24-haystack-squad.json"): Read(
        [(KETTLE, "Boil vinegar and water in the kettle, then rinse.")]
    ),
    ("one document", "30-one-document.csv"): Read(
        [(query, "See the manual for all of this.") for query in (KETTLE, EGGS, "what is rye?")]
    ),
}  # fmt: skip
# Scripts: what their commands end with, or None where a whole run below tells
SCRIPTS: dict[str, list[tuple[str, int, str]] | None] = {
    "04-class-label.py": None,
    "11-no-shared-words.py": [("import cross.csv", 0, "48 pairs")],
    "12-small-beir.sh": [("init small", 0, "backbone, its upper layers, 3 pairs")],
    "15-dots-in-names.sh": [
        ("import pairs.v1.csv", 0, "pairs.v1-tables/ has it"), ("import pairs.v2.csv", 0, "pairs.v2-tables/ has it"),
    ],
    "16-colon-in-names.sh": [("import run10:30.csv", 0, "2 pairs"), ("import run10:30.parquet", 0, "2 pairs")],
    "17-terminal-not-utf8.sh": [("check ru.csv", 0, "2 judgements")],
    "18-ids-a-spreadsheet-changes.sh": None,
    "19b-replacement-with-line-end.sh": None,
    "23-empty-import.sh": [
        ("import q.qrels --format trec --queries t.tsv --corpus c.tsv", 0, "1 pairs"),
        ("import f.parquet", 0, "2 pairs"),
    ],
    "31-more-negatives-than-documents.sh": None,
    "35-larger-corpus.sh": None,
    "36-packed-otherwise.sh": [
        ("import z.csv.zip", 0, "2 pairs"), ("import z.csv.bz2", 0, "2 pairs"), ("import packed.csv", 0, "2 pairs"),
        ("import z.csv", 0, "2 pairs"),
    ],
}  # fmt: skip
# Whole runs, and parts of what they print
WHOLE = {
    "18-ids-a-spreadsheet-changes.sh": ("judged 4 pairs",),
    "19b-replacement-with-line-end.sh": ("relabelled 3", ),
    "31-more-negatives-than-documents.sh": ("40 wanted, 19 to be had",),
    "35-larger-corpus.sh": ("2 pairs, with 6 hard negatives",),
}  # fmt: skip
READ = {place: what for place, what in FILES.items() if isinstance(what, Read)}
REFUSED = {place: what for place, what in FILES.items() if isinstance(what, Refused)}


def test_every_input_is_here():
    assert {path.name for path in REPORTS.iterdir()} == {name for _, name in FILES} | {*SCRIPTS}


@pytest.fixture
def copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Copy an input to a folder of its own, and work there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    return lambda name: shutil.copy(REPORTS / name, tmp_path / name)


def assert_reads(folder: Path, wanted: Read) -> None:
    kept = Collection.load(folder)
    both = {(example.query, one.text): one for example, one in kept.pairs()}
    wrong = {pair for pair, one in both.items() if one.relevance is not None and one.relevance <= 0}
    assert {*both} - wrong == {*wanted.right} and wrong == {*wanted.wrong}
    assert kept.negatives.num_rows == wanted.negatives
    if wanted.weights is not None:
        assert [both[pair].weight for pair in wanted.right] == wanted.weights


@pytest.mark.parametrize(("kind", "name"), READ)
def test_an_input_is_read_right_by_every_verb(copied, tmp_path, capsys, run_stage_on, kind, name):
    wanted, source = READ[kind, name], copied(name)
    assert main(["check", name]) == 0 and f"({recognise(name)['kind']})" in "".join(capsys.readouterr().out.split("\n"))
    assert main(["import", name, "--out", "tables"]) == 0
    out, err = capsys.readouterr()
    assert wanted.said in out and "Traceback" not in err and " 0 pairs" not in out
    assert_reads(tmp_path / "tables", wanted)
    exp = experiment_to_audit(str(source), ["data.on_empty=exclude"])  # as audit, mine, init and run read it
    tables = run_stage_on(INGEST, exp.data, {})
    texts = {row["doc_id"]: row["text"] for row in tables["corpus"].to_pylist()}
    asked = {row["query_id"]: row["text"] for row in tables["queries"].to_pylist()}
    pairs = tables["pairs"].to_pylist()
    trained = {(asked[row["query_id"]], texts[row["doc_id"]]) for row in pairs if row["split"] == "train"}
    assert trained <= {*wanted.right} and 0 < len(trained) <= exp.data.summary().pairs
    assert exp.data.has_weights == (wanted.weights is not None)


@pytest.mark.parametrize(("kind", "name"), REFUSED)
def test_an_input_is_refused_in_one_line_whose_advice_works(copied, tmp_path, capsys, kind, name):
    wanted = REFUSED[kind, name]
    copied(name)
    for verb in ("check", "import", "audit", "init", "mine"):
        assert main([verb, name]) == 1
        said = capsys.readouterr().err
        assert said.startswith("noisyir: ") and said.count("\n") == 1 and "eighteen" not in said, said
    with refuses(Exception, wanted.code):
        Format.parse(recognise(name)).open()
    for mapped, found in wanted.advised.items():
        assert main(["import", name]) == 1
        assert f"--map {shlex.quote(mapped)}" in capsys.readouterr().err
        assert main(["import", name, "--out", "tables", "--map", mapped]) == 0
        assert_reads(tmp_path / "tables", found)


def test_near_copies_between_splits_are_found_in_chinese(copied):
    copied("09-chinese-near-copies.jsonl")
    assert main(["check", "09-chinese-near-copies.jsonl", "--json"]) == 0


def test_rows_without_a_positive_are_no_copies_of_each_other(copied):
    name = copied("33-no-positive.jsonl")
    found = CheckedRecords.read(Format.parse(recognise(str(name))).open())
    assert len(found.relevant) == 2 and [one.text for one in found.documents.values()].count("") == 1


def test_a_query_that_is_a_document_is_marked_as_such(copied):
    assert Format.parse(recognise(str(copied("02-duplicate-questions.csv")))).marks() == "itself"


def test_triples_of_ids_are_read_with_their_texts(copied, tmp_path):
    name = copied("22-triples-of-arrays.jsonl")
    Path("q.tsv").write_text("571\twho sat?\n572\twho ran?\n")
    Path("c.tsv").write_text("734\tA cat.\n12\tA dog.\n13\tAn owl.\n735\tA fox.\n")
    assert main(["import", str(name), "--queries", "q.tsv", "--corpus", "c.tsv", "--out", "tables"]) == 0
    assert_reads(tmp_path / "tables", Read([("who sat?", "A cat."), ("who ran?", "A fox.")], negatives=3))


def test_zero_bytes_are_refused_where_no_file_can_hold_them(copied, capsys):
    copied("19-return-and-nul.jsonl")
    assert main(["export", "19-return-and-nul.jsonl", "--as", "pairs", "--to", "x.csv"]) == 1
    assert "write jsonl, json or parquet" in capsys.readouterr().err and not Path("x.csv").exists()
    assert main(["export", "19-return-and-nul.jsonl", "--as", "pairs", "--to", "x.jsonl"]) == 0
    texts = [json.loads(line)["document"] for line in Path("x.jsonl").read_text().splitlines()]
    assert texts[:2] == ["Hold the button\rfor ten seconds.", "On the back\0, under the label."]


def test_names_of_a_class_label_decide_in_a_folder_that_datasets_saved(copied, tmp_path):
    pytest.importorskip("datasets")
    subprocess.run([sys.executable, copied("04-class-label.py")], check=True, capture_output=True)
    assert main(["import", "rte", "--out", "tables"]) == 0
    right, *wrong = [
        ("A man eats bread in the park.", "Someone is eating."),
        ("A dog runs home.", "A cat sleeps."), ("The kettle is on.", "The kettle is off."),
    ]  # fmt: skip
    assert_reads(tmp_path / "tables", Read([right], wrong))


def run(script: Path, *, before: str = "", **more: str) -> str:
    """The output of a script of bash or Python on one line, with this checkout's noisyir first."""
    words = [sys.executable, str(script)] if script.suffix == ".py" else ["bash", "-c", f"{before}{script.read_text()}"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "PATH": path, **more}, check=False)
    return " ".join(f"{done.stdout} {done.stderr}".split())


@pytest.mark.parametrize("name", [name for name, commands in SCRIPTS.items() if commands])
def test_the_commands_of_a_script_end_as_they_should(copied, capsys, name):
    run(copied(name), before="noisyir() { :; }; chmod() { :; }\n")  # what it makes
    for words, code, said in SCRIPTS[name] or ():
        assert main(words.split()) == code, words
        assert said in " ".join("".join(capsys.readouterr()).split()), words


@pytest.mark.slow
@pytest.mark.parametrize(("name", "said"), WHOLE.items())
def test_a_whole_script_says_what_was_found(copied, name, said):
    told = run(copied(name), COLUMNS="200")
    assert "Traceback" not in told
    for one in said:
        assert one in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"), [("30-one-document.csv", "nothing to mine"), ("02-duplicate-questions.csv", "24 hard")]
)
def test_what_can_be_mined_is_no_query_itself(copied, capsys, name, said):
    copied(name)
    main(["mine", name, "--to", "mined.jsonl"])
    assert said in " ".join("".join(capsys.readouterr()).split())
    rows = (
        [json.loads(line) for line in Path("mined.jsonl").read_text().splitlines()]
        if Path("mined.jsonl").exists()
        else []
    )
    assert all(row["anchor"] not in (row[f"negative_{place}"] for place in range(1, 5)) for row in rows)
