"""Documents that slipped by some rows are found where they did, and nowhere by chance."""

import numpy as np
import pytest

from noisyir.audits.slipped_rows import slipped_rows


def world(slip=None, pairs=1000, first=300, last=399, hit=0.6, near=0.05, seed=0):
    """Rows, documents and best others of a file in which neighbours are alike on both sides, and some slipped."""
    draw = np.random.default_rng(seed)
    documents = [f"d{row}" for row in range(pairs)]
    others = [None if draw.random() < 0.6 else f"d{draw.integers(pairs)}" for _ in range(pairs)]
    for row in range(2, pairs - 2):
        if draw.random() < near:
            others[row] = f"d{row + draw.choice([-2, -1, 1, 2])}"
    for row in range(first, last + 1) if slip else ():
        others[row] = f"d{row + slip}" if draw.random() < hit else f"d{draw.integers(pairs)}"
    return np.arange(1, pairs + 1), documents, others


@pytest.mark.parametrize("slip", [-2, -1, 1, 2])
def test_a_slip_is_found_with_its_rows_and_its_side(slip):
    found = slipped_rows(*world(slip))
    assert found.offset == slip
    assert abs(found.first - 301) <= 5
    assert abs(found.last - 400) <= 5
    assert found.fit >= 40
    assert found.opposite <= 3
    assert ("below" if slip > 0 else "above") in str(found).split(" better")[0]


def test_the_order_in_which_pairs_come_does_not_matter():
    rows, documents, others = world(-1)
    shuffled = np.random.default_rng(1).permutation(len(rows))
    same = slipped_rows(rows[shuffled], [documents[at] for at in shuffled], [others[at] for at in shuffled])
    assert same == slipped_rows(rows, documents, others)


@pytest.mark.parametrize("near", [0.05, 0.5, 0.95])
def test_a_file_sorted_by_subject_has_not_slipped(near):
    assert not any(slipped_rows(*world(near=near, seed=seed)) for seed in range(20))


def test_a_document_that_several_rows_share_is_no_slip():
    rows = np.arange(1, 1001)
    documents = [f"d{row // 5}" for row in rows]  # five questions on each passage
    assert slipped_rows(rows, documents, documents) is None


def test_a_handful_of_rows_is_not_called_a_slip():
    assert slipped_rows(*world(1, first=300, last=315, hit=1)) is None


def test_rows_between_that_are_not_audited_count_as_rows():
    kept = [at for at in range(1000) if at % 10]
    rows, documents, others = world(1)
    found = slipped_rows(rows[kept], [documents[at] for at in kept], [others[at] for at in kept])
    assert found.offset == 1


def test_of_several_pairs_in_a_row_the_first_counts():
    rows, documents, others = world(1)
    twice = [place for at in range(1000) for place in (at, at)]
    found = slipped_rows(rows[twice], [documents[at] for at in twice], [others[at] for at in twice])
    assert found == slipped_rows(rows, documents, others)


def test_no_pairs_are_no_slip():
    assert slipped_rows(np.array([], int), [], []) is None
