"""Cleaned pairs: every format comes back as it was but for the flagged pairs, and every change is in the log."""

import csv
import gzip
import json
import re
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from noisyir.audits.apply import apply_audit, changed, decide
from noisyir.audits.pairs_to_clean import FileOfPairs, TableOfPairs
from noisyir.base.errors import DataError
from noisyir.data.artifacts import PAIRS
from noisyir.data.containers import write_rows
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs, PairsFile
from noisyir.data.records import Query
from tests.refusals import refuses
from tests.unit.audits.world import audit_of, audit_of_file, id_of, wrong

CAT, DOG, EEL = 'A cat, "the" cat\nsat.', "A dog ran.", "Ein Aal schwamm, größer als 3."
ROWS = [
    {"question": "who sat?", "answer": CAT, "level": "1", "note": "=kept"},
    {"question": "who ran?", "answer": EEL, "level": "2", "note": "b"},
    {"question": "who swam?", "answer": DOG, "level": "3", "note": "c"},
    {"question": "who, said he?", "answer": DOG, "level": "4", "note": "d"},
]
cleaned = partial(apply_audit, drop=True)
weighted = partial(apply_audit, drop=False)
SUFFIXES = [".jsonl", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".csv.gz"]


def write(path: Path, rows: list[dict]) -> Path:
    """The rows in the format of the suffix; csv with the line ends of Windows."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    plain = path.parent / name
    if name.endswith(".jsonl"):
        plain.write_text("\n\n".join(json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows))
    elif name.endswith(".json"):
        plain.write_text(json.dumps(rows, indent=1, sort_keys=True))
    elif name.endswith(".tsv"):
        lines = [list(rows[0]), *([cell.replace("\n", " ") for cell in row.values()] for row in rows)]
        plain.write_text("".join("\t".join(line) + "\n" for line in lines))
    else:
        with plain.open("w", newline="", encoding="utf-8-sig") as handle:
            out = csv.DictWriter(handle, list(rows[0]), quoting=csv.QUOTE_ALL)
            out.writeheader()
            out.writerows(rows)
    if path != plain:
        path.write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()
    return path


def read(path: Path) -> list[dict]:
    """The rows, whatever the format."""
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    text, name = raw.decode("utf-8-sig"), path.name.removesuffix(".gz")
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.splitlines() if line]
    if name.endswith(".json"):
        return json.loads(text)
    quoting = csv.QUOTE_NONE if name.endswith(".tsv") else csv.QUOTE_MINIMAL
    dialect = {"delimiter": "\t" if name.endswith(".tsv") else ",", "quoting": quoting}
    return list(csv.DictReader(text.splitlines(keepends=True), **dialect))


def opened(path: Path, corpus: Path | None = None, **columns) -> PairsFile:
    return Pairs(path=str(path), corpus=corpus and str(corpus), columns=columns).open()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_file_keeps_its_format_its_columns_and_its_other_rows(tmp_path: Path, suffix: str):
    source = write(tmp_path / f"mine{suffix}", ROWS)
    before, given = source.read_bytes(), read(source)
    file = opened(source)
    audit = audit_of_file(file, {"who ran?": wrong(id_of(file, DOG)), "who swam?": wrong(None, p_clean=0.3)})
    done = cleaned(audit, FileOfPairs(file), tmp_path / "out")
    assert done.pairs == tmp_path / "out" / f"mine.cleaned{suffix}"
    assert read(done.pairs) == [given[0], {**given[1], "answer": DOG}, given[3]]
    assert source.read_bytes() == before
    assert (done.kept, done.relabelled, done.dropped, done.unaudited) == (2, 1, 1, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mine.changes.jsonl", f"mine.cleaned{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_flagged_is_the_same_content(tmp_path: Path, suffix: str):
    source = write(tmp_path / f"mine{suffix}", ROWS)
    done = cleaned(audit_of_file(opened(source), {}), FileOfPairs(opened(source)), tmp_path / "out")
    if suffix == ".parquet":
        assert pq.read_table(done.pairs).equals(pq.read_table(source), check_metadata=True)
    else:
        unzip = gzip.decompress if suffix.endswith(".gz") else bytes
        assert unzip(done.pairs.read_bytes()).rstrip(b"\n") == unzip(source.read_bytes()).rstrip(b"\n")
    assert done.log.read_text() == "" and done.kept == 4


def _dpr(query: str, *texts: str) -> dict:
    right = [{"title": "", "text": text, "score": 9.5, "psg_id": text[:3]} for text in texts]
    return {
        "question": query,
        "answers": [],
        "positive_ctxs": right,
        "hard_negative_ctxs": [{"title": "", "text": EEL}],
    }


def _tevatron(query: str, *texts: str) -> dict:
    right = [{"docid": text[:3], "title": "", "text": text} for text in texts]
    return {"query": query, "positive_passages": right, "negative_passages": [{"docid": "e", "title": "", "text": EEL}]}


@pytest.mark.parametrize(("kind", "row", "column"), [("dpr_json", _dpr, "positive_ctxs"),
                                                    ("tevatron", _tevatron, "positive_passages")])  # fmt: skip
@pytest.mark.parametrize("suffix", [".json", ".jsonl", ".json.gz", ".parquet"])
def test_rows_of_trainers_keep_their_shape_and_their_negatives(tmp_path: Path, kind, row, column, suffix):
    source = tmp_path / f"mine{suffix}"
    rows = [row("who sat?", CAT, DOG), row("who ran?", CAT), row("who swam?", DOG)]
    write_rows(source, iter(rows), nested=True)
    given = Format.of_kind(kind)(path=str(source))
    file = given.open()
    assert file.file.is_rewritten and not given.has_weights
    audit = audit_of_file(file, {"who ran?": wrong(id_of(file, DOG)), "who swam?": wrong(None)})
    done = cleaned(audit, FileOfPairs(file), tmp_path / "drop")
    assert done.pairs.name == f"mine.cleaned{suffix}" and (done.kept, done.relabelled, done.dropped) == (2, 1, 1)
    back = Format.of_kind(kind)(path=str(done.pairs)).open()
    found = [back.example(one) for one in back.rows()]
    assert [[one.text for one in example.positives] for example in found] == [[CAT, DOG], [DOG]]
    assert all([one.text for one in example.negatives] == [EEL] for example in found)
    assert [one.score for one in found[1].positives] == [None]
    done = weighted(audit, FileOfPairs(file), tmp_path / "weigh")
    again = Format.of_kind(kind)(path=str(done.pairs))
    assert again.has_weights and [*again.weights().values()] == [0.9, 0.9, 1.0, 0.1]
    assert [placed.value[column] for placed in again.open().rows()][::2] == [rows[0][column], rows[2][column]]


def test_the_log_names_every_change_in_the_order_of_the_source(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    cat, dog, eel = (id_of(file, text) for text in (CAT, DOG, EEL))
    audit = audit_of_file(
        file, {"who swam?": wrong(eel, p_clean=0.01), "who ran?": wrong(dog, p_clean=0.2, relabel=False)}
    )
    done = cleaned(audit, FileOfPairs(file), tmp_path)
    ids = {query.text: query.query_id for query in file.records() if isinstance(query, Query)}
    assert read(done.log) == [
        {"query_id": ids["who ran?"], "doc_id": eel, "action": "drop", "new_doc_id": None, "weight": 0.0,
         "p_clean": 0.2, "reason": "Another document fits."},
        {"query_id": ids["who swam?"], "doc_id": dog, "action": "relabel", "new_doc_id": eel, "weight": 1.0,
         "p_clean": 0.01, "reason": "Another document fits."},
    ]  # fmt: skip
    assert cat not in done.log.read_text()
    assert "relabelled 1, dropped 1" in done.summary()


def test_ids_and_titles_of_the_file_change_with_the_text(tmp_path: Path):
    rows = [
        {"qid": 1, "doc_id": 11, "title": "Cats", "text": CAT, "query": "who sat?", "vector": [0.5, 1.0]},
        {"qid": 2, "doc_id": 12, "title": "Eels", "text": EEL, "query": "who ran?", "vector": [1.5]},
        {"qid": 3, "doc_id": 13, "title": "", "text": DOG, "query": "who barks?", "vector": []},
    ]
    for suffix in (".jsonl", ".parquet"):
        file = opened(write(tmp_path / f"mine{suffix}", rows))
        audit = audit_of_file(file, {"who ran?": wrong("13"), "who sat?": wrong(None, score=1.0)})
        done = cleaned(audit, FileOfPairs(file), tmp_path / suffix)
        assert read(done.pairs) == [{**rows[1], "doc_id": 13, "title": "", "text": DOG}, rows[2]]


def test_a_document_that_is_an_object_stays_one(tmp_path: Path):
    rows = [
        {"query": "who ran?", "document": {"id": 1, "title": "Cats", "text": CAT, "url": "https://c.example"}},
        {"query": "who barks?", "document": {"id": 2, "title": None, "text": DOG, "url": None}},
    ]
    for suffix in (".jsonl", ".parquet"):
        file = opened(write(tmp_path / f"mine{suffix}", rows))
        done = cleaned(audit_of_file(file, {"who ran?": wrong("2")}), FileOfPairs(file), tmp_path / suffix)
        new = {"id": 2, "title": "", "text": DOG} | ({"url": None} if suffix == ".parquet" else {})
        assert read(done.pairs) == [{**rows[0], "document": new}, rows[1]]


def test_a_file_that_names_documents_gets_new_ids_and_copies_of_the_text_follow(tmp_path: Path):
    corpus = write(
        tmp_path / "corpus.jsonl",
        [{"_id": "c", "title": "Cats", "text": CAT}, {"_id": "d", "title": "Dogs", "text": DOG}],
    )
    rows = [
        {"query": "who ran?", "doc_id": "c", "answer": CAT, "Title": "Cats", "source": "Cats", "tag": "Cats"},
        {"query": "who sat?", "doc_id": "c", "answer": "other words", "Title": None, "source": None, "tag": 1},
    ]
    file = opened(write(tmp_path / "mine.jsonl", rows), corpus)
    audit = audit_of_file(file, {text: wrong("d") for text in ("who ran?", "who sat?")})
    done = cleaned(audit, FileOfPairs(file), tmp_path / "out")
    assert read(done.pairs) == [{**rows[0], "doc_id": "d", "answer": DOG, "Title": "Dogs"}, {**rows[1], "doc_id": "d"}]


def test_of_a_row_with_several_documents_only_the_wrong_ones_go(tmp_path: Path):
    rows = [{"query": "who?", "pos": [CAT, DOG], "neg": [EEL]}, {"query": "what?", "pos": [DOG], "neg": []}]
    for suffix in (".jsonl", ".parquet"):
        file = opened(write(tmp_path / f"mine{suffix}", rows))
        pairs = {(j.query_id, j.doc_id): {} for j in file.judgements()}
        (first, *_), cat, dog = pairs, id_of(file, CAT), id_of(file, DOG)
        pairs[first[0], cat] = wrong(None)
        done = cleaned(audit_of(pairs), FileOfPairs(file), tmp_path / f"drop{suffix}")
        assert read(done.pairs) == [{**rows[0], "pos": [DOG]}, rows[1]]
        assert (done.kept, done.relabelled, done.dropped) == (2, 0, 1)
        pairs[first[0], dog] = wrong(None)
        done = cleaned(audit_of(pairs), FileOfPairs(file), tmp_path / f"both{suffix}")
        assert read(done.pairs) == [rows[1]] and done.dropped == 2


def test_repeated_rows_share_their_fate_and_the_counts_add_up(tmp_path: Path):
    file = opened(write(tmp_path / "mine.csv", ROWS + ROWS[1:3]))
    audit = audit_of_file(file, {"who ran?": wrong(id_of(file, DOG), p_clean=0.0), "who swam?": wrong(None)})
    done = cleaned(audit, FileOfPairs(file), tmp_path / "out")
    assert (done.kept, done.relabelled, done.dropped) == (2, 2, 2)
    assert len(read(done.pairs)) == 4 and len(read(done.log)) == 4


def test_pairs_of_other_splits_stay(tmp_path: Path):
    rows = [{**row, "split": split} for row, split in zip(ROWS, ["train", "train", "train", "dev"], strict=True)]
    file = opened(write(tmp_path / "mine.jsonl", rows))
    done = cleaned(audit_of_file(file, {"who ran?": wrong(None)}), FileOfPairs(file), tmp_path / "out")
    assert [row["question"] for row in read(done.pairs)] == ["who sat?", "who swam?", "who, said he?"]
    assert (done.kept, done.unaudited, done.dropped) == (3, 1, 1)
    assert "1 of them not audited" in done.summary()


def test_a_data_set_becomes_jsonl_that_can_be_read_back(tmp_path: Path):
    pairs = pa.Table.from_pylist(
        [
            {"query_id": "q1", "doc_id": "a", "split": "train", "source": "s"},
            {"query_id": "q2", "doc_id": "a", "split": "train", "source": None},
            {"query_id": "q3", "doc_id": "a", "split": "train", "source": None},
            {"query_id": "q4", "doc_id": "b", "split": "dev", "source": None},
        ],
        schema=PAIRS.schema,
    )
    corpus = pa.table({"doc_id": ["a", "b"], "title": ["T", ""], "text": ["one", "two"]})
    texts = {"query": "what?", "document": "T\none"}
    audit = audit_of({("q1", "a"): texts, ("q2", "a"): {**texts, **wrong("b", p_clean=0.0)},
                      ("q3", "a"): {**texts, **wrong(None)}})  # fmt: skip
    done = cleaned(audit, TableOfPairs(pairs, audit, corpus.to_batches(1), "pydocs"), tmp_path)
    assert done.pairs.name == "pydocs.cleaned.jsonl"
    assert read(done.pairs) == [
        {"query_id": "q1", "doc_id": "a", "query": "what?", "document": "T\none", "source": "s"},
        {"query_id": "q2", "doc_id": "b", "query": "what?", "document": "two"},
    ]
    assert (done.kept, done.relabelled, done.dropped) == (1, 1, 1)
    assert {pair.doc_id for pair in opened(done.pairs).judgements()} == {"a", "b"}


def fates(said: dict, **settings):
    audit = audit_of({(query, "x"): values for query, values in said.items()})
    found = decide(audit, **settings)
    return {query: fate.new_doc_id for (query, _), fate in found.items() if fate.action != "keep"}


def test_a_pair_is_relabelled_where_people_vouch_for_it_and_else_weighted():
    unvouched = {"relabel": False}
    said = {"a": wrong("r"), "b": wrong("r", **unvouched), "c": wrong(None), "d": {}}
    assert fates(said) == {"a": "r", "b": None, "c": None}
    assert fates(said, drop=True) == fates(said)


def test_where_nobody_judged_and_nothing_is_assumed_all_pairs_stay_whole():
    said = {"a": wrong("r", verdict="suspect", p_clean=None, relabel=False), "b": {"verdict": None, "p_clean": None}}
    assert fates(said) == fates(said, drop=True) == {}
    assumed = {"a": wrong("r", verdict="suspect", p_clean=0.2, relabel=False)}
    assert fates(assumed) == {"a": None}


def by_people(verdict: str, replacement: str | None = None, /, **said) -> dict:
    """What an audit says of a pair that people judged, the machine's word beside."""
    machine = {"verdict": "clean", "p_clean": 0.9, "replacement": None} | said
    hand = {
        "verdict": verdict,
        "p_clean": float(verdict == "clean"),
        "replacement": replacement or machine["replacement"],
    }
    return {**machine, **hand, "judged": verdict, "accepted": replacement is not None,
            "relabel": replacement is not None or said.get("relabel", False),
            **{f"machine_{name}": machine[name] for name in ("verdict", "p_clean", "replacement")}}  # fmt: skip


def test_verdicts_of_people_decide_about_their_own_pairs_alone():
    chances = {name: {"p_clean": number / 10} for number, name in enumerate("abcd")}
    machine = {name: wrong("r", **chance, relabel=name in "ab") for name, chance in chances.items()} | {
        "e": {},
        "f": {},
    }
    assert fates(machine) == {"a": "r", "b": "r", "c": None, "d": None}
    said = machine | {
        "a": by_people("clean", **wrong("r", p_clean=0.0, relabel=False)),
        "b": by_people("wrong", **wrong("r", p_clean=0.1)),  # judgements of other pairs vouch for the machine's
        "c": by_people("wrong", "z", **wrong("r", p_clean=0.2)),
        "e": by_people("wrong", "own"),
        "f": by_people("wrong"),
    }
    assert fates(said) == {"b": "r", "c": "z", "d": None, "e": "own", "f": None}
    assert fates(said, drop=True) == fates(said)
    found = decide(audit_of({(query, "x"): values for query, values in said.items()}))
    assert {query: round(fate.weight, 2) for (query, _), fate in found.items()} == {
        "a": 1.0, "b": 1.0, "c": 1.0, "d": 0.3, "e": 1.0, "f": 0.0,
    }  # fmt: skip


def test_a_replacement_that_a_person_named_is_not_given_where_the_query_has_it():
    audit = audit_of({("q", "x"): by_people("wrong", "y"), ("q", "y"): {}, ("p", "x"): by_people("wrong", "x")})
    found = decide(audit)
    assert [found[pair].action for pair in (("q", "x"), ("p", "x"))] == ["weigh", "weigh"]
    assert "Its replacement y is a document of the query already" in found["q", "x"].reason


def test_what_the_audit_calls_clean_keeps_half_of_its_weight():
    """So that no more pairs are changed than are flagged, whatever the threshold."""
    audit = audit_of({("a", "x"): {"p_clean": 0.3}, ("b", "x"): wrong(None, p_clean=0.6), ("c", "x"): {"p_clean": 0.7}})
    found = decide(audit)
    assert [round(fate.weight, 3) for fate in found.values()] == [0.5, 0.6, 0.7]
    assert changed(audit) == 0
    assert changed(audit, drop=True) == 1


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_weights_stand_beside_all_pairs_and_are_read_back(tmp_path: Path, suffix: str):
    source = write(tmp_path / f"mine{suffix}", ROWS)
    before, given = source.read_bytes(), read(source)
    file = opened(source)
    audit = audit_of_file(
        file,
        {"who ran?": wrong(id_of(file, DOG)), "who swam?": wrong(None, p_clean=0.3), "who sat?": {"p_clean": 1 / 3}},
    )
    done = weighted(audit, FileOfPairs(file), tmp_path / "out")
    found = read(done.pairs)
    assert [float(row.pop("weight")) for row in found] == [0.5, 1.0, 0.3, 0.9]
    assert found == [given[0], {**given[1], "answer": DOG}, *given[2:]]
    assert source.read_bytes() == before
    assert (done.kept, done.relabelled, done.dropped, done.doubted) == (2, 1, 0, 1)
    assert "kept 2 pairs, relabelled 1, gave 1 less than half of their weight" in done.summary()
    again = opened(done.pairs)
    assert again.columns["weight"] == "weight"
    assert [pair.weight for pair in again.judgements()] == [0.5, 1.0, 0.3, 0.9]
    assert [entry["action"] for entry in read(done.log)] == ["relabel", "weigh"]

    anew = weighted(
        audit_of_file(again, {"who swam?": wrong(None, p_clean=0.2)}), FileOfPairs(again), tmp_path / "anew"
    )
    assert [pair.weight for pair in opened(anew.pairs).judgements()] == [0.9, 0.9, 0.2, 0.9], "in the place of the old"
    assert list(read(anew.pairs)[0]).count("weight") == 1


def test_a_pair_that_the_file_calls_wrong_has_no_weight(tmp_path: Path):
    labels = {"who ran?": "0"}
    file = opened(write(tmp_path / "mine.csv", [row | {"label": labels.get(row["question"], "1")} for row in ROWS]))
    audited = audit_of_file(file, {})
    audited = audited.filter(pc.not_equal(audited["query"], "who ran?"))  # no audit reads it
    done = weighted(audited, FileOfPairs(file), tmp_path / "out")
    assert [float(row["weight"]) for row in read(done.pairs)] == [0.9, 0.0, 0.9, 0.9]
    assert "kept 3 pairs and 1 not right by the file, with weight 0" in done.summary()
    done = weighted(audited, FileOfPairs(file, least=2), tmp_path / "graded")
    assert [float(row["weight"]) for row in read(done.pairs)] == [0.9, 0.0, 0.9, 0.9]
    assert (done.kept, done.not_right) == (3, 1), "three have the audit's weight, whatever the file says"


def test_rows_that_are_not_changed_keep_their_bytes_before_the_weight(tmp_path: Path):
    (tmp_path / "mine.jsonl").write_text('\n{"query" : "a\\u00e9 }",  "document":"x"} \n{"query":"b","document":"y"}')
    file = opened(tmp_path / "mine.jsonl")
    done = weighted(audit_of_file(file, {}), FileOfPairs(file), tmp_path / "out")
    assert done.pairs.read_text() == (
        '\n{"query" : "a\\u00e9 }",  "document":"x", "weight": 0.9} \n{"query":"b","document":"y", "weight": 0.9}\n'
    )
    (tmp_path / "mine.csv").write_bytes(b'\xef\xbb\xbfquery,document\r\n"a","x\r\ny"\r\n\r\nb,z')
    file = opened(tmp_path / "mine.csv")
    done = weighted(audit_of_file(file, {}), FileOfPairs(file), tmp_path / "more")
    assert done.pairs.read_bytes() == (b'\xef\xbb\xbfquery,document,weight\r\n"a","x\r\ny",0.9\r\n\r\nb,z,0.9\n')


@pytest.mark.parametrize(("gone", "left"), [("ab", "[ %c]"), ("bc", "[ %a]"), ("b", "[ %a,\n%c]"), ("abc", "[ ]")])
def test_items_of_an_array_go_with_one_separator_and_the_others_keep_their_bytes(tmp_path: Path, gone: str, left: str):
    items = {f"%{q}": f'{{"query" : "{q}", "document":"\\u00e9 {q}"}}' for q in "abc"}

    def filled(text: str) -> str:
        return "".join(items.get(part, part) for part in re.split("(%.)", text))

    (tmp_path / "mine.json").write_text(filled("[ %a , %b,\n%c]"))
    file = opened(tmp_path / "mine.json")
    done = cleaned(audit_of_file(file, dict.fromkeys(gone, wrong(None))), FileOfPairs(file), tmp_path / "out")
    assert done.pairs.read_text() == filled(left)


def test_where_rows_list_documents_weights_are_lists(tmp_path: Path):
    rows = [{"query": "who?", "pos": [CAT, DOG]}, {"query": "what?", "pos": [DOG]}]
    for suffix in (".jsonl", ".parquet"):
        file = opened(write(tmp_path / f"mine{suffix}", rows))
        pairs = {(j.query_id, j.doc_id): {} for j in file.judgements()}
        (first, *_), dog = pairs, id_of(file, DOG)
        pairs[first[0], dog] = wrong(None, p_clean=0.25)
        done = weighted(audit_of(pairs), FileOfPairs(file), tmp_path / suffix)
        assert [row["weight"] for row in read(done.pairs)] == [[0.9, 0.25], [0.9]]
        again = opened(done.pairs)
        assert [pair.weight for pair in again.judgements()] == [0.9, 0.25, 0.9]
        less = cleaned(audit_of(pairs), FileOfPairs(again), tmp_path / f"less{suffix}")
        assert read(less.pairs) == [{**rows[0], "pos": [CAT], "weight": [0.9]}, {**rows[1], "weight": [0.9]}]


def test_a_column_of_another_meaning_is_not_written_over(tmp_path: Path):
    source = write(tmp_path / "mine.jsonl", [{**row, "weight": 7} for row in ROWS])
    with refuses(DataError, "data.wrong_mapped_value", column="weight", value=7):
        list(opened(source).judgements())
    file = opened(source, weight=None)
    with refuses(DataError, "audits.weight_column_taken"):
        weighted(audit_of_file(file, {}), FileOfPairs(file), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
    assert read(cleaned(audit_of_file(file, {}), FileOfPairs(file), tmp_path / "out").pairs) == read(source)


def test_a_data_set_becomes_jsonl_with_weights(tmp_path: Path):
    pairs = pa.Table.from_pylist(
        [{"query_id": q, "doc_id": "a", "split": "train", "source": None} for q in ("q1", "q2")], schema=PAIRS.schema
    )
    texts = {"query": "what?", "document": "one"}
    audit = audit_of({("q1", "a"): texts, ("q2", "a"): {**texts, **wrong(None, p_clean=0.25)}})
    done = weighted(audit, TableOfPairs(pairs, audit, [], "pydocs"), tmp_path)
    assert [row["weight"] for row in read(done.pairs)] == [0.9, 0.25]


def test_a_replacement_that_the_query_has_already_is_not_given_twice():
    audit = audit_of({("q", "x"): wrong("z", p_clean=0.0), ("q", "y"): wrong("z"), ("q", "w"): wrong("x"),
                      ("p", "x"): wrong("z")})  # fmt: skip
    found = decide(audit)
    assert {pair: fate.new_doc_id for pair, fate in found.items() if fate.flagged} == {
        ("q", "x"): "z", ("q", "y"): None, ("q", "w"): None, ("p", "x"): "z",
    }  # fmt: skip
    assert "Its replacement x is a document of the query already" in found["q", "w"].reason


def test_nothing_is_overwritten_and_nothing_half_done_stays(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    audit = audit_of_file(file, {})
    (tmp_path / "mine.changes.jsonl").write_text("precious")
    with refuses(DataError, "audits.files_exist"):
        cleaned(audit, FileOfPairs(file), tmp_path)
    assert (tmp_path / "mine.changes.jsonl").read_text() == "precious"
    unknown = audit_of_file(file, {"who ran?": wrong("nowhere", p_clean=0.0)})
    with refuses(DataError, "audits.unknown_replacements", example="nowhere"):
        cleaned(unknown, FileOfPairs(file), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_audit_of_other_pairs_is_refused(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    with refuses(DataError, "audits.pairs_not_in_source", n_unseen=1, n_audited=1):
        cleaned(audit_of({("q", "x"): {}}), FileOfPairs(file), tmp_path / "out")
    pairs = pa.Table.from_pylist(
        [{"query_id": q, "doc_id": "x", "split": "train", "source": None} for q in ("q", "r")], schema=PAIRS.schema
    )
    audit = audit_of({("q", "x"): {}})
    with refuses(DataError, "audits.pair_not_in_audit", query_id="r", doc_id="x"):
        cleaned(audit, TableOfPairs(pairs, audit, [], "pydocs"), tmp_path / "out")
