"""Cleaned pairs: every format comes back as it was but for the flagged pairs, and every change is in the log."""

import csv
import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.data.formats.pairs import Pairs, PairsFile
from noisyir.errors import ConfigError, DataError
from noisyir.schemas.data import PAIRS
from noisyir.verdicts.apply import apply_audit, decide
from noisyir.verdicts.pairs_to_clean import FileOfPairs, TableOfPairs
from tests.unit.verdicts.world import audit_of, audit_of_file, id_of, wrong

CAT, DOG, EEL = 'A cat, "the" cat\nsat.', "A dog ran.", "Ein Aal schwamm, größer als 3."
ROWS = [
    {"question": "who sat?", "answer": CAT, "weight": "1", "note": "=kept"},
    {"question": "who ran?", "answer": EEL, "weight": "2", "note": "b"},
    {"question": "who swam?", "answer": DOG, "weight": "3", "note": "c"},
    {"question": "who, said he?", "answer": DOG, "weight": "4", "note": "d"},
]
SUFFIXES = [".jsonl", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".csv.gz"]


def write(path: Path, rows: list[dict]) -> Path:
    """The rows in the format of the suffix; csv with the line ends of Windows."""
    name = path.name.removesuffix(".gz")
    if name.endswith(".parquet"):
        pq.write_table(pa.Table.from_pylist(rows), path)
        return path
    plain = path.parent / name
    if name.endswith(".jsonl"):
        plain.write_text("\n\n".join(json.dumps(row, ensure_ascii=False, sort_keys=True) for row in rows))
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
    done = apply_audit(audit, FileOfPairs(file), tmp_path / "out")
    assert done.pairs == tmp_path / "out" / f"mine.cleaned{suffix}"
    assert read(done.pairs) == [given[0], {**given[1], "answer": DOG}, given[3]]
    assert source.read_bytes() == before
    assert (done.kept, done.relabelled, done.dropped, done.unaudited) == (2, 1, 1, 0)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["mine.changes.jsonl", f"mine.cleaned{suffix}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_nothing_flagged_is_the_same_content(tmp_path: Path, suffix: str):
    source = write(tmp_path / f"mine{suffix}", ROWS)
    done = apply_audit(audit_of_file(opened(source), {}), FileOfPairs(opened(source)), tmp_path / "out")
    if suffix == ".parquet":
        assert pq.read_table(done.pairs).equals(pq.read_table(source), check_metadata=True)
    else:
        unzip = gzip.decompress if suffix.endswith(".gz") else bytes
        assert unzip(done.pairs.read_bytes()).rstrip(b"\n") == unzip(source.read_bytes()).rstrip(b"\n")
    assert done.log.read_text() == "" and done.kept == 4


def test_the_log_names_every_change_in_the_order_of_the_source(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    cat, dog, eel = (id_of(file, text) for text in (CAT, DOG, EEL))
    audit = audit_of_file(file, {"who swam?": wrong(eel, p_clean=0.01), "who ran?": wrong(dog, p_clean=0.2)})
    done = apply_audit(audit, FileOfPairs(file), tmp_path)
    ids = {query.text: query.query_id for query in file.queries()}
    assert read(done.log) == [
        {"query_id": ids["who ran?"], "doc_id": eel, "action": "drop", "new_doc_id": None, "p_clean": 0.2,
         "reason": "Another document fits."},
        {"query_id": ids["who swam?"], "doc_id": dog, "action": "relabel", "new_doc_id": eel, "p_clean": 0.01,
         "reason": "Another document fits."},
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
        done = apply_audit(audit, FileOfPairs(file), tmp_path / suffix)
        assert read(done.pairs) == [{**rows[1], "doc_id": 13, "title": "", "text": DOG}, rows[2]]


def test_a_file_that_names_documents_gets_new_ids_and_copies_of_the_text_follow(tmp_path: Path):
    corpus = write(
        tmp_path / "corpus.jsonl",
        [{"_id": "c", "title": "Cats", "text": CAT}, {"_id": "d", "title": "Dogs", "text": DOG}],
    )
    rows = [
        {"query": "who ran?", "doc_id": "c", "answer": CAT, "Title": "Cats", "source": "Cats", "label": "Cats"},
        {"query": "who sat?", "doc_id": "c", "answer": "other words", "Title": None, "source": None, "label": 1},
    ]
    file = opened(write(tmp_path / "mine.jsonl", rows), corpus)
    audit = audit_of_file(file, {text: wrong("d") for text in ("who ran?", "who sat?")})
    done = apply_audit(audit, FileOfPairs(file), tmp_path / "out", relabel=1.0)
    assert read(done.pairs) == [
        {**rows[0], "doc_id": "d", "answer": DOG, "Title": "Dogs"},
        {**rows[1], "doc_id": "d"},
    ]


def test_of_a_row_with_several_documents_only_the_wrong_ones_go(tmp_path: Path):
    rows = [{"query": "who?", "pos": [CAT, DOG], "neg": [EEL]}, {"query": "what?", "pos": [DOG], "neg": []}]
    for suffix in (".jsonl", ".parquet"):
        file = opened(write(tmp_path / f"mine{suffix}", rows))
        pairs = {(j.query_id, j.doc_id): {} for j in file.judgements()}
        (first, *_), cat, dog = pairs, id_of(file, CAT), id_of(file, DOG)
        pairs[first[0], cat] = wrong(None)
        done = apply_audit(audit_of(pairs), FileOfPairs(file), tmp_path / f"drop{suffix}")
        assert read(done.pairs) == [{**rows[0], "pos": [DOG]}, rows[1]]
        assert (done.kept, done.relabelled, done.dropped) == (2, 0, 1)
        pairs[first[0], dog] = wrong(None)
        done = apply_audit(audit_of(pairs), FileOfPairs(file), tmp_path / f"both{suffix}")
        assert read(done.pairs) == [rows[1]] and done.dropped == 2


def test_repeated_rows_share_their_fate_and_the_counts_add_up(tmp_path: Path):
    file = opened(write(tmp_path / "mine.csv", ROWS + ROWS[1:3]))
    audit = audit_of_file(file, {"who ran?": wrong(id_of(file, DOG), p_clean=0.0), "who swam?": wrong(None)})
    done = apply_audit(audit, FileOfPairs(file), tmp_path / "out")
    assert (done.kept, done.relabelled, done.dropped) == (2, 2, 2)
    assert len(read(done.pairs)) == 4 and len(read(done.log)) == 4


def test_pairs_of_other_splits_stay(tmp_path: Path):
    rows = [{**row, "split": split} for row, split in zip(ROWS, ["train", "train", "train", "dev"], strict=True)]
    file = opened(write(tmp_path / "mine.jsonl", rows))
    done = apply_audit(audit_of_file(file, {"who ran?": wrong(None)}), FileOfPairs(file), tmp_path / "out")
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
    done = apply_audit(audit, TableOfPairs(pairs, audit, corpus.to_batches(1), "pydocs"), tmp_path)
    assert done.pairs.name == "pydocs.cleaned.jsonl"
    assert read(done.pairs) == [
        {"query_id": "q1", "doc_id": "a", "query": "what?", "document": "T\none", "source": "s"},
        {"query_id": "q2", "doc_id": "b", "query": "what?", "document": "two"},
    ]
    assert (done.kept, done.relabelled, done.dropped) == (1, 1, 1)
    assert {pair.doc_id for pair in opened(done.pairs).judgements()} == {"a", "b"}


def fates(said: dict, **settings):
    audit = audit_of({(query, "x"): values for query, values in said.items()})
    found = decide(audit, **{"relabel": 0.5} | settings)
    return {query: fate.new_doc_id for (query, _), fate in found.items()}


def test_the_surest_are_relabelled_by_hand_then_by_chance_then_by_score():
    said = {
        "a": wrong("r", p_clean=0.0, score=5.0), "b": wrong("r", p_clean=0.0, score=9.0), "c": wrong("r", p_clean=0.3),
        "d": wrong("r", p_clean=0.4), "e": {},
    }  # fmt: skip
    assert fates(said, relabel=0.25) == {"a": None, "b": "r", "c": None, "d": None}
    assert fates(said) == {"a": "r", "b": "r", "c": None, "d": None}
    by_hand = wrong("r", p_clean=0.0, score=1.0)
    machine = {name: values | {"p_clean": max(values.get("p_clean", 0.9), 1e-38)} for name, values in said.items()}
    assert fates(machine | {"d": by_hand}, relabel=0.25) == {"a": None, "b": None, "c": None, "d": "r"}
    assert fates(said, relabel=0.0) == {"a": None, "b": None, "c": None, "d": None}
    assert fates({"a": wrong(None), "b": wrong("r", p_clean=0.4)}) == {"a": None, "b": None}  # the surer one has none


def test_a_replacement_that_the_query_has_already_is_not_given_twice():
    audit = audit_of({("q", "x"): wrong("z", p_clean=0.0), ("q", "y"): wrong("z"), ("q", "w"): wrong("x"),
                      ("p", "x"): wrong("z")})  # fmt: skip
    found = decide(audit, relabel=1.0)
    assert {pair: fate.new_doc_id for pair, fate in found.items()} == {
        ("q", "x"): "z", ("q", "y"): None, ("q", "w"): None, ("p", "x"): "z",
    }  # fmt: skip
    assert "Its replacement x is a document of the query already" in found["q", "w"].reason


def test_nothing_is_overwritten_and_nothing_half_done_stays(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    audit = audit_of_file(file, {})
    (tmp_path / "mine.changes.jsonl").write_text("precious")
    with pytest.raises(DataError, match=r"mine\.changes\.jsonl exists already"):
        apply_audit(audit, FileOfPairs(file), tmp_path)
    assert (tmp_path / "mine.changes.jsonl").read_text() == "precious"
    unknown = audit_of_file(file, {"who ran?": wrong("nowhere", p_clean=0.0)})
    with pytest.raises(DataError, match=r"replacements are not in .*mine\.jsonl, for example 'nowhere'"):
        apply_audit(unknown, FileOfPairs(file), tmp_path / "out", relabel=1.0)
    assert list((tmp_path / "out").iterdir()) == []


def test_the_audit_of_other_pairs_is_refused(tmp_path: Path):
    file = opened(write(tmp_path / "mine.jsonl", ROWS))
    with pytest.raises(DataError, match=r"1 of the 1 audited pairs are not in .*mine\.jsonl.*'q'.*'x'"):
        apply_audit(audit_of({("q", "x"): {}}), FileOfPairs(file), tmp_path / "out")
    pairs = pa.Table.from_pylist(
        [{"query_id": q, "doc_id": "x", "split": "train", "source": None} for q in ("q", "r")], schema=PAIRS.schema
    )
    audit = audit_of({("q", "x"): {}})
    with pytest.raises(DataError, match=r"query 'r' with document 'x' is not in the audit"):
        apply_audit(audit, TableOfPairs(pairs, audit, [], "pydocs"), tmp_path / "out")


def test_a_share_is_a_share(tmp_path: Path):
    with pytest.raises(ConfigError, match="0 to 1, not 2"):
        decide(audit_of({("q", "x"): {}}), relabel=2)
