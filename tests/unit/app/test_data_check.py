"""`noisyir check`: faults of benchmarks as their maintainers report them are found, and clean data has none."""

import json
from pathlib import Path

import numpy as np
import pytest

import noisyir
from noisyir.app.data_check import check_data
from noisyir.app.data_import import import_data
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.checking import FAULTS
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.front.cli import main
from tests.refusals import refuses

WORDS = np.array([f"{a}{b}{c}" for a in "bdfgk" for b in "aeiou" for c in "lmnrst"])


def text(number: int, length: int = 9) -> str:
    """Words that hardly another number has."""
    return " ".join(np.random.default_rng(number).choice(WORDS, length))


def clean(
    train: int = 20, test: int = 10
) -> tuple[dict[str, str], dict[str, str], dict[str, list[tuple[str, str, int]]]]:
    """Documents, queries, and the judgements of each split: each query has a document of its own."""
    count = train + test
    corpus = {f"d{n}": text(n, 20 + n % 7) for n in range(count)}
    queries = {f"q{n}": text(1000 + n, 8) for n in range(count)}
    rows = [(f"q{n}", f"d{n}", 1) for n in range(count)]
    return corpus, queries, {"train": rows[:train], "test": rows[train:]}


def beir(folder: Path, corpus, queries, qrels) -> str:
    (folder / "qrels").mkdir(parents=True)
    for name, texts in (("corpus", corpus), ("queries", queries)):
        rows = (json.dumps({"_id": one, "text": said}) for one, said in texts.items())
        (folder / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split, rows in qrels.items():
        lines = ["query-id\tcorpus-id\tscore", *(f"{q}\t{d}\t{r}" for q, d, r in rows)]
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(lines) + "\n")
    return str(folder)


def counts(found) -> dict[str, tuple[int, int]]:
    return {one.name: (one.count, one.of) for one in found.findings}


def test_clean_data_has_no_finding(tmp_path):
    found = check_data(beir(tmp_path / "data", *clean()))
    assert counts(found) == {}
    assert str(found).endswith("nothing found         by 26 checks")


def test_test_texts_in_training_under_other_ids(tmp_path):
    """mteb 4626, SyntheticText2SQL: more than 94 % of the test texts are in train, and their copies are not judged."""
    corpus, queries, qrels = clean(20, 20)
    for n in range(19):
        queries[f"q{20 + n}"] = queries[f"q{n}"].upper().replace(" ", "  ")
        corpus[f"d{20 + n}"] = corpus[f"d{n}"]
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {
        "same.documents": (19, 40), "same.unjudged": (38, 40), "leaks.queries": (19, 20), "leaks.documents": (19, 20),
    }  # fmt: skip
    (leak,) = found.of("leaks.queries")
    assert leak.examples[0].where == "queries.jsonl line 21" and "queries.jsonl line 1)" in leak.examples[0].said


def test_judgements_of_documents_that_are_not_there(tmp_path):
    """mteb 5021: of OVEN's judgements 89.9 % name documents of another corpus; ArguAna lacks 5."""
    corpus, queries, qrels = clean(0, 20)
    qrels = {"test": [(q, f"6:{d}" if n < 18 else d, r) for n, (q, d, r) in enumerate(qrels["test"])]}
    qrels["test"].append(("nobody", "d3", 1))
    folder = beir(tmp_path / "data", corpus, queries, qrels)
    found = check_data(folder)
    assert counts(found) == {"ids.documents": (18, 21), "ids.queries": (1, 21), "relevant.none": (18, 20)}
    (unknown, _) = found.of("ids")
    assert "18 different ids" in unknown.what
    assert unknown.examples[0] == ("qrels/test.tsv line 2", "query q0, document 6:d0")
    with refuses(DataError, "app.strict_loss"):
        import_data(folder, tmp_path / "tables", strict=True)


def test_what_an_import_leaves_out_is_found(tmp_path):
    corpus, queries, qrels = clean()
    corpus |= {"long": "word " * 200_001, " ": text(70, 20)}
    folder = beir(tmp_path / "data", corpus, queries, qrels)
    found = check_data(folder)
    assert counts(found)["rows"] == (2, 92)
    imported = import_data(folder, tmp_path / "tables").report["files"]
    [left_out] = [of["left_out"] for place, of in imported.items() if "corpus" in place]
    reasons = {one.said for one in found.of("rows")[0].examples}
    assert reasons == {*left_out} == {"document longer than 1,000,000 characters", "document without an id"}


def test_few_queries_are_unique(tmp_path):
    """mteb 4764 and PR 5511, CodeTransOceanDL: 180 queries, of which 50 are unique."""
    corpus, queries, qrels = clean(0, 180)
    queries = {name: queries[f"q{n % 50}"] for n, name in enumerate(queries)}
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {"same.queries": (130, 180)}


def test_copies_of_documents_of_which_one_is_judged(tmp_path):
    """mteb PR 4959, NanoArguAna: exact duplicates in the corpus, and judgements that name only some of them."""
    corpus, queries, qrels = clean()
    corpus["copy"] = corpus["d25"].title()
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {"same.documents": (1, 31), "same.unjudged": (1, 30)}
    assert found.of("same.unjudged")[0].examples[0].said == "query q25: d25 is relevant, and its copy copy is not"
    qrels["test"].append(("q25", "copy", 1))
    assert counts(check_data(beir(tmp_path / "mended", corpus, queries, qrels))) == {
        "repeats.texts": (1, 31), "same.documents": (1, 31),
    }  # fmt: skip


def test_empty_short_cut_and_lost_texts(tmp_path):
    """mteb 1049 and PR 3603: empty documents, texts of one character."""
    corpus, queries, qrels = clean(30, 10)
    corpus |= {"d0": "  ", "d1": "a b", "d2": f"{text(7)} …", "d3": f"a caf\N{REPLACEMENT CHARACTER} {text(8)}"}
    corpus |= {f"d{n}": (text(n, 60))[:200] for n in range(10, 20)}
    corpus |= {"d4": f"Ã¼ber {text(9)}", "d5": f"über Ã {text(10)}", "d6": f"this &amp; that, AT&T; {text(11)}"}
    queries |= {"q4": "?", "q5": ""}
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert [(one.name, one.count, one.what.split()[0]) for one in found.of("texts")] == [
        ("texts.empty", 1, "documents"), ("texts.empty", 1, "queries"), ("texts.short", 1, "documents"),
        ("texts.short", 1, "queries"), ("texts.cut", 10, "documents"), ("texts.cut", 1, "documents"),
        ("texts.lost", 2, "documents"), ("texts.html", 1, "documents"),
    ]  # fmt: skip


def test_documents_of_which_models_read_less_than_half(tmp_path):
    corpus, queries, qrels = clean()
    corpus |= {"d20": text(20, 500), "d21": text(21, 501)}
    [found] = check_data(beir(tmp_path / "data", corpus, queries, qrels)).of("texts")
    assert (found.name, found.count, found.of) == ("texts.long", 1, 30) and "d21" in found.examples[0].said


def test_grades_of_which_none_is_0(tmp_path):
    """ir_datasets 254, ANTIQUE: people rated from 1 on, and 1 is not relevant."""
    corpus, queries, qrels = clean()
    qrels["test"] = [(query, doc, 1 + number % 4) for number, (query, doc, _) in enumerate(qrels["test"])]
    qrels["train"] = [(query, doc, 2) for query, doc, _ in qrels["train"]]
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {"relevant.grades": (len(qrels["test"][::4]), 30)}
    qrels["test"][0] = (*qrels["test"][0][:2], 0)
    assert "relevant.grades" not in counts(check_data(beir(tmp_path / "mended", corpus, queries, qrels)))


def test_repeats_conflicts_and_a_query_that_is_its_document(tmp_path):
    corpus, queries, qrels = clean()
    corpus["d7"] = queries["q7"]
    qrels["train"] += [("q3", "d3", 1), ("q4", "d4", 0)]
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {"repeats.rows": (1, 32), "conflicts": (1, 30), "texts.echo": (1, 30)}
    assert found.of("repeats")[0].examples[0].where == "qrels/train.tsv line 22"


def test_near_duplicates_shared_documents_and_queries_of_two_splits(tmp_path):
    corpus, queries, qrels = clean()
    said = text(5000, 12).split()
    queries |= {
        "q0": " ".join(said),
        "q20": " ".join([*said[1:], "new"]),
        "q21": " ".join(reversed(queries["q1"].split())),
    }
    corpus |= {"d2": text(6000, 30), "d22": f"{text(6000, 30)} more"}
    qrels["test"] += [("q23", "d3", 1), ("q5", "d25", 1)]
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {
        "leaks.splits": (1, 30), "leaks.near": (2, 10), "leaks.documents": (1, 10), "leaks.near_documents": (1, 10),
    }  # fmt: skip


def test_queries_with_many_or_no_documents_and_a_document_of_many_queries(tmp_path):
    corpus, queries, qrels = clean(200, 10)
    queries["lonely"] = text(9000)
    qrels["train"] += [("q0", f"d{n}", 1) for n in range(1, 30)] + [(f"q{n}", "d150", 1) for n in range(30, 60)]
    found = check_data(beir(tmp_path / "data", corpus, queries, qrels))
    assert counts(found) == {"relevant.none": (1, 211), "relevant.many": (1, 210), "relevant.hub": (1, 210)}
    assert found.of("relevant.hub")[0].examples[0].said.startswith("31 times: d150")


def test_every_format_that_import_reads_is_checked(tmp_path):
    """The same clean data, written in every format: none has a finding, and a repeated document is found in each."""
    corpus, queries, qrels = clean(8, 0)
    import_data(beir(tmp_path / "clean", corpus, queries, {"train": qrels["train"]}), tmp_path / "tables")
    table = Collection.load(tmp_path / "tables")
    written = {kind: of.written for kind, of in Format.variants().items() if of.written is not None}
    for kind in (
        "beir",
        "tables",
        "pairs",
        "sentence_transformers",
        "flagembedding",
        "tevatron",
        "dpr_json",
        "msmarco",
    ):
        target = tmp_path / f"{kind}{written[kind]}"
        Format.of_kind(kind).write(table, target)
        found = check_data(str(target))
        assert (found.format, counts(found)) == (kind, {}), kind


def test_rows_that_cannot_be_read_end_nothing(tmp_path):
    file = tmp_path / "x.jsonl"
    rows = [json.dumps({"query": text(n), "document": text(n + 50, 14)}) for n in range(4)]
    file.write_text("\n".join([rows[0], "no json", *rows[1:]]) + "\n")
    found = check_data(str(file))
    assert counts(found) == {"rows": (1, 5)} and found.of("rows")[0].examples[0].where == "x.jsonl line 2"


def test_the_gate_of_the_command_line(tmp_path, capsys):
    corpus, queries, qrels = clean()
    queries["q20"] = queries["q0"]
    folder = beir(tmp_path / "data", corpus, queries, qrels)
    assert main(["check", folder]) == 0
    out = capsys.readouterr().out
    assert "leaks.queries" in out and max(map(len, out.splitlines())) <= 80
    assert main(["check", folder, "--fail-on", "leaks,ids"]) == 3
    assert main(["check", folder, "--fail-on", "ids,leaks.near"]) == 0
    assert main(["check", folder, "--fail-on", "leaks", "--json"]) == 3
    said = json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))
    assert said["failed"] == ["leaks.queries"] and said["findings"][0]["share"] == 0.1
    assert said["looked_for"] == list(FAULTS)
    assert main(["check", str(tmp_path / "absent"), "--fail-on", "leeks"]) == 1
    assert "noisyir check looks for no 'leeks': name one of rows, ids" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("page", "file", "code"), [("how-to/check.md", "faq.jsonl", 3), ("reference/data.md", "clicks.csv", 0)]
)
def test_the_examples_of_the_docs_print_what_they_say(tmp_path, monkeypatch, capsys, page, file, code):
    text = (Path(__file__).parents[3] / "docs" / page).read_text()
    shown = text.partition(f"$ cat {file}\n")[2].partition("```")[0]
    rows, _, rest = shown.partition("$ noisyir ")
    command, _, printed = rest.partition("\n")
    monkeypatch.chdir(tmp_path)
    (tmp_path / file).write_text(rows)
    assert main(command.split()) == code
    assert capsys.readouterr().out == printed


def test_the_docs_name_every_fault():
    page = (Path(__file__).parents[3] / "docs/how-to/check.md").read_text().partition("## What it looks for")[2]
    assert not [name for name in FAULTS if f"`{name}`" not in page]


def test_rows_of_python_are_checked():
    rows = [(text(n), text(n + 50, 14)) for n in range(5)]
    assert counts(noisyir.check(rows)) == {}
    found = noisyir.check([*rows, rows[0]])
    assert counts(found) == {"repeats.rows": (1, 6)} and found.data == "pairs"
    named = noisyir.check([{"query": "who sat there?", "doc_id": "x"}], corpus={"y": "a document that is there"})
    assert counts(named) == {"ids.documents": (1, 1), "relevant.none": (1, 1)}
    with refuses(ConfigError, "app.unknown_fault"):
        found.of("leak")


def test_columns_without_a_meaning_and_the_reading_of_labels_are_told(tmp_path):
    (tmp_path / "x.csv").write_text(
        "question,answer,label,votes\nwho sat?,A cat sat there.,1,7\nwho ran?,A dog ran.,0,9\n"
    )
    found = check_data(str(tmp_path / "x.csv"))
    told = dict(line.split(maxsplit=1) for line in str(found).splitlines() if line[:1].strip())
    assert "not read              votes" in str(found) and told["labels"] == "label: 0 = not right; 1 = right"
    assert found.for_machines()["not_read"] == ["votes"] and found.for_machines()["labels"] == told["labels"]
