"""The audit stage: what it says of each pair, the files beside, and what it refuses."""

import csv
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.audits.files import cut, write_csv
from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.base.errors import DataError
from noisyir.base.pages.cells import percent
from noisyir.data.artifacts import PAIRS
from noisyir.detection.artifacts import COMPETITORS
from noisyir.detection.spreadsheets import unguard
from noisyir.training.artifacts import NOISE_FLAGS
from tests.refusals import refuses
from tests.unit.stages.audit_world import audit_tables, judged_as
from tests.world import table


@pytest.fixture
def run(run_stage_on):
    def run(tables, **params):
        return run_stage_on(AUDIT, AuditParams(**params), tables)

    return run


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return [{name: unguard(cell) for name, cell in row.items()} for row in csv.DictReader(file)]


def test_wrong_pairs_come_first_with_what_fits_better_and_why(run):
    rows = run(audit_tables(60))["audit"].to_pylist()
    assert [row["verdict"] for row in rows] == ["suspect"] * 20 + [None] * 40, "nobody judged"
    assert {row["p_clean"] for row in rows} == {row["rests_on"] for row in rows} == {None}
    assert [row["suspicion"] for row in rows] == pytest.approx(np.linspace(1, 0, 60))
    for row in rows[:20]:
        own = "d" + row["query_id"][1:]
        assert (row["better"], row["replacement"], row["rank"]) == ([own], own, 40)
        assert row["better_similarities"] == pytest.approx([0.7])
        said = "The document shares no important word with the query, and 39 others fit better."
        assert row["reason"] == f"{said} Best other: “Topic {own[1:]}”"
    for row in rows[20:]:
        assert row["better"] == [] and row["machine_replacement"] is None
        assert row["reason"] == "The document is found first for its query."
    right = next(row for row in rows if row["query_id"] == "q1")
    assert right["document"].startswith("Topic 1\nSome documents") and right["query"] == "what is topic1 made of"


def test_only_training_pairs_are_audited_by_their_last_epoch(run):
    tables = audit_tables(12)
    first = tables["flags"].set_column(2, "epoch", pa.array([0] * 12, pa.int32()))
    first = first.set_column(5, "is_clean", pc.invert(first["is_clean"])).cast(NOISE_FLAGS.schema)
    dev = table(PAIRS, [("dev", "d3", "dev", None)])
    both = {"flags": pa.concat_tables([first, tables["flags"]]), "pairs": pa.concat_tables([dev, tables["pairs"]])}
    expected = run(tables)["audit"]
    assert run(tables | both)["audit"].equals(expected) and expected.num_rows == 12


def test_without_searching_there_is_no_rank_and_the_reason_speaks_of_words_and_score(run):
    tables = audit_tables(12)
    del tables["competitors"]
    none = run(tables)["audit"]
    empty = run(tables | {"competitors": COMPETITORS.schema.empty_table()})["audit"]
    assert none.equals(empty)
    assert none["rank"].null_count == none["similarity"].null_count == 12
    wrong, *_, right = none.to_pylist()
    assert "shares 2 important words" in right["reason"] and "; 0 % of the pairs are less suspect" in right["reason"]
    assert "shares 1 important word with" in wrong["reason"] and "; 100 % of the pairs are less" in wrong["reason"]


def test_duplicates_are_other_documents_with_the_same_words(run):
    tables = audit_tables(6)
    texts = ["Same words, here!", "same WORDS here", "Same words here.", "other words", "...", "!!!"]
    tables["corpus"] = tables["corpus"].set_column(3, "text", pa.array(texts))
    rows = run(tables)["audit"].to_pylist()
    found = {row["doc_id"]: row["duplicates"] for row in rows}
    assert found == {doc_id: 2 if doc_id in ("d1", "d2") else 0 for doc_id in found}


def test_the_csv_holds_all_rows_and_reads_back(run, tmp_path):
    spice = '=HYPERLINK("http://x","y")'
    tables = audit_tables(20, spice='with, commas "quotes"\nand lines')
    tables["queries"] = tables["queries"].set_column(1, "text", pa.array([f"{spice}{n}" for n in range(20)]))
    out = run(tables)
    write_csv([out["audit"]], tmp_path / "audit.csv")
    text = (tmp_path / "audit.csv").read_text(encoding="utf-8-sig")
    assert '"=HYPERLINK' not in text and "\"'=HYPERLINK" in text
    rows = read_csv(tmp_path / "audit.csv")
    for read, row in zip(rows, out["audit"].to_pylist(), strict=True):
        assert [read[name] for name in ("query", "document", "reason")] == [
            row["query"],
            row["document"],
            row["reason"],
        ]
        assert float(read["score"]) == pytest.approx(row["score"], rel=1e-5)
        assert json.loads(read["better"]) == row["better"]
        assert (read["replacement"] or None) == row["replacement"]


def test_long_texts_are_cut_in_csv_and_page_but_whole_in_the_table(run):
    tables = audit_tables(6)
    tables["corpus"] = tables["corpus"].set_column(3, "text", pa.array(["long " * 1000] * 6))
    out = run(tables, text_chars=100)
    assert {len(text) for text in out["audit"]["document"].to_pylist()} == {len("Topic 1\n") + 5000}
    assert {len(text) for text in cut(out["audit"], 100)["document"].to_pylist()} == {100}
    assert "long " * 21 not in (out["audit_files"] / "audit.html").read_text()


def test_a_sample_to_judge_is_drawn_by_the_seed_and_does_not_tell_the_verdict(run, run_stage_on):
    assert not (run(audit_tables(40))["audit_files"] / "sample.csv").exists()
    one, again, other = (
        read_csv(run_stage_on(AUDIT, AuditParams(sample=20), audit_tables(40), seed=seed)["audit_files"] / "sample.csv")
        for seed in (1, 1, 2)
    )
    assert one == again != other and len({row["query_id"] for row in one}) == 20
    assert list(one[0]) == ["query_id", "doc_id", "query", "document", "verdict", "weight"]
    assert {row["verdict"] for row in one} == {""}
    assert sum(float(row["weight"]) for row in one) == pytest.approx(40)


def test_a_sample_filled_in_by_hand_is_taken_back(run, tmp_path, store):
    """The machine's border is put too high, so that half of the wrong pairs pass; the judge knows better."""
    tables = audit_tables(300)
    flags = tables["flags"].to_pylist()
    border = np.median([row["score"] for row in flags if row["score"] > 3.5])
    late = [
        {**row, "is_clean": row["score"] < border, "p_clean": 0.9 if row["score"] < border else 0.1} for row in flags
    ]
    tables["flags"] = pa.Table.from_pylist(late, schema=NOISE_FLAGS.schema)
    before = run(tables, sample=60)
    sample = read_csv(before["audit_files"] / "sample.csv")
    said = {row["query_id"]: "wrong" if int(row["query_id"][1:]) % 3 == 0 else "clean" for row in sample[:50]}
    said["q1"], said["q4"] = "wrong", "unclear"  # q1 against all evidence
    weights = {row["query_id"]: row["weight"] for row in sample} | {"q1": "5", "q4": "5"}
    judged = [(*pair, said.get(pair[0], ""), weights.get(pair[0], "")) for pair in pairs_of(tables)]
    path = judged_as(tmp_path / "judgements.csv", judged)
    out = run(tables, judgements=path)

    rows = out["audit"].to_pylist()
    keys = [(row["p_clean"], -row["score"]) for row in rows if row["judged"] in (None, "unclear")]
    assert keys == sorted(keys), "the most suspect first, by the new chances"
    assert [row["p_clean"] for row in rows][:1] == [0.0] and rows[-1]["p_clean"] == 1.0
    machine = {row["query_id"]: row for row in before["audit"].to_pylist()}
    assert sum(row["verdict"] == "suspect" for row in machine.values()) == 50
    for row in rows:
        right = "wrong" if int(row["query_id"][1:]) % 3 == 0 else "clean"
        if (verdict := said.get(row["query_id"], "unclear")) != "unclear":
            assert (row["verdict"], row["p_clean"]) == (verdict, float(verdict == "clean"))
            assert row["reason"] == f"Judged {verdict} by hand."
            continue
        assert row["verdict"] == right and 0 < row["p_clean"] < 1
        assert row["replacement"] == ("d" + row["query_id"][1:] if right == "wrong" else None)
        if right == "wrong":
            assert row["reason"].startswith("The document shares no important word with the query, and 39 others")
    (notes,) = [meta.notes for meta in store.builds.all() if meta.stage == "audit" and "judgements" in meta.notes]
    found = notes["judgements"]
    wrong = sum(row["verdict"] == "wrong" for row in rows)
    assert (found["judged"], found["unclear"], found["flagged_before"], found["flagged"]) == (
        len(said) - 1,
        1,
        50,
        wrong,
    )
    rate, low, high = found["interval"]
    assert low < 1 / 3 < high and f"noise rate  {percent(rate, 1)} [" in found["summary"]


def pairs_of(tables):
    return [(row["query_id"], row["doc_id"]) for row in tables["pairs"].to_pylist()]


def test_verdicts_chosen_on_the_page_are_kept_for_their_pairs_alone(run, tmp_path, store):
    tables = audit_tables(300)
    before = {row["query_id"]: row for row in run(tables)["audit"].to_pylist()}
    # the most suspect, marked clean against all evidence; before, three such verdicts took 3,336 flags to 9
    chosen = [(row["query_id"], row["doc_id"], "clean") for row in list(before.values())[:3]]
    chosen += [(row["query_id"], row["doc_id"], "wrong") for row in list(before.values())[3:30]]
    out = run(tables, judgements=judged_as(tmp_path / "page.csv", chosen))
    told = {pair[0]: pair[2] for pair in chosen}
    for row in out["audit"].to_pylist():
        if verdict := told.get(row["query_id"]):
            assert (row["verdict"], row["judged"]) == (verdict, verdict)
            assert row["machine_verdict"] == before[row["query_id"]]["verdict"]
        else:
            was = before[row["query_id"]]
            moved = {"suspicion", "reason"}  # the place among all moves with what others are judged
            assert {name: row[name] for name in row.keys() - moved} == {name: was[name] for name in was.keys() - moved}
    (notes,) = [meta.notes["judgements"] for meta in store.builds.all() if "judgements" in meta.notes]
    assert notes["interval"] is None and "count for their own pairs alone" in notes["summary"]
    page = (out["audit_files"] / "audit.html").read_text()
    assert "by 30 judgements" not in page and "30 verdicts are people's" in page
    assert "with the border where these judgements put it" not in page
    more = [(row["query_id"], row["doc_id"], "clean") for row in list(before.values())[-20:]]
    path = judged_as(tmp_path / "more.csv", [*chosen[3:], *more])
    refitted = run(tables, judgements=path, refit=True)["audit"].to_pylist()
    assert any(row["p_clean"] != before[row["query_id"]]["p_clean"] for row in refitted if row["judged"] is None)


def test_a_replacement_that_a_person_names_is_the_pairs_and_must_be_a_document(run, tmp_path):
    tables = audit_tables(30)
    path = tmp_path / "named.jsonl"
    for doc, fault in (("d20", None), ("d99", "1 accepted replacements of the pairs are not in the corpus")):
        said = {"query_id": "q3", "doc_id": "d4", "verdict": "wrong", "replacement": doc}
        path.write_text(json.dumps(said))
        if fault:
            with pytest.raises(DataError, match=fault):
                run(tables, judgements=str(path))
        else:
            rows = {row["query_id"]: row for row in run(tables, judgements=str(path))["audit"].to_pylist()}
            found = rows["q3"]
            assert (found["replacement"], found["accepted"], found["machine_replacement"]) == ("d20", True, "d3")
            assert not rows["q6"]["accepted"] and rows["q1"]["machine_replacement"] is None


def test_judgements_of_other_pairs_are_refused(run, tmp_path):
    path = judged_as(tmp_path / "judgements.csv", [("q0", "d1", "wrong"), ("q0", "d0", "clean")])
    with pytest.raises(DataError, match=r"1 of 2 judged pairs are not in this audit: 'q0' with 'd0' \(.* line 3\)"):
        run(audit_tables(9), judgements=path)


@pytest.mark.parametrize("count", [1, 5])
def test_a_handful_of_pairs_of_one_score_makes_a_page(run, count):
    tables = audit_tables(count, sources=0)
    same = [(row["query_id"], row["doc_id"], 1, 2.5, 0.5, True, None) for row in tables["flags"].to_pylist()]
    tables["flags"] = table(NOISE_FLAGS, same)
    out = run(tables)
    assert out["audit"]["verdict"].to_pylist() == [None] * count
    page = (out["audit_files"] / "audit.html").read_text()
    assert "<strong>0</strong>" not in page and 'id="sources"' not in page


def test_what_does_not_fit_together_is_refused(run):
    tables = audit_tables(9)
    with refuses(DataError, "training.unflagged_pairs", missing=2, pairs=9):
        run(tables | {"flags": tables["flags"].slice(0, 7)})
    with refuses(DataError, "audits.unknown_pair_ids", n_unknown=1, what="documents"):
        run(tables | {"corpus": tables["corpus"].slice(0, 8)})
    with refuses(DataError, "audits.unknown_pair_ids", what="queries", where="the queries"):
        run(tables | {"queries": tables["queries"].slice(0, 8)})
    with refuses(DataError, "audits.no_training_pairs"):
        run(tables | {"pairs": table(PAIRS, [("q1", "d1", "dev", None)])})


def test_verdicts_on_documents_without_a_label_are_of_a_pool_where_the_query_is_held_out(run, tmp_path):
    tables = audit_tables(6)
    (pair, *_) = zip(*(tables["pairs"][name].to_pylist() for name in ("query_id", "doc_id")), strict=True)
    other = next(doc for doc in tables["corpus"]["doc_id"].to_pylist() if doc != pair[1])
    held = tables | {"queries": tables["queries"].set_column(2, "split", pa.array(["test"] * 6))}

    def judged(tables, *rows, split="test"):
        given = judged_as(tmp_path / "pool.csv", [(*pair, "wrong"), *rows])
        rows = run(tables, split=split, judgements=given)["audit"].to_pylist()
        return {(row["query_id"], row["doc_id"]): row["judged"] for row in rows if row["judged"]}

    assert judged(held, (pair[0], other, "clean")) == judged(held) == {pair: "wrong"}
    with refuses(DataError, "audits.unknown_pair_ids", what="judged documents", example="d99"):
        judged(held, (pair[0], "d99", "clean"))
    for given, split in ((tables, "test"), (held, "dev"), (tables, "train")):
        with pytest.raises(DataError, match="1 of 2 judged pairs are not in this audit"):
            judged(given, (pair[0], other, "clean"), split=split)
