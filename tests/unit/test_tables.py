"""The tables of README and docs are what their records say, and a record is whole."""

import json

import pytest

from bench import tables

SHOWN = [(page, name) for page in tables.pages() for name in tables.names(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", list(tables.pages()), ids=lambda page: page.name)
def test_a_page_is_what_its_records_say(page):
    text = page.read_text(encoding="utf-8")
    assert tables.written(text) == text, "python -m bench.tables writes it"
    assert text.count("<!-- results:") == text.count("<!-- end of results -->") == len(tables.names(text))


def test_every_record_is_shown_and_says_what_was_run():
    assert {path.stem for path in tables.RECORDS.glob("*.json")} == {name for _, name in SHOWN}
    for _, name in SHOWN:
        known = tables.read(name)
        assert {"claim", "command", "commit", "machine", "packages", "when", "table"} <= known.keys()
        assert known["claim"] and len(known["commit"]) == 40
        assert len({len(row) for row in known["table"]}) == 1


def test_what_is_between_the_marks_is_replaced_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    tables.record("made", [["method", "mean"], ["npc", "0.5"]], left=1, claim="NPC has 0.5.")
    page = "before\n<!-- results: made -->\nold | table\n<!-- end of results -->\nafter\n"
    shown = "| method | mean |\n| :-- | --: |\n| npc | 0.5 |\n"
    assert tables.written(page) == page.replace("old | table\n", shown)
    assert tables.written(tables.written(page)) == tables.written(page)
    assert json.loads((tmp_path / "made.json").read_text())["table"][1] == ["npc", "0.5"]
