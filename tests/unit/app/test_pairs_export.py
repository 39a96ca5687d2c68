"""Pairs leave in every format that is read: as an audit leaves them, or as they are; read again, they are the same."""

import json
from collections import Counter
from pathlib import Path

import pytest

from noisyir.app.data_import import import_data
from noisyir.app.label_audit import run_audit
from noisyir.app.pairs_export import export_pairs
from noisyir.app.runs import Execution
from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.data.collection import Collection
from noisyir.data.formats import Format
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods.experiments import from_settings
from tests.refusals import refuses
from tests.tiny import tiny_data

KINDS = sorted(kind for kind, variant in Format.variants().items() if variant.written is not None)
WEIGHTED = {kind for kind in KINDS if Format.of_kind(kind).holds_weights}


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A store with the audit of pairs.jsonl, in which every fourth pair has a document that is about another thing."""
    folder = tmp_path_factory.mktemp("pairs")
    rows = []
    for n in range(40):
        right = (n + 13) % 40 if n % 4 == 3 else n
        row = {"query": f"what is thing{n} of kind{n}?", "document": f"it is thing{right}, of kind{right}, part {n}"}
        rows.append({"query_id": f"q{n}", "doc_id": f"d{n}", **row})
    path = folder / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    store = Store(str(folder / "store"), home=folder / "home")
    settings = {"name": "pairs", "data": {"kind": "pairs", "path": str(path)}}
    verdicts = [f"q{n},d{n},{'wrong' if n % 4 == 3 else 'clean'},1" for n in range(40)]
    (folder / "all.csv").write_text("\n".join(["query_id,doc_id,verdict,weight", *verdicts]) + "\n")
    found = audited(settings, store, f"audit={{judgements: [{folder / 'all.csv'}]}}")
    assert found.flagged == 10 and found.sampled == 40
    audited({**settings, "name": "unjudged"}, store, "audit={}")
    audited({**settings, "name": "assumed", "detect": {"assume": "random"}}, store, "audit={}")
    return store, found, path


def audited(settings, store, asked):
    exp = from_settings(settings, [asked, "detectors={b: bm25_margin}"])
    runtime = Runtime(device="cpu", threads=1)
    return run_audit(exp, Execution(store=store, runtime=runtime))


def said(folder):
    """How often each (query, document, split, weight) is in an import."""
    read = Collection.load(folder)
    return Counter(
        (example.query, passage.text, example.split, round(passage.weight or 1.0, 4))
        for example, passage in read.pairs()
        if passage.relevance is None or passage.relevance > 0
    )


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "triples"])  # which wants negatives
def test_what_an_audit_leaves_is_read_again_as_the_same_pairs(world, tmp_path, kind):
    store, found, _ = world
    variant = Format.of_kind(kind)
    text, target = export_pairs(store, "pairs", kind, str(tmp_path / f"made{variant.written}"))
    back = import_data(str(target), tmp_path / "back")
    assert back.report["format"] == kind and text.endswith(f"noisyir import {target}")
    fates = found.apply(tmp_path / "applied", drop=kind not in WEIGHTED)
    import_data(str(fates.pairs), tmp_path / "applied-tables")
    pairs, wanted = said(tmp_path / "back"), said(tmp_path / "applied-tables")
    if kind == "trec":  # whose qrels are of no split
        pairs = Counter({(*row[:2], "train", row[3]): count for row, count in pairs.items()})
    assert pairs == wanted
    assert 0 < sum(wanted.values()) <= 40


@pytest.mark.parametrize("kind", KINDS)
def test_no_pair_changes_its_split_and_the_first_lines_say_what_a_format_loses(tmp_path, kind):
    split_of = {f"where is thing {n}?": ("train", "dev", "test")[n % 3] for n in range(30)}
    path = tmp_path / "labelled.jsonl"
    rows = [
        {"query": query, "document": f"thing {(n + m) % 30} is here", "label": 1 - m, "split": split}
        for n, (query, split) in enumerate(split_of.items())
        for m in range(2)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    store, target = Store(tmp_path / "store", home=tmp_path), tmp_path / f"made{Format.of_kind(kind).written}"
    try:
        text, _ = export_pairs(store, str(path), kind, str(target))
    except DataError as refused:
        assert kind == "squad" and "holds one split" in str(refused)
        return
    read = Collection.load(import_data(str(target), tmp_path / "back").folder)
    pairs = list(read.pairs())
    right = [one for one, passage in pairs if passage.relevance is None or passage.relevance > 0]
    assert right and all(split_of[one.query] == one.split for one in right)
    wrong = len(pairs) - len(right) + read.negatives.num_rows
    assert (len(right) < 30 or wrong < 30) == ("left out" in text or "changed" in text), text


def test_data_by_its_path_is_written_as_it_is_and_weights_only_where_they_are_held(world, tmp_path):
    store, found, path = world
    text, target = export_pairs(store, str(path), "tevatron", str(tmp_path / "all.jsonl"))
    rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert len(rows) == 40 and "as they are" in text
    assert [row["query"] for row in rows] == [json.loads(line)["query"] for line in path.read_text().splitlines()]
    weighted = found.apply(tmp_path).pairs
    light = sum(json.loads(line).get("weight", 1) < 0.5 for line in weighted.read_text().splitlines())
    text, _ = export_pairs(store, str(weighted), "tevatron", str(tmp_path / "some.jsonl"))
    assert light and f"{40 - light} pairs" in text and f"{light} of less than half a weight left out" in text


def test_what_cannot_be_done_is_refused_with_what_to_do(world, tmp_path, monkeypatch):
    store, _, _ = world
    monkeypatch.chdir(tmp_path)
    with refuses(ConfigError, "app.rate_unknown"):
        export_pairs(store, "unjudged", "tevatron", None)
    with refuses(ConfigError, "app.rate_unknown"):
        export_pairs(store, "unjudged", "tevatron", None, force=True)
    assert export_pairs(store, "assumed", "tevatron", None, force=True)[1].is_file()
    Path("assumed-tevatron.jsonl").unlink()
    with refuses(ConfigError, "app.unknown_pairs_format"):
        export_pairs(store, "pairs", "tevatrn", None)
    with refuses(StoreError, "app.no_run_with_result", name="nobody", result="audit"):
        export_pairs(store, "nobody", "pairs", None)
    _, target = export_pairs(store, "pairs", "line_pairs", None)
    assert {str(target), "pairs-line_pairs.cm"} == {path.name for path in Path().iterdir()}
    with refuses(StoreError, "app.target_exists"):
        export_pairs(store, "pairs", "line_pairs", None)
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_an_error_of_writing_names_the_path_that_was_typed_and_the_end_of_name_that_it_advises_works(
    world, tmp_path, monkeypatch
):
    store, _, _ = world
    monkeypatch.chdir(tmp_path)
    for typed in (str(tmp_path / "tev"), "tev"):
        with pytest.raises(DataError) as refused:
            export_pairs(store, "assumed", "tevatron", typed, force=True)
        said = str(refused.value)
        assert f"{typed}: end the name with" in said and ".exporting" not in said
    _, target = export_pairs(store, "assumed", "tevatron", str(tmp_path / "tev.jsonl"), force=True)
    assert target.is_file()


@pytest.fixture
def mine(tmp_path, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    data, words = (setting.partition("=")[2] for setting in tiny_data(tmp_path / "tiny"))
    return lambda *more: main(["mine", data, "--model", words, *more])


@pytest.mark.parametrize("kind", ["sentence_transformers", "flagembedding", "tevatron", "dpr_json"])
def test_mined_negatives_are_written_for_trainers_and_none_is_the_querys_own(mine, tmp_path, capsys, kind):
    to = tmp_path / f"mined{Format.of_kind(kind).written}"
    asked = ["--per-query", "3", "--as", kind, "--to", str(to)]
    assert mine(*asked) == 0
    assert "60 pairs, with 180 hard negatives of 60 queries" in capsys.readouterr().out
    import_data(str(to), tmp_path / "back")
    rows = list(Collection.load(tmp_path / "back").examples())
    assert len(rows) == 60 and all(len({passage.text for passage in row.negatives}) == 3 for row in rows)
    assert not [row for row in rows if {one.text for one in row.positives} & {one.text for one in row.negatives}]
    if kind == "sentence_transformers":
        written = [json.loads(line) for line in to.read_text().splitlines()]
        assert {tuple(row) for row in written} == {("anchor", "positive", "negative_1", "negative_2", "negative_3")}
    assert mine(*asked) == 1 and "exists already: name a new path with --to" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["line_pairs", "squad", "so_ds", "staqc"])
def test_a_format_without_negatives_is_refused_before_any_work(mine, tmp_path, capsys, kind):
    to = tmp_path / f"mined{Format.of_kind(kind).written}"
    assert mine("--as", kind, "--to", str(to)) == 1 and not to.exists() and not (tmp_path / "home").exists()
    assert f"format {kind} holds no negatives: name another with --as" in capsys.readouterr().err


def test_each_format_that_the_refusal_names_is_written_with_the_negatives(mine, tmp_path, capsys):
    assert mine("--as", "squad") == 1
    for kind in capsys.readouterr().err.strip().partition("with --as, one of ")[2].split(", "):
        to = tmp_path / kind / f"mined{Format.of_kind(kind).written}"
        assert mine("mine.filters={}", "--per-query", "2", "--as", kind, "--to", str(to)) == 0, kind
        if kind != "dpr":  # its contexts hold them, and noisyir does not read them
            import_data(str(to), tmp_path / f"{kind}-back")
            back = Collection.load(tmp_path / f"{kind}-back")
            called_wrong = back.judgements["relevance"].to_pylist().count(0)
            assert back.negatives.num_rows + called_wrong == 120, kind


def test_rows_of_sentence_transformers_have_as_many_negatives_each(mine, tmp_path, capsys):
    to = tmp_path / "mined.jsonl"
    assert mine("mine.filters={max_positive_cosine: 0.2}", "--per-query", "59", "--to", str(to)) == 0
    rows, told = [json.loads(line) for line in to.read_text().splitlines()], capsys.readouterr().out
    assert 0 < len(rows) < 60 and all(all(row.values()) for row in rows)
    assert f"{60 - len(rows)} queries with fewer than" in told
    assert mine("mine.filters={max_positive_cosine: -1}", "--to", str(tmp_path / "none.jsonl")) == 1
    assert "no negative is left" in capsys.readouterr().err and not (tmp_path / "none.jsonl").exists()


@pytest.fixture
def mine_file(tmp_path, monkeypatch, capsys):
    """`mine_file(pairs, *more)`: rc, the screen, and the written rows."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    _, words = (setting.partition("=")[2] for setting in tiny_data(tmp_path / "tiny"))

    def run(pairs, *more):
        path, to = tmp_path / "pairs.jsonl", tmp_path / "mined.jsonl"
        path.write_text("".join(json.dumps({"query": q, "document": d}) + "\n" for q, d in pairs), encoding="utf-8")
        code = main(["mine", str(path), "mine.filters={}", "--model", words, "--to", str(to), *more])
        rows = [json.loads(line) for line in to.read_text().splitlines()] if to.exists() else []
        return code, "".join(capsys.readouterr()), rows

    return run


def test_a_query_that_is_a_document_is_not_its_own_negative(mine_file):
    """Duplicate questions: each pair is there both ways round."""
    asked = [(f"what is word{n}", f"word{n} means what") for n in range(4)]
    _, _, rows = mine_file([*asked, *((answer, query) for query, answer in asked)], "--per-query", "6")
    assert len(rows) == 8
    for row in rows:
        others = [text for name, text in row.items() if name.startswith("negative")]
        assert len({*others}) == 6 and not {row["anchor"], row["positive"]} & {*others}


def test_one_document_for_all_queries_leaves_nothing_to_mine_and_more_documents_help(mine_file, tmp_path):
    pairs = [(f"what is word{n}", "see the manual") for n in range(3)]
    code, said, _ = mine_file(pairs)
    assert code == 1 and "nothing to mine: each of 1 documents" in said and "--corpus FILE" in said
    pool = tmp_path / "POOL.jsonl"
    pool.write_text('{"text": "word1 is here"}\n{"text": "see the manual"}\n{"text": "word2 is there"}\n')
    code, said, rows = mine_file(pairs, "--corpus", str(pool), "--per-query", "40")
    assert code == 0 and "40 wanted, 2 to be had: --per-query 2\n" in said
    assert [{row["negative_1"], row["negative_2"]} for row in rows] == [{"word1 is here", "word2 is there"}] * 3


def test_more_negatives_than_there_are_leave_no_query_out(mine_file):
    """Two queries of one text share their documents, and can have one negative fewer."""
    pairs = [*((f"what is word{n}", f"word{n} is it") for n in range(8)), ("what is word0", "word9 is it")]
    code, said, rows = mine_file(pairs, "--per-query", "40")
    assert code == 0 and "40 wanted, 8 to be had: --per-query 8, or 7, as here" in said
    assert len(rows) == 9 and {sum(name.startswith("negative") for name in row) for row in rows} == {7}
