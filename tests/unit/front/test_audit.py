"""The audit from Python: the command line's result, no rate without judgements, and cures that can be typed."""

import json

import pandas as pd
import pyarrow as pa
import pytest

import noisyir
from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.stage import Observer
from noisyir.engine.store import open_store
from tests.refusals import refuses
from tests.unit.front.conftest import CHEAP, WRONG


def wrong_queries(pairs):
    return {pairs[number]["query"] for number in WRONG}


def test_the_wrong_pairs_come_first(found, pairs):
    assert found.table.num_rows == len(pairs)
    assert set(found.table["query"][:3].to_pylist()) == wrong_queries(pairs)
    assert found.flagged.num_rows == sum(verdict == "wrong" for verdict in found.table["verdict"].to_pylist())


def test_it_is_the_command_lines_audit_to_the_bit(found, pairs, tmp_path, capsys):
    from noisyir.front.cli import main

    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in pairs))
    detectors = f"detectors={json.dumps(CHEAP['detectors'])}"
    assert main(["audit", str(path), detectors, "--out", str(tmp_path / "out")]) == 0
    import pyarrow.parquet as pq

    by_command = pq.read_table(tmp_path / "out" / "audit.parquet")
    assert by_command.to_pylist() == found.table.to_pylist()
    assert str(found).splitlines()[0].split()[1:] == capsys.readouterr().out.splitlines()[0].split()[1:]


def test_a_call_twice_makes_nothing_again(found, pairs):
    before = len(open_store(None).builds.all())
    again = noisyir.audit(pd.DataFrame(pairs), settings=CHEAP)
    assert len(open_store(None).builds.all()) == before
    assert again.table.equals(found.table)


def test_the_judgements_of_a_test_split_are_audited_and_not_applied(pairs):
    """A third of the pairs are those of the test split: these are audited, and a repeated row is told."""
    rows = [{**row, "split": "test" if number % 3 == 0 else "train"} for number, row in enumerate(pairs)]
    found = noisyir.audit([*rows, rows[0]], settings=CHEAP, split="test")
    asked = [row["query"] for row in rows if row["split"] == "test"]
    assert sorted(found.table["query"].to_pylist()) == sorted(asked)
    assert pairs[3]["query"] in found.table["query"].to_pylist()[:2], "the wrong one of them"
    assert "12 relevant judgements of test" in str(found) and "1 repeated row left out" in str(found)
    with refuses(ConfigError, "app.held_out_unchanged", asked="apply()", audited="test"):
        found.judged(judged(found, pairs, 12)).apply(force=True)


def test_without_judgements_there_is_no_rate_but_what_is_assumed(found):
    assert found.rate.value is None
    assert (found.rate.judged, 0 <= found.rate.low <= found.rate.high <= 1) == (0, True)
    assert found.rate.assumed[0].startswith("if wrong pairs have ")
    assert str(found.rate).startswith("not known without judgements")


def judged(found, pairs, size):
    sample = found.sample(size).to_pandas()
    sample["verdict"] = ["wrong" if query in wrong_queries(pairs) else "clean" for query in sample["query"]]
    return sample


def test_a_judged_sample_gives_the_rate_with_an_interval(found, pairs):
    sample = found.sample(24)
    assert sample.equals(found.sample(24))
    assert set(sample["verdict"].to_pylist()) == {None}
    assert not {"score", "p_clean"} & set(sample.column_names)  # which would sway the judge
    rate = found.judged(judged(found, pairs, 24)).rate
    assert rate.judged == 24
    assert rate.low <= len(WRONG) / len(pairs) <= rate.high < 0.5
    assert rate.low <= rate.value <= rate.high
    assert "by 24 judged" in str(rate)


def test_verdicts_add_up(found, pairs):
    rows = judged(found, pairs, 24)
    in_two = found.judged(rows[:12]).judged(rows[12:])
    assert in_two.table.equals(found.judged(rows).table)


def test_what_is_applied_is_judged_first_and_the_cure_that_is_named_works(found, pairs, tmp_path):
    with refuses(ConfigError, "app.rate_unknown") as error:
        found.apply()
    assert "--" not in str(error.value)
    known = found.judged(judged(found, pairs, 24))
    cleaned = known.apply(tmp_path / "cleaned")
    assert cleaned.pairs.column_names == ["query", "document", "weight"]
    assert cleaned.pairs.num_rows == len(pairs)
    assert {change["action"] for change in cleaned.changes} <= {"weigh", "relabel"}
    assert cleaned.path.exists() and cleaned.log.exists()
    again = known.apply()
    assert (again.pairs.equals(cleaned.pairs), again.path) == (True, None)


def test_too_small_a_sample_is_refused_unless_forced(found, pairs):
    few = found.judged(judged(found, pairs, 5))
    with refuses(ConfigError, "app.sample_too_small", force="force=True"):
        few.apply()
    assert few.apply(force=True).pairs.num_rows == len(pairs)


def test_the_page_and_the_notebooks_cell(found, tmp_path):
    page = found.page(tmp_path / "new" / "page.html")
    assert "<html" in page.read_text()
    assert "<table>" in found._repr_html_()
    assert repr(found).startswith("<Audit of 36 pairs")


def test_columns_are_mapped_and_documents_may_come_apart(pairs):
    texts = {f"d{number}": row["document"] for number, row in enumerate(pairs)}
    rows = pa.table({"ask": [row["query"] for row in pairs], "which": list(texts)})
    found = noisyir.audit(rows, texts, columns={"query": "ask", "doc_id": "which"}, settings=CHEAP)
    assert set(found.table["query"][:3].to_pylist()) == wrong_queries(pairs)


def test_errors_are_the_packages_own_lines(pairs, found):
    with refuses(DataError, "data.unclear_columns"):
        noisyir.audit([{"a": 1, "document": "b"}])
    with pytest.raises(ConfigError, match="did you mean"):
        noisyir.audit(pairs, settings={"detect.treshold": 0.5})
    with refuses(ConfigError, "methods.unwritable_setting", name="detect.threshold"):
        noisyir.audit(pairs, settings={"detect.threshold": {1}})
    with refuses(DataError, "detection.bad_verdict"):
        found.judged([("a", "b", "perhaps")])


def test_progress_is_a_line_in_a_notebook_and_silence_in_a_script(monkeypatch):
    import sys
    from types import SimpleNamespace

    from noisyir.front.api.running import Notebook, progress_for

    with progress_for(True) as observer:
        assert type(observer) is Observer  # standard error is no terminal here
    said = []
    line = SimpleNamespace(update=lambda data, raw: said.append(data["text/plain"]))
    kernel = SimpleNamespace(
        get_ipython=lambda: SimpleNamespace(kernel=1), display=SimpleNamespace(display=lambda *a, **k: line)
    )
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    step = SimpleNamespace(name="detect")
    with progress_for(True) as observer:
        assert type(observer) is Notebook
        observer.started(step)
        observer.progress(step, 5, 10, "pairs")
        observer.finished(step, None, True)
    assert said == ["detect ...", "detect: 5 of 10 pairs", "1 steps done, the last detect (cached)"]
    with progress_for(False) as observer:
        assert type(observer) is Observer
