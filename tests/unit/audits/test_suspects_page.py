"""The page's part about candidates for negatives: what it shows, and that data stays data."""

import csv
import json
import re

import pytest

from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.base.errors import ConfigError
from noisyir.data.formats.pairs import Pairs
from noisyir.detection.spreadsheets import unguard
from tests.refusals import refuses
from tests.unit.audits.test_page import SPICE, Outline
from tests.unit.stages.audit_world import audit_tables
from tests.unit.stages.suspects_world import COPY, suspect_tables


@pytest.fixture
def made(run_stage_on):
    """The files of an audit with suspects."""

    def made(spice="", drawn=True, **params):
        tables = suspect_tables(spice=spice, drawn=drawn)
        audited = AuditParams(**params)
        found = run_stage_on(AUDIT_NEGATIVES, audited.suspects(), tables)
        given = audit_tables(6, spice=spice) | {"corpus": tables["corpus"]}
        return run_stage_on(AUDIT, audited, given | found)["audit_files"]

    return made


def test_the_section_counts_what_each_judge_does_not_keep(made):
    text = re.sub(r"<[^>]*>", " ", (made() / "audit.html").read_text().split('<section id="negatives">')[1])
    plain = re.sub(r"\s+", " ", text.split("noscript")[0])
    assert "cross_encoder 4 2 50.0 % 0 sieve 19 2 10.5 % 1 at least one of them 19 3 15.8 % 1" in plain
    assert "Training was nevertheless given 1 of the 3 as negatives." in plain


def test_without_negatives_nothing_is_said_of_drawing(made):
    text = (made(drawn=False) / "audit.html").read_text()
    assert "drawn as negatives" not in text and 'scope="col" data-key="used"' not in text and "nevertheless" not in text


def test_without_suspects_page_and_files_are_those_of_pairs_alone(run_stage_on):
    files = run_stage_on(AUDIT, AuditParams(), audit_tables(6))["audit_files"]
    text = (files / "audit.html").read_text()
    assert 'id="negatives"' not in text and "negatives-" not in text and "Candidates" not in text
    assert {path.name for path in files.iterdir()} == {"audit.html"}
    assert "negatives" not in json.loads(Outline(text).scripts[0])


def test_texts_stay_texts(made):
    text = (made(spice=SPICE) / "audit.html").read_text()
    parsed = Outline(text)
    assert parsed.tags.count("script") == 2 and "b" not in parsed.tags and SPICE not in text
    data = json.loads(parsed.scripts[0])
    assert all(query.endswith(SPICE) for query in data["negatives"]["query"])
    shown = [data["documents"]["id"][number] for number in data["negatives"]["document"]]
    assert shown == [COPY, "d2", "d2"]
    assert not any(name.startswith("on") for name, _ in parsed.attributes)
    assert "http://" not in text and "https://" not in text


def test_the_csv_has_every_suspect_and_no_formula(made):
    path = made(spice="x", text_chars=20) / "negatives.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["query_id"], row["doc_id"]) for row in rows] == [("q0", COPY), ("q1", "d2"), ("q0", "d2")]
    assert json.loads(rows[0]["judges"]) == ["cross_encoder", "sieve"] and rows[1]["used"] == "true"
    assert {len(unguard(row["document"])) for row in rows} == {20}


def test_the_surest_are_a_file_of_pairs_that_is_read_back_as_it_is_meant(made, tmp_path):
    text = '=1+1, "quoted"\r\nand more'
    files = made(spice=text, promote=0.8)
    pairs = Pairs(path=str(files / "extra_positives.jsonl")).open()
    found = [(one.query_id, document.doc_id, document.title) for one, document in pairs.right_pairs()]
    assert found == [("q0", COPY, "Topic 0"), ("q1", "d2", "Topic 2")]
    assert all(one.query.endswith(text) and one.split == "train" for one, _ in pairs.right_pairs())
    assert all(document.text.endswith(text) for _, document in pairs.right_pairs())
    assert "The 2 of confidence 0.8 or more are in extra_positives.jsonl" in (files / "audit.html").read_text()
    assert not (made(promote=0.95) / "extra_positives.jsonl").exists()


def test_one_table_without_the_other_is_refused(run_stage_on):
    found = run_stage_on(AUDIT_NEGATIVES, AuditParams().suspects(), suspect_tables())
    with refuses(ConfigError, "audits.negatives_without_judges"):
        run_stage_on(AUDIT, AuditParams(), audit_tables(6) | {"audit_judges": found["audit_judges"]})
