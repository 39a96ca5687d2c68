"""Run, import and check have one rule for each record: what ends a run is left out by an import and found by check."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from noisyir.base.errors import DataError
from noisyir.data.checked_records import CheckedRecords
from noisyir.data.checking import check
from noisyir.data.importing import take_in
from noisyir.data.ingesting import IngestedRecords
from noisyir.data.leniency import row
from noisyir.data.records import Document, Judgement, Negative, Query, SingleRecord
from noisyir.data.settings import RecordParams
from tests.refusals import refuses

PLACE = "x line"
DOCUMENT = Document("d", "", "a text of some words", PLACE, 1)
QUERY = Query("q", "who sat there?", (), PLACE, 2)
JUDGEMENT = Judgement("q", "d", 1, "test", None, PLACE, 3)
SOUND = (DOCUMENT, QUERY, JUDGEMENT)
FAULTS = {
    "a document's id again": (
        DOCUMENT._replace(text="another text", number=9),
        "data.repeated_document_id",
        "document id that occurs again",
        "ids.twice",
    ),
    "its line in another file": (
        DOCUMENT._replace(where="y line"),
        "data.repeated_document_id",
        "document id that occurs again",
        "ids.twice",
    ),
    "a query's id again": (
        QUERY._replace(text="who ran there?"),
        "data.repeated_query_id",
        "query id that occurs again",
        "ids.twice",
    ),
    "no id": (DOCUMENT._replace(doc_id=" "), "data.empty_id", "document without an id", "rows"),
    "no text": (DOCUMENT._replace(doc_id="e", text=" "), "data.empty_text", "document without text", "texts.empty"),
    "an unknown query": (
        JUDGEMENT._replace(query_id="r"),
        "data.unknown_query",
        "a query that is not there",
        "ids.queries",
    ),
    "an unknown document": (
        JUDGEMENT._replace(doc_id="e"),
        "data.unknown_documents",
        "a document that is not there",
        "ids.documents",
    ),
    "an unknown document of a negative": (
        Negative("q", "e", None, PLACE, 9),
        "data.unknown_document_of_negative",
        "a document that is not there",
        "ids.documents",
    ),
    "another split": (
        JUDGEMENT._replace(split="dev", number=9),
        "data.two_splits",
        "a query that is in split test, too",
        "leaks.splits",
    ),
}


@dataclass(frozen=True)
class Given:
    """A source of given records, each in a row of its own."""

    given: Sequence[SingleRecord]
    name: str = "given"

    def digest(self) -> str:
        return ""

    def records(self) -> Iterator[SingleRecord]:
        for record in self.given:
            with row(record.where, record.number):
                yield record

    def facts(self) -> dict[str, object]:
        return {}


def ingested(*records: SingleRecord, may_repeat: bool = False) -> IngestedRecords:
    found = IngestedRecords("given", RecordParams(), may_repeat=may_repeat)
    for _ in found.documents(Given(records).records()):
        pass
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_ends_a_run_is_left_out_by_an_import_and_found_by_check(tmp_path: Path, fault: str):
    record, code, reason, finding = FAULTS[fault]
    with refuses(DataError, code):
        ingested(*SOUND, record)
    source = Given((*SOUND, record))
    account = take_in(source, tmp_path).account
    assert [*account.of(record.where).left_out] == [reason]
    assert finding in {found.name for found in check(CheckedRecords.read(source))}


@pytest.mark.parametrize(("relevance", "found"), [(1, "repeats.rows"), (0, "conflicts")])
def test_a_pair_again_counts_once_for_all_three(tmp_path: Path, relevance: int, found: str):
    again = JUDGEMENT._replace(relevance=relevance, number=9)
    with refuses(DataError, "data.repeated_judgement", first=3):
        ingested(*SOUND, again)
    run = ingested(*SOUND, again, may_repeat=True)
    assert run.repeated == 1 and run.tables()["qrels"]["relevance"].to_pylist() == [1]
    source = Given((*SOUND, again))
    imported = take_in(source, tmp_path)
    assert imported.account.of(PLACE).repeated.first == [9] and imported.rows["judgements"] == 1
    assert bool(imported.odd) == (relevance == 0)
    assert found in {one.name for one in check(CheckedRecords.read(source))}


def test_a_pair_of_a_text_that_is_left_out_is_left_out_too(tmp_path: Path):
    empty = DOCUMENT._replace(doc_id="e", text="", number=7)
    records = (*SOUND, empty, JUDGEMENT._replace(doc_id="e", number=8))
    found = IngestedRecords("given", RecordParams(on_empty="exclude"))
    assert [part["doc_id"].to_pylist() for part in found.documents(records)] == [["d"]]
    assert found.tables()["excluded"]["reason"].to_pylist() == ["no text", "its document is left out"]
    reasons = take_in(Given(records), tmp_path).account.of(PLACE).left_out
    assert [*reasons] == ["document without text", "a document that is not there"]
