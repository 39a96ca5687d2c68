"""The table of methods: a row for each set, differences to plain training in it; and near-misses of right pairs."""

from bench import labelled_sets, method_table


def of_set(**differences):
    tests = {
        name: {"mean": mean, "low": mean - 0.01, "high": mean + 0.01, "p_value": p}
        for name, (mean, p) in differences.items()
    }
    told = {"flagged": "7%", "auto chose": "dpr 2"}
    return {"queries": 10, "told": told, "by_seed": {"dpr": [0.25, 0.35]}, "less_plain": tests}


def test_a_row_has_differences_bold_where_they_are_significant_among_all_of_the_row():
    some = of_set(reweight=(0.0123, 0.001), drop=(-0.02, 0.03), human=(0.0, 0.9))
    heads, row, _ = method_table.table({"staqc": some, "conala": of_set(auto=(0.0, 0.9))})
    cells = dict(zip(heads, row, strict=True))
    assert (cells["plain"], cells["reweight"], cells["true labels"]) == ("0.300", "**+.012**", "+.000")
    assert cells["drop"] == "-.020", "0.03 is 0.06 after Holm's correction for two of three"
    assert (cells["auto"], cells["flagged"], cells["`auto` chose"]) == ("-", "7%", "dpr 2")
    assert "npc" not in heads, "measured nowhere"


def test_other_methods_stay_as_recorded_as_long_as_plain_training_is_the_same():
    known, found = of_set(reweight=(0.01, 0.1)), of_set(auto=(0.02, 0.1))
    assert set(method_table.together(known, found)["less_plain"]) == {"reweight", "auto"}
    moved = {**found, "by_seed": {"dpr": [0.25, 0.36]}}
    assert set(method_table.together(known, moved)["less_plain"]) == {"auto"}
    assert method_table.together({}, found) == found


def test_near_misses_hold_no_answer():
    right = labelled_sets.Labelled(
        documents={"d0": "in Rome he was born in 1901", "d1": "he died in Oslo", "d2": "Rome again", "d3": "a river"},
        queries={"q": "when?"},
        train=[("q", "d0"), ("r", "d1"), ("s", "d2")],
        is_right=None,
        test=[],
        sources={"d0": "a man", "d1": "a man", "d2": "a man", "d3": "water"},
        answers={"q": ["1901"], "r": ["oslo"], "s": ["he"]},
    )
    assert labelled_sets.half_an_answer(right, 0) == "in Rome he"
    assert labelled_sets.half_an_answer(right, 1) == "he died"
    assert labelled_sets.of_the_same_page(right, 0) == "he died in Oslo"
    assert labelled_sets.of_the_same_page(right, 2) is None, "all others of the page hold the answer"
