"""Corruption changes exactly the asked share of training pairs, never to a document that is in truth relevant."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.corruption.kinds import Corruption
from noisyir.corruption.kinds.other_documents import AnyDocument, Neighbour
from noisyir.corruption.stages.corrupt import CORRUPT
from tests.refusals import refuses
from tests.world import pairs_world

PAIRS = 200


def data(answers=None, source=tuple(f"s{n % 7}" for n in range(PAIRS))):
    """Query n has document n, and documents 2m and 2m + 1 have equal text; the last 20 queries are dev queries."""
    return pairs_world(
        "pairs corpus qrels answers",
        [""] * PAIRS,
        [f"word{n // 2} and more" for n in range(PAIRS)],
        splits={f"q{n}": "dev" for n in range(PAIRS - 20, PAIRS)},
        pairs=[(f"q{n}", f"d{n}", source[n]) for n in range(PAIRS)],
        judged=[(f"q{n}", f"d{n}", 1) for n in range(PAIRS)] + [("q0", f"d{n}", 1) for n in range(100, 150)],
        answers=answers,
    )


def on_a_line(dtype=np.float32, skip=()):
    """The vector of document n turns by n hundredths of a radian, so the nearest documents have the nearest numbers."""
    rows = np.array([row for row in range(PAIRS) if row not in skip])[::-1]
    angles = rows / 100
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)
    values = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), 2)
    return pa.table({"doc_row": pa.array(rows, pa.int32()), "vector": values})


def changed(pairs, noisy):
    return [
        (row["query_id"], now["doc_id"])
        for row, now in zip(pairs.to_pylist(), noisy.to_pylist(), strict=True)
        if row != now
    ]


def run_mechanism(run_stage_on, mechanism, given, rate, **settings):
    """The stage's tables; `neighbour` gets the vectors on a line."""
    given = given | ({"doc_vectors": on_a_line()} if mechanism == "neighbour" else {})
    return run_stage_on(CORRUPT, Corruption.parse({"kind": mechanism, "rate": rate, **settings}), given)


@pytest.mark.parametrize("mechanism", ["uniform", "neighbour", "group"])
@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_exactly_the_asked_share_of_training_pairs_is_wrong(run_stage_on, mechanism, rate):
    given = data()
    settings = {"group_rate": 1} if mechanism == "group" else {}
    tables = run_mechanism(run_stage_on, mechanism, given, rate, **settings)
    wrong = changed(given["pairs"], tables["noisy_pairs"])
    assert len(wrong) == round(rate * 180)
    truth = tables["noise_truth"].to_pylist()
    assert len(truth) == 180
    assert [(row["query_id"], row["doc_id"]) for row in truth if row["is_noisy"]] == wrong
    assert {row["kind"] for row in truth if row["is_noisy"]} == {mechanism}
    pool = {f"d{n}" for n in range(180)}
    for query_id, doc_id in wrong:
        own = int(query_id[1:])
        assert int(doc_id[1:]) // 2 != own // 2, "same text as its own document"
        assert doc_id in pool, "drawn from the training positives"
        assert query_id != "q0" or doc_id not in {f"d{n}" for n in range(100, 150)}, "judged relevant"


@pytest.mark.parametrize("mechanism", ["uniform", "neighbour", "group"])
def test_the_clean_pairs_are_the_given_ones_that_were_not_changed(run_stage_on, mechanism):
    given = data()
    tables = run_mechanism(run_stage_on, mechanism, given, 0.4)
    noisy, clean = tables["noisy_pairs"].to_pylist(), tables["clean_pairs"].to_pylist()
    assert clean == [row for row, now in zip(given["pairs"].to_pylist(), noisy, strict=True) if row == now]
    assert len(clean) == PAIRS - 72
    assert [row for row in clean if row["split"] == "dev"] == given["pairs"].to_pylist()[180:]
    assert tables["noisy_pairs"]["source"].to_pylist() == given["pairs"]["source"].to_pylist()


def test_a_neighbour_is_near(run_stage_on):
    """Equal texts count once, so the 4 nearest distinct texts lie within 4 numbers, or 8 at an end of the line."""
    given = data()
    wrong = changed(given["pairs"], run_mechanism(run_stage_on, "neighbour", given, 1, neighbours=4)["noisy_pairs"])
    apart = [(int(query_id[1:]), abs(int(query_id[1:]) // 2 - int(doc_id[1:]) // 2)) for query_id, doc_id in wrong]
    assert all(1 <= distance <= (2 if 4 <= own < 176 else 4) for own, distance in apart)
    assert {distance for _, distance in apart} >= {1, 2}


def test_neighbours_that_are_relevant_make_room_for_the_next(run_stage_on):
    """To query 20 the documents 0 to 99 are relevant: far more than are looked up at first."""
    answers = {"q20": [f"word{n}" for n in range(50)]}
    given = data(answers)
    wrong = dict(
        changed(given["pairs"], run_mechanism(run_stage_on, "neighbour", given, 1, neighbours=2)["noisy_pairs"])
    )
    assert wrong["q20"] in {"d100", "d102"}


def test_half_precision_vectors_are_read(run_stage_on):
    given = data() | {"doc_vectors": on_a_line(np.float16)}
    tables = run_stage_on(CORRUPT, Neighbour(rate=1), given)
    assert sum(tables["noise_truth"]["is_noisy"].to_pylist()) == 180


def test_neighbours_need_vectors_of_this_corpus(run_stage_on):
    params = Neighbour(rate=0.5)
    with refuses(ConfigError, "corruption.no_vectors", noise="neighbour"):
        run_stage_on(CORRUPT, params, data())
    with refuses(DataError, "corruption.missing_vectors", missing=2, documents=90):
        run_stage_on(CORRUPT, params, data() | {"doc_vectors": on_a_line(skip=(4, 50))})


def test_group_noise_stays_in_its_sources(run_stage_on):
    """Seven sources of 26 or 25 training pairs: two at 80 % hold 41 of the 45 wrong pairs, a third the others."""
    given = data()
    wrong = changed(given["pairs"], run_mechanism(run_stage_on, "group", given, 0.25)["noisy_pairs"])
    counts = np.bincount([int(query_id[1:]) % 7 for query_id, _ in wrong], minlength=7)
    assert counts.sum() == 45 and sorted(counts)[:4] == [0, 0, 0, 0]
    assert sorted(counts)[-2] in (20, 21) and sorted(counts)[-1] in (20, 21)


def test_pairs_without_source_are_not_chosen(run_stage_on):
    given = data(source=[None if n % 2 else "s" for n in range(PAIRS)])
    wrong = changed(given["pairs"], run_mechanism(run_stage_on, "group", given, 0.4)["noisy_pairs"])
    assert len(wrong) == 72 and all(int(query_id[1:]) % 2 == 0 for query_id, _ in wrong)
    with pytest.raises(DataError, match=r"90 of the 180 training pairs .* set 0\.4 or less"):
        run_mechanism(run_stage_on, "group", given, 0.41)


def test_group_noise_needs_sources(run_stage_on):
    with refuses(DataError, "corruption.no_sources", noise="group"):
        run_mechanism(run_stage_on, "group", data(source=[None] * PAIRS), 0.2)


@pytest.mark.parametrize("mechanism", ["uniform", "neighbour", "group"])
def test_rate_0_changes_nothing(run_stage_on, mechanism):
    given = data(source=[None] * PAIRS)
    tables = run_stage_on(CORRUPT, Corruption.parse({"kind": mechanism, "rate": 0}), given)
    assert tables["noisy_pairs"].to_pylist() == given["pairs"].to_pylist() == tables["clean_pairs"].to_pylist()
    assert not any(tables["noise_truth"]["is_noisy"].to_pylist())


@pytest.mark.parametrize("mechanism", ["uniform", "neighbour", "group"])
def test_the_seed_alone_decides(run_stage_on, mechanism):
    given = data() | {"doc_vectors": on_a_line()}
    params = Corruption.parse({"kind": mechanism, "rate": 0.5})
    first, again, other = (run_stage_on(CORRUPT, params, given, seed=seed)["noisy_pairs"] for seed in (1, 1, 2))
    assert first == again != other


def test_a_document_that_holds_an_answer_is_not_wrong(run_stage_on):
    answers = {f"q{n}": ["WORD3", "word4 and"] for n in range(180)}
    tables = run_stage_on(CORRUPT, AnyDocument(rate=1), data(answers))
    assert not {"d6", "d7", "d8", "d9"} & set(tables["noise_truth"]["doc_id"].to_pylist())
    assert {"d60", "d61"} & set(tables["noise_truth"]["doc_id"].to_pylist()), "word30 is another token than word3"


def test_a_query_without_wrong_documents_is_an_error(run_stage_on):
    answers = {"q7": ["more"]}
    with refuses(DataError, "corruption.no_wrong_document"):
        run_stage_on(CORRUPT, AnyDocument(rate=1), data(answers))
