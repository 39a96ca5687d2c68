"""Two systems of a run, compared by labels that people correct: the sheet, the page, and what is written."""

import csv
import json
import re
import shlex
from html import unescape
from pathlib import Path

import numpy as np
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.store import Store
from tests.refusals import refuses
from tests.tiny import SETTINGS


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def run(collection):
    """The command that runs the experiment; a second run finds everything in the store."""
    given = [f"data.path={collection}", f"model.weights={collection / 'words'}", "methods=[dpr]", "noise=null"]
    return ("run", "demo", *SETTINGS, *given, "hybrid=null", "detectors={b: bm25_margin}", "--no-track")


@pytest.fixture
def ran(noisyir, run):
    """The command that compares, after the run."""
    code, _, err = noisyir(*run)
    assert code == 0, err
    return ("compare", "demo:bm25", "demo:dpr", "--corrected")


def filled(sheet, verdict):
    """The sheet's rows, each with a verdict, written back."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for number, row in enumerate(rows):
        row["verdict"] = verdict(number)
    with sheet.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(rows)
    return rows


def test_a_sheet_corrects_the_labels(noisyir, ran, tmp_path):
    pools = tmp_path / "pools"
    page = tmp_path / "ruler.html"
    code, out, err = noisyir(*ran, pools, "--json", "--sample", 30, "--html", page)
    assert code == 0 and "<svg" not in page.read_text(), err
    before = json.loads(out)
    measured = json.loads(noisyir(*ran[:3], "--json")[1])["measures"]
    labels = {(row["measure"], row["system"].split(":")[1]): row["by labels"] for row in before["rows"]}
    for one in measured:
        if one["measure"] == "nDCG@10" and one["split"] == "test":
            assert [labels["nDCG@10", name] for name in ("bm25", "dpr")] == [
                f"{one['first']:.3f}",
                f"{one['second']:.3f}",
            ]
    assert all(row["corrected"] == "" for row in before["rows"]) and "judge is right" in before["told"][0]
    rows = filled(pools / "sample.csv", lambda number: ("right", "wrong", "unsure")[number % 3])
    assert len(rows) == 30 and all(row["query"] and row["document"] for row in rows)
    code, out, err = noisyir(*ran, pools, "--json", "--html", page)
    after = json.loads(out)
    assert after["told"][0] in page.read_text() and "<svg" in page.read_text()
    assert code == 0 and all("[" in row["95 % interval"] for row in after["rows"]), err
    assert "corrected by 30 judgements" in after["told"][0]
    assert (pools / "sample.csv").read_text(encoding="utf-8").count("unsure") == 10  # never written over
    said = {(row["query_id"], row["doc_id"]): row["verdict"] for row in rows}
    log = [json.loads(line) for line in (pools / "mended.jsonl").read_text().splitlines()]
    assert log and all(said[row["query_id"], row["doc_id"]] == ("right" if row["is"] else "wrong") for row in log)
    lines = [line.split() for line in (pools / "mended.qrels").read_text().splitlines()]
    mended = {(query, doc): int(grade) for query, _, doc, grade in lines}
    assert all(mended[row["query_id"], row["doc_id"]] == row["is"] for row in log)


def test_what_is_known_before_and_a_judge_are_given_once(noisyir, ran, tmp_path):
    noisyir(*ran, tmp_path / "first", "--sample", 12)
    rows = filled(tmp_path / "first" / "sample.csv", lambda number: "wrong")
    chances = tmp_path / "chances.jsonl"
    chances.write_text("".join(json.dumps({**row, "chance": 0.3}) + "\n" for row in rows))
    given = ("--judgements", tmp_path / "first" / "sample.csv", "--chances", chances)
    code, out, err = noisyir(*ran, tmp_path / "second", *given, "--json", "--sample", 12)
    assert code == 0 and "corrected by 12 judgements" in json.loads(out)["told"][0], err
    with (tmp_path / "second" / "sample.csv").open(encoding="utf-8-sig", newline="") as file:
        asked = {(row["query_id"], row["doc_id"]) for row in csv.DictReader(file)}
    assert len(asked) == 12 and not asked & {(row["query_id"], row["doc_id"]) for row in rows}
    filled(tmp_path / "second" / "sample.csv", lambda number: "right")
    assert noisyir(*ran, tmp_path / "second")[0] == 0
    log = [json.loads(line) for line in (tmp_path / "second" / "mended.jsonl").read_text().splitlines()]
    assert {row["is"] for row in log if row["was"] is None} == {0, 1}  # verdicts from before, and of the sheet
    code, _, err = noisyir(*ran, tmp_path / "second", *given)
    assert code == 1 and "keeps a drawing already" in err


def test_the_page_asks_for_what_is_drawn(ran, home, tmp_path, monkeypatch):
    from noisyir.app import correcting

    store, asked = Store(home / "store", home=home), []

    def serve(session, folder, summary, announce):
        for _ in range(50):
            (shown,) = session.next_pairs()
            asked.append((shown.query_id, shown.document.doc_id))
            session.answer(asked[-1], "clean")
        session.finish()
        assert "corrected by" in summary()

    monkeypatch.setattr(correcting, "serve_page", serve)
    pools = tmp_path / "pools"
    found = correcting.ruler(store, ran[1:3], pools)
    correcting.judge_on_page(store, found, pools)
    assert [found.pool.pairs[row] for row in found.open_rows(25)[:50]] == asked
    again = correcting.ruler(store, ran[1:3], pools)
    assert set(again.said) == set(asked) and (again.judged > 0).sum() == 50
    assert not any(one.tells_of_others for one in again.said.values()), "an audit's share needs another drawing"
    assert not {*asked} & {again.pool.pairs[row] for row in again.open_rows(25)}


def test_a_drawing_of_other_systems_is_refused(ran, home, tmp_path):
    from noisyir.app import correcting

    store = Store(home / "store", home=home)
    correcting.ruler(store, ran[1:3], tmp_path)
    assert correcting.ruler(store, ("demo:zero_shot", "demo:bm25"), tmp_path).pool.named[0] == "demo:zero_shot"
    tables = dict(np.load(tmp_path / "drawing.npz"))
    np.savez(tmp_path / "drawing.npz", **tables | {"systems": tables["systems"][::-1]})
    with refuses(DataError, "app.other_pools", systems="demo:zero_shot, demo:dpr, demo:bm25"):
        correcting.ruler(store, ran[1:3], tmp_path)
    with refuses(ConfigError, "app.drawn_already"):
        np.savez(tmp_path / "drawing.npz", **tables)
        chances = tmp_path / "chances.csv"
        chances.write_text("query_id,doc_id,chance\nq1,d1,0.5\n")
        correcting.ruler(store, ran[1:3], tmp_path, chances=str(chances))


@pytest.mark.parametrize(
    ("text", "code", "values"),
    [("query_id,doc_id\nq,d\n", "app.chances_lack_columns", {"columns": "query_id, doc_id"}),
     ("query_id,doc_id,chance\nq,d,2\n", "app.bad_chance", {"column": "chance"}),
     ("query_id,doc_id,p_clean\nq,d,much\n", "app.bad_chance", {"value": "much"})],
)  # fmt: skip
def test_chances_that_are_none_are_refused(text, code, values, tmp_path):
    from noisyir.app.correcting import given_chances

    path = tmp_path / "chances.csv"
    path.write_text(text)
    with refuses(DataError, code, **values):
        given_chances(str(path))


def test_options_of_the_ruler_need_its_folder(noisyir, ran):
    code, _, err = noisyir(*ran[:3], "--judge")
    assert code == 1 and "--corrected pools" in err


def shown(noisyir, monkeypatch, name="demo"):
    """The page of an experiment's last run."""
    monkeypatch.setattr("webbrowser.open", lambda address: None)
    return Path(noisyir("show", name, "--page")[1].strip()).read_text(encoding="utf-8")


def advised(page):
    """The command that the page has for judging, and the setting that shows what comes of it."""
    command = re.search(r'<pre class="code">(noisyir compare .*?)</pre>', page)[1]
    return shlex.split(unescape(command)), unescape(re.search(r"<code>(report\.corrected=.*?)</code>", page)[1])


def in_favour_of_dpr(home, names, folder):
    """Judge the sheet: right is what dpr has among its first five and BM25 has not."""
    from noisyir.app import correcting

    tops = correcting.ruler(Store(home / "store", home=home), names, folder).pool.tops
    found, others = ({(q, doc) for q, docs in tops[name].items() for doc in docs[:5]} for name in names[::-1])
    with (folder / "sample.csv").open(encoding="utf-8-sig", newline="") as file:
        right = [(row["query_id"], row["doc_id"]) in found - others for row in csv.DictReader(file)]
    return filled(folder / "sample.csv", lambda number: "right" if right[number] else "wrong")


def test_the_report_asks_people_and_then_has_both_values(noisyir, run, ran, home, tmp_path, monkeypatch):
    """The command on the page works when typed; its folder gives the report a section, and other runs' reports none."""
    monkeypatch.chdir(tmp_path)
    typed, setting = advised(shown(noisyir, monkeypatch))
    code, _, err = noisyir(*run, setting)
    assert code == 1 and "nobody has judged the pools in demo-pools" in err and "demo-pools/sample.csv" in err
    assert noisyir(*typed[1:])[0] == 0
    assert noisyir(*run, setting)[0] == 1, "nothing is judged yet"
    rows = in_favour_of_dpr(home, typed[2:4], tmp_path / "demo-pools")
    compared = json.loads(noisyir(*typed[1:], "--json")[1])

    assert noisyir(*run, setting)[0] == 0
    page = unescape(shown(noisyir, monkeypatch))
    section = page[page.index('id="corrected"') : page.index('id="training"')]
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", section)
    words = {"demo:bm25": "BM25", "demo:dpr": "dpr", "demo:zero_shot": "the untrained model"}
    assert cells == [words.get(cell, cell) for row in compared["rows"] for cell in row.values()] and "[" in cells[5]
    (turned,) = [said for said in compared["told"] if said.startswith("Judgements change the order: ")]
    assert "demo:dpr is above demo:bm25" in turned and "dpr is above BM25" in section
    assert "dpr is above BM25" in page[: page.index("<nav")] and "noisyir compare" not in page
    before = len(Store(home / "store", home=home).builds.of_key("report", "*"))
    assert noisyir(*run, setting)[0] == 0
    filled(tmp_path / "demo-pools" / "sample.csv", lambda number: rows[number]["verdict"] if number else "unsure")
    assert len(Store(home / "store", home=home).builds.of_key("report", "*")) == before, "nothing was made again"
    assert noisyir(*run, setting)[0] == 0
    assert len(Store(home / "store", home=home).builds.of_key("report", "*")) == before + 1

    code, _, err = noisyir(*run, "name=other", setting)
    assert code == 1 and "report.corrected=null" in err and "other:bm25" in err
    assert noisyir(*run, "name=other", "report.corrected=null")[0] == 0
    typed, _ = advised(shown(noisyir, monkeypatch, "other"))
    assert typed[2:4] == ["other:bm25", "other:dpr"] and noisyir(*typed[1:])[0] == 0


def test_an_audit_of_the_test_split_takes_the_verdicts_of_pools(noisyir, ran, home, collection, tmp_path, monkeypatch):
    """Verdicts on labels are the audit's own; the labels are mended as the comparison mends them."""
    monkeypatch.chdir(tmp_path)
    noisyir(*ran, tmp_path / "pools")
    rows = in_favour_of_dpr(home, ran[1:3], tmp_path / "pools")
    assert noisyir(*ran, tmp_path / "pools")[0] == 0
    before = (collection / "qrels/test.tsv").read_bytes()
    given = ["detectors={b: bm25_margin}", "bm25_index.engine=bm25s", "--split", "test"]
    code, out, err = noisyir("audit", collection, *given, "--judgements", "pools/sample.csv", "--out", "audited")
    assert code == 0, err
    labels = {tuple(line.split()[:2]) for line in before.decode().splitlines()[1:]}
    said = {(row["query_id"], row["doc_id"]): {"right": "clean"}.get(row["verdict"], "wrong") for row in rows}
    with (tmp_path / "audited" / "audit.csv").open(encoding="utf-8-sig", newline="") as file:
        judged = {(row["query_id"], row["doc_id"]): row["judged"] for row in csv.DictReader(file) if row["judged"]}
    assert judged == {pair: said[pair] for pair in said if pair in labels} and 0 < len(judged) < len(said)
    assert f"judged      {len(judged)} pairs" in out and "carry no weight" in out and "audited/mended.qrels" in out
    for name in ("mended.qrels", "mended.jsonl"):
        pairs = [sorted((tmp_path / folder / name).read_text().splitlines()) for folder in ("audited", "pools")]
        assert pairs[0] == pairs[1]
    log = [json.loads(line) for line in (tmp_path / "audited" / "mended.jsonl").read_text().splitlines()]
    assert {(row["was"], row["is"]) for row in log} == {(1, 0), (None, 1), (None, 0)}, "wrong labels, and missing ones"
    assert (collection / "qrels/test.tsv").read_bytes() == before
