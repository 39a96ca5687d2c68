"""Every format that is read is written, and says the same pairs; whatever is in a file, all rows are accounted for."""

import random
import sys
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noisyir.base.errors import NoisyirError
from noisyir.data.collection import SCHEMAS, Collection
from noisyir.data.formats import Format
from noisyir.data.importing import take_in
from noisyir.data.leniency import _account, lenient
from noisyir.data.recognise import recognise
from noisyir.data.records import Document, Judgement, Query, one_by_one

# kind, and what is written; "/" at the end is a folder.
WRITTEN = [
    *[("pairs", f"x{suffix}") for suffix in (".csv", ".tsv", ".jsonl", ".json", ".parquet", ".arrow", ".xlsx",
                                              ".jsonl.gz", ".csv.zst", ".json.zst")],
    *[("dpr_json", name) for name in ("x.json", "x.jsonl.zst", "x.parquet")],
    *[("tevatron", name) for name in ("x.jsonl", "x.arrow")],
    ("nemo", "x.jsonl"), ("nemo", "x.json"), ("swift", "x.jsonl"),
    *[("flagembedding", name) for name in ("x.jsonl", "x.parquet")],
    *[("sentence_transformers", name) for name in ("x.csv", "x.parquet")],
    ("triples", "x.tsv"), ("staqc", "x.jsonl"), ("squad", "x.json"), ("line_pairs", "x.nl"),
    *[(kind, "x/") for kind in ("beir", "msmarco", "dpr", "trec", "so_ds", "tables")],
]  # fmt: skip
WITHOUT_NEGATIVES = {"staqc", "squad", "line_pairs", "so_ds", "dpr"}

words = st.text("abcXYZ012\"',;|:=<>[]{}()#\\/-+éßñ漢字😀", min_size=1, max_size=6)
texts = st.lists(words, max_size=3).map(lambda found: " ".join(["text", *found]))  # three numbers would be ids


@st.composite
def collections(draw) -> Collection:
    """Queries with a right and a wrong document or more; no text occurs twice."""
    found = draw(st.lists(texts, min_size=3, max_size=12, unique_by=lambda text: text.lower()))
    titled, scored = draw(st.booleans()), draw(st.booleans())
    documents, queries, judgements, negatives = [], [], [], []
    for number, start in enumerate(range(0, len(found) - 2, 3)):
        query, right, wrong = found[start : start + 3]
        queries.append((f"q{number}", query, "train", []))
        documents += [(f"r{number}", f"Title {number}" if titled else "", right), (f"w{number}", "", wrong)]
        judgements.append((f"q{number}", f"r{number}", "train", None, None, None, 0.5 if scored else None))
        negatives.append((f"q{number}", f"w{number}", -1.25 if scored else None))
    rows = {"documents": documents, "queries": queries, "judgements": judgements, "negatives": negatives}
    return Collection(**{name: as_table(rows[name], schema) for name, schema in SCHEMAS.items()})


def as_table(rows: list[tuple], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True)
    return pa.table([pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)], schema)


def said(collection: Collection, *, wrong: bool) -> set[tuple[str, str, bool]]:
    """(query, title and text, whether right) of every pair, spaces apart."""
    return {
        (" ".join(example.query.split()), " ".join(f"{passage.title} {passage.text}".split()), is_right)
        for example in collection.examples()
        for passages, is_right in ((example.positives, True), (example.negatives, False))
        for passage in passages
        if is_right or wrong
    }


def read(source: Path, folder: Path, **given: str) -> Collection:
    folder.mkdir()
    found = take_in(Format.parse(recognise(str(source)) | given).open(), folder)
    for place, of in found.account.files.items():
        assert of.read == of.kept + of.repeated.count + of.lost, place
    return Collection.load(folder)


def test_every_format_that_is_written_is_here():
    written = {kind for kind, variant in Format.variants().items() if variant.written is not None}
    assert {kind for kind, _ in WRITTEN} == written
    assert Format.variants().keys() - written == {"pydocs", "ir_datasets", "llama_index", "ms_marco_qa", "topics"}


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
@settings(max_examples=4, deadline=None)
@given(collections())
def test_what_is_written_is_recognised_and_says_the_same(kind, name, collection):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / name
        Format.of_kind(kind).write(collection, target)
        assert recognise(str(target))["kind"] == kind
        back = read(target, Path(folder) / "first")
        keeps = kind not in WITHOUT_NEGATIVES
        assert said(back, wrong=keeps) == said(collection, wrong=keeps)
        if kind in ("pairs", "dpr_json", "tevatron", "flagembedding", "trec", "tables"):  # those that hold scores
            assert sorted(map(str, back.negatives["score"].to_pylist())) == sorted(
                str(score or (0.0 if kind == "trec" else None)) for score in collection.negatives["score"].to_pylist()
            )
        again = target.with_name(f"again-{target.name}")
        Format.of_kind(kind).write(back, again)
        assert said(read(again, Path(folder) / "second"), wrong=keeps) == said(back, wrong=keeps)


AWKWARD = ("a\rb", "a\nb", "a\r\nb", "a\tb", "a\0b", " a", "a b", '"a', "a\u2028b", "#a", "=a", "a,b;c")


@st.composite
def awkward_collections(draw) -> Collection:
    """Texts and ids with line ends, returns, NUL, tabs and spaces in them."""
    text, query_id, doc_id, title = (draw(st.sampled_from(["plain", *AWKWARD])) for _ in range(4))
    documents = [(doc_id, title if draw(st.booleans()) else "", f"one {text} two"), ("d2", "", "three four")]
    queries = [(query_id, f"what {text} is"), ("q2", "who is it")]
    rows = {
        "documents": documents,
        "queries": [(*query, "train", []) for query in queries],
        "judgements": [(query_id, doc_id, "train", *[None] * 4), ("q2", "d2", "train", *[None] * 4)],
        "negatives": [(query_id, "d2", None)],
    }
    return Collection(**{name: as_table(rows[name], schema) for name, schema in SCHEMAS.items()})


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("kind", "name"), WRITTEN)
@settings(max_examples=25, deadline=None)
@given(awkward_collections())
def test_what_cannot_be_read_back_is_refused_before_it_is_written(kind, name, collection):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / name
        try:
            Format.of_kind(kind).write(collection, target)
        except NoisyirError as error:
            assert "\n" not in str(error)
            return
        keeps = kind not in WITHOUT_NEGATIVES
        back = read(
            target, Path(folder) / "first", **({"kind": kind} if recognise(str(target))["kind"] != kind else {})
        )
        assert said(back, wrong=keeps) == said(collection, wrong=keeps)


LINES = [(kind, name) for kind, name in WRITTEN if name.endswith((".jsonl", ".tsv")) and "/" not in name]


@pytest.mark.parametrize(("kind", "name"), LINES)
@settings(max_examples=12, deadline=None)
@given(collections(), st.randoms(use_true_random=False), st.binary(max_size=30))
def test_every_line_of_a_damaged_file_is_kept_or_reported(kind, name, collection, chance: random.Random, junk: bytes):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / name
        Format.of_kind(kind).write(collection, target)
        lines = damaged(target.read_bytes().splitlines(keepends=True), chance, junk, header=kind == "pairs")
        target.write_bytes(b"".join(lines))
        (Path(folder) / "tables").mkdir()
        try:
            source = Format.parse({"kind": kind, "path": str(target)}).open()
            found = take_in(source, Path(folder) / "tables")
        except NoisyirError as error:
            assert str(target) in str(error)
            return
        [of] = found.account.files.values() if found.account.files else [None]
        rows = target.read_bytes().split(b"\n")[name.endswith(".tsv") and kind == "pairs" :]
        full = sum(bool(row.decode("utf-8", "replace").strip()) for row in rows)
        assert (of.read if of else 0) == full
        if of:
            assert of.read == of.kept + of.repeated.count + of.lost


def damaged(lines: list[bytes], chance: random.Random, junk: bytes, *, header: bool) -> list[bytes]:
    """Some lines doubled, cut, or with bytes in them that do not belong there; a header stays."""
    junk = junk.replace(b"\r", b"")
    made = lines[:1] if header else []
    for line in lines[1:] if header else lines:
        at = chance.randrange(len(line))
        made += [chance.choice([line, line * 2, line[:at] + b"\n", line[:at] + junk + line[at:], junk + b"\n"])]
    return made


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
@settings(max_examples=6, deadline=None)
@given(collections(), st.randoms(use_true_random=False), st.binary(min_size=1, max_size=30))
def test_a_damaged_file_of_any_format_is_read_to_the_last_row_or_refused_in_a_line(
    kind, name, collection, chance: random.Random, junk: bytes
):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / name
        Format.of_kind(kind).write(collection, target)
        file = chance.choice([file for file in sorted(Path(folder).rglob("*")) if file.is_file()])
        content = file.read_bytes()
        at, to = sorted(chance.randrange(len(content) + 1) for _ in range(2))
        file.write_bytes(content[:at] + chance.choice([b"", junk, junk + content[at:to]]) + content[to:])
        try:
            given_beside = {"corpus": str(target.with_name("x.cm"))} if kind == "line_pairs" else {}
            (Path(folder) / "tables").mkdir()
            source = Format.parse({**recognise(str(target)), **given_beside, "kind": kind}).open()
            account = take_in(source, Path(folder) / "tables").account
        except NoisyirError as error:
            assert folder in str(error) and "\n" not in str(error)
            return
        for place, of in account.files.items():
            assert of.read == of.kept + of.repeated.count + of.lost, place


@pytest.mark.parametrize("name", sorted({name.rstrip("/") for _, name in WRITTEN if not name.endswith("/")}))
@settings(max_examples=8, deadline=None)
@given(st.one_of(st.binary(max_size=200), st.text(max_size=100).map(str.encode)))
def test_any_bytes_are_read_or_refused_in_a_line(name, content):
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / name
        target.write_bytes(content)
        try:
            read(target, Path(folder) / "tables")
        except NoisyirError as error:
            assert "\n" not in str(error)[:-1].rstrip() or str(target) in str(error)


OPENED: list[tuple[str, object]] = []
sys.addaudithook(lambda event, given: OPENED.append((str(given[0]), _account.get())) if event == "open" else None)


@pytest.mark.parametrize(("kind", "name"), WRITTEN)
@settings(max_examples=1, deadline=None)
@given(collections())
def test_each_file_is_read_once(kind, name, collection):
    """By ingest, but for glances at first rows, which have an account of their own."""
    with tempfile.TemporaryDirectory() as folder, lenient() as account:
        target = Path(folder) / name
        Format.of_kind(kind).write(collection, target)
        source = Format.parse(recognise(str(target))).open()
        OPENED.clear()
        kinds = {type(record) for record in one_by_one(source.records())}
        opened = Counter(path for path, by in OPENED if path.startswith(folder) and by is account)
        assert {Document, Query, Judgement} <= kinds
        assert set(opened.values()) <= {1}, opened
