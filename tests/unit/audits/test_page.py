"""The audit page's text: what it shows, and that data stays data."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pyarrow as pa
import pytest

from noisyir.audits.page import json_for_html, worst_sources
from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from tests.unit.stages.audit_world import audit_tables, judged_as

SPICE = "</script><script>alert(1)</script> <!-- \"double\" 'single' & <b>"


class Outline(HTMLParser):
    """Tags, attributes, and the text of each script, as a browser would part them."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.scripts = [], [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags and self.tags[-1] == "script" and self.cdata_elem:
            self.scripts[-1] += data


@pytest.fixture
def page(run_stage_on):
    def page(tables, **params):
        return (run_stage_on(AUDIT, AuditParams(**params), tables)["audit_files"] / "audit.html").read_text()

    return page


def test_texts_stay_texts(page):
    text = page(audit_tables(60, spice=SPICE), title=SPICE)
    parsed = Outline(text)
    assert parsed.tags.count("script") == 2 and "b" not in parsed.tags
    assert SPICE not in text
    data = json.loads(parsed.scripts[0])
    assert all(query.endswith(SPICE) for query in data["rows"]["query"])
    assert all(document.endswith(SPICE) for document in data["documents"]["text"])
    assert not any(name.startswith("on") for name, _ in parsed.attributes)


def test_only_the_pages_own_script_may_run_and_nothing_is_fetched(page):
    text = page(audit_tables(60))
    parsed = Outline(text)
    digest = base64.b64encode(hashlib.sha256(parsed.scripts[1].encode()).digest()).decode()
    (policy,) = [value for name, value in parsed.attributes if name == "content" and "default-src" in value]
    assert policy.startswith(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'")
    assert not {"link", "img", "iframe", "form action"} & set(parsed.tags)
    assert "http://" not in text and "https://" not in text and "@import" not in text


def test_json_cannot_leave_its_element():
    value = {"a": SPICE, "b": "<!--<script>"}
    assert "<" not in json_for_html(value)
    assert json.loads(json_for_html(value)) == value


def test_the_summary_gives_rate_interval_flags_and_what_is_left_out(page):
    text = re.sub(r"\s+", " ", page(audit_tables(90), html_rows=20))
    assert "90 training pairs of 90 queries" in text and "a collection of 90 documents" in text
    assert (
        "Not known without judgements" in text
        and "noisyir audit FILE --judge" in text
        and "judge 50 pairs to know it" in text
    )
    assert "<dt>If wrong pairs have random documents</dt><dd>33 % [32, 35]; the scores agree with that</dd>" in text
    assert "<dt>If they have any of these</dt><dd>32 to 35 %</dd>" in text
    assert "<strong>30</strong>" in text and "33.3 % of the pairs" in text
    assert "20 most suspect pairs; audit.csv has the other 70, too." in text
    assert "<noscript>" in text and "needs JavaScript" in text
    assert len(json.loads(Outline(text).scripts[0])["rows"]["query_id"]) == 20


def test_judgements_are_said_with_their_number_and_their_rate(page, tmp_path):
    tables = audit_tables(90)
    said = [(f"q{n}", f"d{n if n % 3 else n + 1}", "clean" if n % 3 else "wrong") for n in range(0, 40, 2)]
    # One verdict on either side of the border is against it: what people say of single pairs does not move the border.
    said += [("q41", "d41", "wrong"), ("q45", "d46", "clean")]
    path = judged_as(tmp_path / "said.csv", [(*row, "4") for row in said])
    text = page(tables, judgements=path)
    plain = re.sub(r"\s+", " ", text)
    rate, low, high = map(
        float, re.search(r"<strong>([\d.]+) %</strong>.*?between ([\d.]+) and ([\d.]+) %", plain).groups()
    )
    assert low < rate < high and (low, high) != (32.0, 35.0)
    assert "% (95 % interval), by 22 judgements</span>" in plain
    assert "22 verdicts are people's. The other verdicts are learnt from these" in plain
    assert text.count('class="limit"') == page(tables).count('class="limit"') == 2
    assert "by 22 judgements" not in page(tables) and "no person has judged them" in page(tables)
    before, after = (json.loads(Outline(made).scripts[0]) for made in (page(tables), text))
    assert before["id"] == after["id"], "verdicts that the browser keeps are for the pairs, whatever their order"
    assert before["rows"]["query_id"] != after["rows"]["query_id"]
    wrong = [verdict == "wrong" for verdict in after["rows"]["verdict"]]
    assert wrong == sorted(wrong, reverse=True) and f"<strong>{sum(wrong)}</strong>" in text
    assert after["rows"]["reason"][:8] == ["Judged wrong by hand."] * 8


def test_each_document_is_in_the_page_once_and_only_if_shown(page):
    data = json.loads(Outline(page(audit_tables(90), html_rows=20)).scripts[0])
    ids = data["documents"]["id"]
    assert len(ids) == len(set(ids)) <= 40
    shown = {ids[number] for number in data["rows"]["document"]}
    beside = {ids[number] for better in data["rows"]["better"] for number, _ in better}
    assert shown | beside == set(ids)


def test_columns_without_values_and_a_single_source_are_left_out(page):
    tables = audit_tables(30, sources=1)
    del tables["competitors"]
    text = page(tables)
    assert '<th scope="col" data-key="rank"' not in text and '<th scope="col" data-key="source"' in text
    assert 'id="sources"' not in text and 'id="source"' not in text
    assert '<th scope="col" data-key="source"' not in page(audit_tables(30, sources=0))


def test_equal_input_gives_equal_bytes(page):
    assert page(audit_tables(60)) == page(audit_tables(60))


def test_small_sources_do_not_lead_by_chance():
    counts = {"one bad": (1, 1), "large": (100, 60), "middle": (10, 7), "clean": (50, 0)}
    rows = [
        (name, "wrong" if n < wrong else "clean") for name, (size, wrong) in counts.items() for n in range(size)
    ] + [(None, "wrong")]
    found = worst_sources(pa.table(dict(zip(("source", "verdict"), zip(*rows, strict=True), strict=True))))
    assert [row["source"] for row in found] == ["large", "middle", "one bad", "clean"]
    assert found[0]["share"] == 0.6 and found[0]["pairs"] == 100 and found[-1]["low"] == 0
