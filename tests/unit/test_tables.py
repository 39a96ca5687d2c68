"""The tables of README, docs and benchmarks are what their records say, and a record is whole."""

import json
import re

import pytest

from bench import across, tables

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


@pytest.mark.parametrize("name", ["minilm", "minilm_lower_rate"])
def test_the_table_over_conditions_is_what_its_records_say(name):
    known = tables.read(name)
    read = [tables.read(name) for name in known["records"]]
    assert known["table"] == [list(across.HEAD), *across.rows(read, known["method"])]
    p_values = [row[-1] for row in known["table"][1:]]
    own = [
        row["p_value"]
        for record in read
        for row in record["tests"]
        if (row["method"], row["against"]) == ("reweight", "dpr")
    ]
    assert float(min(p_values)) == pytest.approx(min(own) * len(own), abs=5e-4), "the least p counts every condition"


TABLE = re.compile(r"(?:^\|.*\| *\n)+", re.MULTILINE)
RECORDED = re.compile(r"<!-- results: .*?<!-- end of results -->", re.DOTALL)
NUMBER = re.compile(r"\d*\.\d+|\d+ %")
SETTINGS = "defaults, papers' values and what words mean, not measurements"
OLDER = "typed from records of before benchmarks/ was kept; the page names command and seeds; to be measured anew"
BESIDE = f"the paper's values beside ours, which are {OLDER}"
# Tables with numbers that no record holds: how many a page may have at most, and why.  The figures fall and never rise.
WITHOUT_RECORD = {
    "benchmarks/ar2.md": (2, BESIDE),
    "benchmarks/bench.md": (3, OLDER),
    "benchmarks/distributed.md": (1, OLDER),
    "benchmarks/full_scale.md": (1, "the papers' values"),
    "benchmarks/mining.md": (3, OLDER),
    "benchmarks/noise.md": (9, OLDER),
    "benchmarks/orchestration.md": (1, OLDER),
    "benchmarks/posterior.md": (2, OLDER),
    "benchmarks/readers.md": (3, BESIDE),
    "benchmarks/sentence_transformers.md": (1, OLDER),
    "benchmarks/sieve.md": (1, OLDER),
    "benchmarks/speed_trials.md": (5, OLDER),
    "benchmarks/training.md": (2, OLDER),
    "docs/how-to/protocol.md": (2, SETTINGS),
    "docs/how-to/teachers.md": (1, SETTINGS),
    "docs/record/papers.md": (4, BESIDE),
    "docs/record/results.md": (5, OLDER),
    "docs/reference/data.md": (1, SETTINGS),
    "docs/reference/mining.md": (1, f"{SETTINGS}; {OLDER}"),
    "docs/reference/noise_kinds.md": (1, SETTINGS),
    "docs/reference/training.md": (1, SETTINGS),
    "docs/understand/ar2.md": (1, SETTINGS),
    "docs/understand/methods.md": (1, SETTINGS),
    "docs/understand/rocketqa.md": (1, SETTINGS),
    "docs/understand/scoring.md": (1, OLDER),
    "docs/understand/sieve.md": (2, SETTINGS),
}


@pytest.mark.parametrize("page", list(tables.pages()), ids=lambda page: page.name)
def test_a_table_of_numbers_has_a_record_or_a_reason(page):
    text = RECORDED.sub("", page.read_text(encoding="utf-8"))
    rows = [found[0].splitlines() for found in TABLE.finditer(text)]
    of_numbers = [lines[0] for lines in rows if sum(bool(NUMBER.search(line)) for line in lines[2:]) >= 2]
    most, _ = WITHOUT_RECORD.get(page.relative_to(tables.ROOT).as_posix(), (0, ""))
    assert len(of_numbers) <= most, f"write what was measured to benchmarks/ (benchmarks/README.md): {of_numbers}"
