"""Documents by position: who names them, where they are from, and the small tools of the search."""

import numpy as np
import pytest

from noisyir.detection.null import Positions, best_places, distinct, leading
from noisyir.training.batches import Ragged


@pytest.fixture
def positions():
    known = Ragged.grouped(np.array([0, 0, 1]), np.array([0, 3, 1]), 2)
    return Positions(np.array([0, 0, 1]), np.array([0, 3, 1]), known, np.array([0, 0, 0, 2, -1]))


def test_what_pairs_of_the_text_name_is_left_out(positions):
    assert positions.unnamed(np.array([0, 1]), np.array([[0, 1, 3], [0, 1, -1]])).tolist() == [[-1, 1, -1], [0, -1, -1]]
    assert positions.most_known == 2


def test_a_text_that_is_a_document_itself_is_known_and_named_by_no_pair():
    known = Ragged.grouped(np.array([0, 0, 1, 1]), np.array([0, 3, 1, 2]), 2)  # document 2 is text 1 itself
    positions = Positions(np.array([0, 0, 1]), np.array([0, 3, 1]), known, np.zeros(5, np.int64))
    rows = np.array([[0, 2, 4], [1, 2, 4]])
    assert positions.unnamed(np.array([0, 1]), rows, positions.itself).tolist() == [[0, 2, 4], [1, -1, 4]]
    assert positions.unnamed(np.array([0, 1]), rows).tolist() == [[-1, 2, 4], [-1, -1, 4]]


def test_documents_of_a_source_are_drawn_once_each_and_only_from_it(positions):
    drawn = positions.of_source(np.array([1, 3, 4, -1]), 200, np.random.default_rng(0))
    assert [sorted(set(row) - {-1}) for row in drawn.tolist()] == [[0, 1, 2], [3], [], []]
    assert [(row >= 0).sum() for row in drawn] == [3, 1, 0, 0]


def test_repetitions_leave_gaps_and_leading_closes_them():
    rows = distinct(np.array([[3, 1, 3], [-1, 2, -1]]))
    assert rows.tolist() == [[1, 3, -1], [-1, -1, 2]]
    assert leading(rows, 2).tolist() == [[1, 3], [2, -1]]
    assert leading(rows, 4).tolist() == [[1, 3, -1, -1], [2, -1, -1, -1]]


def test_best_places_are_those_above_nothing():
    values = np.array([[0.5, 2.0, 0.0, 2.0], [0, 0, 0, 0]], np.float32)
    assert best_places(values, 3).tolist() == [[1, 3, 0], [-1, -1, -1]]
    assert best_places(values, 9).shape == (2, 4)
