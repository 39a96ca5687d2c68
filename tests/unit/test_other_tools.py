"""Rows of a table that are no tool: the pairs that people call right, and the vectors as they are."""

import csv
import sys

from bench import labelled_sets, other_tools


def test_people_keep_what_they_call_right_and_untrained_vectors_rank_the_test(tmp_path, monkeypatch):
    pairs = [("q0", "d0"), ("q1", "d2"), ("q2", "d1")]
    labelled = labelled_sets.Labelled(
        documents={"d0": "a cat sat on the mat", "d1": "a dog ran home", "d2": "the river Rhine"},
        queries={"q0": "who sat?", "q1": "who ran?", "q2": "which dog ran?", "t": "what of the cat on the mat?"},
        train=pairs, is_right=[True, False, True], test=[("t", "d0")],
    )  # fmt: skip
    for folder in (tmp_path / "sets/pets", tmp_path / "tasks/pets/own-0"):
        labelled_sets.write_beir(labelled, range(3), folder)
    labelled_sets.write_verdicts(labelled, tmp_path / "sets/pets" / labelled_sets.VERDICTS)
    asked = ["tasks", "rows", "--tools", "people", "as_is", "--sets", "sets", "--encoder", "static"]
    monkeypatch.setattr(sys, "argv", ["other_tools", *asked])
    monkeypatch.chdir(tmp_path)
    other_tools.main()
    with (tmp_path / "rows/people/pets/own-0/weights.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["query_id"], row["doc_id"]) for row in rows] == pairs
    assert [float(row["weight"]) for row in rows] == [1, 0, 1]
    best, *rest = (tmp_path / "rows/as_is/pets/own-0/run.trec").read_text().splitlines()
    assert best.split()[:3] == ["t", "Q0", "d0"] and len(rest) == 2
