"""Columns that say how right a pair is: what is understood is said, what is not is refused with each reading."""

import csv
import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import noisyir
from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.data_import import import_data
from noisyir.app.init import experiment_file
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.recognise import recognise
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.store import open_store
from noisyir.front.cli import main
from noisyir.methods import experiments
from tests.refusals import refuses

pytestmark = pytest.mark.usefixtures("timed")

PAIRS = [(f"who sat on mat {n}?", f"a cat sat on mat {n}") for n in range(4)]
"""The first two are right."""
RIGHT = {PAIRS[0], PAIRS[1]}


def texts(file: Any) -> set[tuple[str, str]]:
    """The pairs that a source does not call wrong."""
    return {
        (example.query, passage.text)
        for found in file.rows()
        for example in [file.example(found)]
        for passage in example.positives
        if passage.relevance is None or passage.relevance > 0
    }


def rows(names: tuple[str, str], column: str, values: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {names[0]: query, names[1]: text, column: value} for (query, text), value in zip(PAIRS, values, strict=True)
    ]


def file_of(path: Path, column: str, values: Sequence[Any], names: tuple[str, str] = ("query", "document")) -> Path:
    write_rows(path, iter(rows(names, column, values)))
    return path


def named(path: Path, numbers: Sequence[int], names: Sequence[str]) -> Path:
    """A Parquet file in which `datasets` saved names of the labels."""
    table = pa.Table.from_pylist(rows(("sentence1", "sentence2"), "label", numbers))
    features = {"label": {"names": list(names), "_type": "ClassLabel"}, "sentence1": {"_type": "Value"}}
    pq.write_table(table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})}), path)
    return path


@pytest.mark.parametrize(
    ("column", "values", "names", "said"),
    [
        ("label", (1, 1, 0, 0), ("query", "document"), "label: 0 = not right; 1 = right"),
        ("label", ("positive", "positive", "negative", "negative"), ("query", "document"), "negative = not right; pos"),
        ("is_duplicate", (1, 1, 0, 0), ("question1", "question2"), "is_duplicate: 0 = not right; 1 = right"),
        ("Is Relevant", ("yes", "TRUE", "no", "False"), ("query", "document"), "Is Relevant: "),
        ("Relevant?", ("Y", "Y", "N", "N"), ("query", "document"), "Relevant?: n = not right; y = right"),
        ("relevance", (3, 1, 0, -1), ("query", "document"), "relevance: -1, 0 = not right; 1, 3 = right"),
        ("score", (1.0, 1.0, 0.0, 0.0), ("query", "document"), "score: 0 = not right; 1 = right"),
        ("clicked", (True, True, False, False), ("query", "document"), "clicked: "),
        ("label", (1, 1, -1, -1), ("query", "document"), "label: -1 = not right; 1 = right"),
        (
            "gold_label",
            ("entailment", "entailment", "neutral", "-"),
            ("premise", "hypothesis"),
            "gold_label: neutral = not right; entailment = right; - = no label",
        ),
        ("label", ("entailment", "entailment", "contradiction", "not_entailment"),
         ("sentence1", "sentence2"), "contradiction, not entailment = not right"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_what_a_label_says_is_understood_and_said(tmp_path, column, values, names, said, suffix):
    if suffix == ".parquet" and len({type(value) for value in values}) > 1:
        pytest.skip("a column of Parquet has one type")
    found = import_data(str(file_of(tmp_path / f"x{suffix}", column, values, names)), tmp_path / "out")
    assert said in found.report["labels"]
    assert "; 2 pairs left out of training, kept as judgements" in found.summary
    kept = Collection.load(tmp_path / "out")
    assert {(example.query, passage.text) for example, passage in kept.pairs(wrong=False)} == RIGHT
    assert kept.judgements.num_rows == 4


def test_names_in_the_schema_of_a_saved_data_set_decide(tmp_path):
    source = named(tmp_path / "rte.parquet", (0, 0, 1, -1), ("entailment", "not_entailment"))
    found = import_data(str(source), tmp_path / "out")
    assert found.report["labels"] == "label: 1 (not entailment) = not right; 0 (entailment) = right; -1 = no label"
    assert texts(Format.of_kind("sentence_transformers")(path=str(source)).open()) == RIGHT
    three = named(tmp_path / "nli.parquet", (0, 0, 1, 2), ("entailment", "neutral", "contradiction"))
    assert texts(Format.of_kind("sentence_transformers")(path=str(three)).open()) == RIGHT
    odd = named(tmp_path / "odd.parquet", (0, 0, 1, 2), ("spam", "eggs", "ham"))
    with refuses(DataError, "data.unclear_label", column="label"):
        import_data(str(odd), tmp_path / "none")


def test_a_folder_that_datasets_saved_keeps_the_names_of_its_labels(tmp_path):
    datasets = pytest.importorskip("datasets")
    kinds = {"sentence1": datasets.Value("string"), "sentence2": datasets.Value("string"),
             "label": datasets.ClassLabel(names=["entailment", "not_entailment"])}  # fmt: skip
    made = datasets.Dataset.from_list(rows(("sentence1", "sentence2"), "label", (0, 0, 1, 1)), datasets.Features(kinds))
    made.save_to_disk(str(tmp_path / "rte"))
    found = import_data(str(tmp_path / "rte"), tmp_path / "out")
    assert "0 (entailment) = right" in found.report["labels"]
    found = noisyir.check(made)
    assert "0 (entailment) = right" in found.labels


UNCLEAR = {
    "integers of NLI": ("label", (0, 0, 1, 2), ("sentence1", "sentence2"), "label:0"),
    "integers of GLUE": ("label", (0, 0, 1, 1), ("sentence1", "sentence2"), "label:0"),
    "three classes": ("label", (0, 0, 1, 2), ("query", "document"), "label:0"),
    "a similarity": ("score", (0.9, 0.8, 0.1, 0.4), ("sentence1", "sentence2"), "score>=0.5"),
    "stars": ("stars", (5, 4, 1, 2), ("query", "document"), "stars>=3"),
    "grades without a 0": ("relevance", (3, 3, 1, 1), ("query", "document"), "relevance>=2"),
    "empty cells spelt out": ("label", ("1", "1", "0", "None"), ("query", "document"), "label:1"),
    "marks of another name": ("human_score", (5, 4, 1, 2), ("query", "document"), "human_score>=3"),
    "letters of ESCI": ("esci_label", "EESI", ("query", "document"), "esci_label:e"),
    "unknown words": ("label", ("nützlich", "nützlich", "daneben", "daneben"), ("query", "document"), "label:nützlich"),
}


# What is advised depends on the data, and how it is typed on the verb: two verbs for all data, the others for two.
@pytest.mark.parametrize(("kind", "verb"), [
    *((kind, verb) for kind in UNCLEAR for verb in ("import", "init")),
    *((kind, verb) for kind in ("integers of NLI", "stars") for verb in ("check", "audit", "mine", "run", "export")),
])  # fmt: skip
def test_what_is_not_understood_is_refused_and_each_advised_command_works(tmp_path, monkeypatch, capsys, kind, verb):
    column, values, names, right = UNCLEAR[kind]
    monkeypatch.chdir(tmp_path)
    file_of(Path("x.csv"), column, values, names)
    kind_of = "pairs" if names[0] == "query" else "sentence_transformers"
    if verb == "run":
        Path("x.yaml").write_text(f"name: x\ndata: {{kind: {kind_of}, path: x.csv}}\n")
    typed = {"run": ["run", "x.yaml", "--dry-run"], "export": ["export", "x.csv", "--as", "beir"]}.get(
        verb, [verb, "x.csv"]
    )
    assert main(typed) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "Traceback" not in said
    advised = re.findall(r"(?:: |; )(noisyir .*?) (?:takes|leaves|reads)", said)
    assert any(shlex.split(command)[-1].endswith(right) for command in advised)
    assert advised[-1].endswith("label=null")
    if verb in ("audit", "mine"):  # their settings, not their minutes
        for command in advised:
            experiment_to_audit("x.csv", shlex.split(command)[3:]).data.open()
        return
    for number, command in enumerate(advised):
        words = shlex.split(command)[1:]
        more = {
            "import": ["--out", f"t{number}"],
            "export": ["--out", f"t{number}"],
            "init": ["--to", f"y{number}.yaml"],
        }
        assert main([*words, *more.get(verb, [])]) == 0
    if verb == "import":
        wanted = next(n for n, command in enumerate(advised) if shlex.split(command)[-1].endswith(right))
        kept = Collection.load(Path(f"t{wanted}"))
        assert {(example.query, passage.text) for example, passage in kept.pairs(wrong=False)} == RIGHT
    if verb == "init":
        wanted = next(n for n, command in enumerate(advised) if shlex.split(command)[-1].endswith(right))
        assert texts(experiments.load(f"y{wanted}.yaml", []).data.open()) == RIGHT


@pytest.mark.parametrize(
    ("column", "values", "reading"),
    [
        ("human_label", (1, 1, 0, 0), "human_label"),
        ("relevance.responses", ("yes", "yes", "no", "no"), "relevance.responses"),
        ("annotator_1", ("relevant", "relevant", "irrelevant", "irrelevant"), "annotator_1"),
        ("choice", ("Correct", "Correct", "Not correct", "Not correct"), "choice"),
        ("status", ("approved", "approved", "rejected", "rejected"), "status"),
        ("annotator_2", (1, 1, 0, 0), "annotator_2"),
        ("clicks", (3, 7, 0, 0), "clicks"),
        ("llm_grade", (3, 1, 0, 0), "llm_grade"),
        ("is_answerable", (1, 1, 0, 0), "is_answerable"),
        ("is_hard_negative", (0, 0, 1, 1), "is_hard_negative:0"),
        ("hallucination", (0, 0, 1, 1), "hallucination:0"),
        ("target", (1, 1, 0, 0), "target"),
        ("is_noise", (0, 0, 1, 1), "is_noise:0"),
        ("is_label_issue", ("False", "False", "True", "True"), "is_label_issue:false"),
        ("not_relevant", (0, 0, 1, 1), "not_relevant:0"),
        ("error", ("correct", "correct", "wrong", "wrong"), "error"),
        ("is_impossible", ("False", "False", "True", "True"), "is_impossible:false"),
        ("rank", (1, 1, 2, 3), "rank:1"),
        ("answer", ("accept", "accept", "reject", "reject"), "answer"),
        ("feedback", ("up", "up", "down", "down"), "feedback"),
        ("feedback", (1, 1, -1, -1), "feedback"),
        ("标签", ("正确", "正确", "错误", "错误"), "标签"),
        ("seen", ("✓", "✓", "✗", "✗"), "seen"),
        ("similar", (1, 1, 0, 0), "similar"),
        ("has_answer", ("True", "True", "False", "False"), "has_answer"),
        ("llm_judge", ("relevant", "relevant", "partly relevant", "not relevant"), "llm_judge:relevant"),
        ("search_rank", (0, 0, 1, 20), "search_rank:0"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_a_column_of_another_name_that_calls_pairs_wrong_is_asked_about(tmp_path, column, values, reading, suffix):
    source = file_of(tmp_path / f"x{suffix}", column, values)
    with refuses(DataError, "data.unclear_label", column=column) as caught:
        import_data(str(source), tmp_path / "out")
    assert f"{{label: {reading}}}" in str(caught.value).replace('"', "")
    assert texts(Pairs(path=str(source), columns={"label": reading}).open()) == RIGHT
    assert len(texts(Pairs(path=str(source), columns={"label": None}).open())) == 4


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("has_code", (1, 1, 0, 0)), ("verified", ("yes", "yes", "no", "no")), ("human_label", (1, 1, 1, 1)),
        ("topic_label", ("law", "law", "art", "art")), ("is_noise", (0, 0, 0, 0)), ("target", ("a", "b", "c", "d")),
        ("note", ("good", "good", "x", "y")), ("gold", (7, 8, 9, 10)), ("clicks", (1, 2, 3, 4)),
        ("rank", (1, 1, 1, 1)), ("trend", ("up", "up", "down", "down")), ("is_code", ("yes", "yes", "no", "no")),
    ],
)  # fmt: skip
def test_a_column_that_calls_no_pair_wrong_is_left_unread(tmp_path, column, values):
    found = import_data(str(file_of(tmp_path / "x.csv", column, values)), tmp_path / "out")
    assert found.report["unread"] == [column] and found.report["pairs"] == {"train": 4}


def test_a_decimal_comma_is_a_number(tmp_path):
    source = file_of(tmp_path / "x.csv", "score", ("0,9", "0,85", "0,1", "0,2"))
    with refuses(DataError, "data.unclear_label", doubt="a scale from 0.1 to 0.9"):
        import_data(str(source), tmp_path / "out")
    assert texts(Pairs(path=str(source), columns={"label": "score>=0.5"}).open()) == RIGHT


def test_two_columns_that_judge_are_asked_about(tmp_path):
    write_rows(tmp_path / "x.csv", iter([{"query": "q", "document": "d", "label": 1, "relevance": 0}]))
    with refuses(DataError, "data.unclear_label", column="label"):
        Pairs(path=str(tmp_path / "x.csv")).open()
    assert not texts(Pairs(path=str(tmp_path / "x.csv"), columns={"label": "relevance"}).open())


def test_an_answer_that_accepts_or_rejects_is_no_document(tmp_path):
    kept = [{"text": "who sat?", "answer": word, "said": f"the cat {word}"} for word in ("accept", "reject", "ignore")]
    write_rows(tmp_path / "x.jsonl", iter(kept))
    with refuses(DataError, "data.pairs_without_texts"):
        Pairs(path=str(tmp_path / "x.jsonl")).open()
    columns = {"document": "said", "label": "answer"}
    assert texts(Pairs(path=str(tmp_path / "x.jsonl"), columns=columns).open()) == {("who sat?", "the cat accept")}


def test_a_value_that_comes_up_late_is_refused_where_it_stands(tmp_path):
    many = [("query", "document", "label"), *((f"q{n}", f"d{n}", 1) for n in range(1200)), ("late", "text", 2)]
    with (tmp_path / "x.csv").open("w", newline="") as out:
        csv.writer(out).writerows(many)
    found = import_data(str(tmp_path / "x.csv"), tmp_path / "out")
    assert "left out    1: 'label' holds '2', and whether this is right is not known" in found.summary
    with refuses(DataError, "data.wrong_mapped_label", column="label"):
        list(Pairs(path=str(tmp_path / "x.csv")).open().judgements())


def test_a_column_that_has_the_name_of_a_reading_is_a_column(tmp_path):
    file_of(tmp_path / "x.csv", "score>=0.5", (1, 1, 0, 0))
    assert texts(Pairs(path=str(tmp_path / "x.csv"), columns={"label": "score>=0.5"}).open()) == RIGHT


def test_a_list_of_labels_goes_with_a_list_of_documents(tmp_path):
    row = {"query": "q", "document": ["a", "b"], "label": [1, 0]}
    (tmp_path / "x.jsonl").write_text(json.dumps(row))
    assert texts(Pairs(path=str(tmp_path / "x.jsonl")).open()) == {("q", "a")}


def test_a_question_that_its_document_does_not_answer_is_judged_wrong(tmp_path):
    """SQuAD 2 in the columns of `datasets`."""
    answers = [{"text": text, "answer_start": [0] * len(text)} for text in (["a"], ["a"], [], [])]
    source = tmp_path / "x.jsonl"
    write_rows(source, iter(rows(("question", "context"), "answers", answers)), nested=True)
    found = import_data(str(source), tmp_path / "out")
    assert found.report["judged"]["0"] == 2 and "answers: without a text = not right" in found.summary
    assert texts(Pairs(path=str(source)).open()) == RIGHT
    assert len(texts(Pairs(path=str(source), columns={"label": None}).open())) == 4


def test_an_old_build_is_not_taken_for_what_labels_say_now(tmp_path):
    plain, labelled = file_of(tmp_path / "a.csv", "note", "xxyy"), file_of(tmp_path / "b.csv", "label", (1, 1, 0, 0))
    assert re.fullmatch("[0-9a-f]{64}", Pairs(path=str(plain)).digest())
    assert Pairs(path=str(labelled)).digest().endswith("-label")
    assert re.fullmatch("[0-9a-f]{64}", Pairs(path=str(labelled), columns={"label": "label"}).digest())
    assert re.fullmatch("[0-9a-f]{64}", Pairs(path=str(labelled), columns={"label": None}).digest())


def test_the_summary_and_the_advice_count_right_pairs_alone(tmp_path):
    source = file_of(tmp_path / "x.csv", "label", (1, 1, 0, 0))
    exp = experiments.load(str(written(tmp_path, source)), [])
    assert exp.data.summary().pairs == 2
    assert exp.chosen["data.columns.label"] == "label: 0 = not right; 1 = right"


def written(tmp_path: Path, source: Path) -> Path:
    target = source.with_suffix(".yaml")
    experiment_file(str(source), target, open_store(str(tmp_path / "store")))
    return target


# The sweep: formats by columns of labels; whatever a verb trains on is right, or a line says what was not understood.
SHAPES = {
    "pairs": lambda q, d, v, c: {"query": q, "document": d, c: v},
    "questions": lambda q, d, v, c: {"question": q, "answer": d, c: v},
    "response": lambda q, d, v, c: {"query": q, "response": d, c: v},
    "duplicates": lambda q, d, v, c: {"question1": q, "question2": d, c: v},
    "inference": lambda q, d, v, c: {"premise": q, "hypothesis": d, c: v},
    "anchors": lambda q, d, v, c: {"anchor": q, "positive": d, c: v},
    "sentences": lambda q, d, v, c: {"sentence1": q, "sentence2": d, c: v},
    "bge": lambda q, d, v, c: {"query": q, "pos": [d], "neg": ["a dog"], c: v},
    "tevatron": lambda q, d, v, c: {
        "query": q, "positive_passages": [{"docid": d, "title": "", "text": d}], "negative_passages": [], c: v},
    "dpr": lambda q, d, v, c: {"question": q, "answers": [], "positive_ctxs": [{"title": "", "text": d}], c: v},
    "ids": lambda q, d, v, c: {"qid": q, "query": q, "doc_id": d, "text": d, c: v},
}  # fmt: skip
FORMATS = [
    *((shape, ".jsonl") for shape in SHAPES),
    *((shape, suffix) for shape in ("pairs", "sentences", "anchors") for suffix in (".csv", ".parquet", ".arrow")),
    ("duplicates", ".tsv"),
    ("questions", ".json"),
    ("pairs", ".xlsx"),
]
COLUMNS = {
    "label": (1, 1, 0, 0),
    "labels": ("yes", "yes", "no", "no"),
    "relevance": (2, 1, 0, 0),
    "is_relevant": (True, True, False, False),
    "is_duplicate": (1, 1, 0, 0),
    "score": (0.9, 0.8, 0.2, 0.1),
    "similarity": (1.0, 1.0, 0.0, 0.0),
    "stars": (5, 4, 2, 1),
    "clicked": (1, 1, 0, 0),
    "weight": (1, 1, 0, 0),
    "gold_label": ("entailment", "entailment", "contradiction", "-"),
    "grade": (3, 3, 1, 1),
}
# Files differ in how they keep a number, a truth and a word; the name of a column means the same in each.
KINDS_OF_VALUES = ("label", "labels", "is_relevant", "similarity", "score", "weight", "gold_label")


@pytest.mark.parametrize(("shape", "suffix"), FORMATS, ids=lambda part: part)
def test_no_verb_trains_on_a_pair_that_a_column_calls_wrong(tmp_path, run_stage_on, capsys, shape, suffix):
    for column in COLUMNS if suffix == ".jsonl" else KINDS_OF_VALUES:
        source, values = tmp_path / f"{column}{suffix}", COLUMNS[column]
        given = [SHAPES[shape](*pair, value, column) for pair, value in zip(PAIRS, values, strict=True)]
        write_rows(source, iter(given), nested=suffix in (".jsonl", ".json"))
        refused = set()
        try:
            found = import_data(str(source), tmp_path / column)
        except DataError as error:
            refused.add(error.code)
        else:
            kept = Collection.load(tmp_path / column)
            weights = dict(
                zip(kept.judgements["query_id"].to_pylist(), kept.judgements["weight"].to_pylist(), strict=True)
            )
            right = {
                (one.query, passage.text) for one, passage in kept.pairs(wrong=False) if weights[one.query_id] != 0
            }
            assert right == RIGHT, (column, found.summary)
            assert "labels        " in found.summary or Format.parse(recognise(str(source))).has_weights
        try:
            exp = experiment_to_audit(str(source))  # audit and mine
            tables = run_stage_on(INGEST, exp.data, {})
            documents = {row["doc_id"]: row["text"] for row in tables["corpus"].to_pylist()}
            trained = {documents[name] for name in tables["pairs"]["doc_id"].to_pylist()}
            assert trained == {text for _, text in RIGHT} or exp.data.has_weights
            said = experiments.load(str(written(tmp_path, source)), []).chosen  # init and run
            assert "data.columns.label" in said or exp.data.has_weights
        except DataError as error:
            refused.add(error.code)
        assert refused <= {"data.unclear_label"}
        assert bool(refused) == (column in ("score", "stars", "grade") or is_asked(shape, column)), (column, refused)


def is_asked(shape: str, column: str) -> bool:
    """Whether 0 may be entailment."""
    return column == "label" and shape in ("inference", "sentences")
