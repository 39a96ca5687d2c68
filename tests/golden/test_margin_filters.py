"""Filters and top-k together against `mine_hard_negatives` of sentence-transformers, on the same model and texts."""

import numpy as np
import pytest
import torch

from noisyir.mining.candidates import Candidates
from noisyir.mining.draw import draw
from noisyir.mining.filters import distance
from noisyir.mining.samplers import topk
from noisyir.mining.settings import MineParams
from tests.tiny_models import static_encoder

PASSAGES, QUERIES, NEGATIVES = 60, 20, 5


def keeps(found, **filters):
    """The mask of each filter, by its kind."""
    return {kind: chosen.keeps(found) for kind, chosen in MineParams(filters=filters).filters.items()}


@pytest.fixture(scope="module")
def texts():
    rng = np.random.default_rng(0)
    passages = list(dict.fromkeys(" ".join(f"w{n}" for n in rng.integers(25, size=5)) for _ in range(PASSAGES)))
    queries = [" ".join(passage.split()[:2]) + f" w{n % 25}" for n, passage in enumerate(passages[:QUERIES])]
    return queries, passages


@pytest.fixture(scope="module")
def encoder():
    """Cosine: whatever a model's similarity is, `mine_hard_negatives` normalises its vectors."""
    return static_encoder(torch.randn(25, 16, generator=torch.Generator().manual_seed(1)))


def test_a_triangle_keeps_what_is_far_enough_from_query_and_positive_together():
    """cos(q, d+) - cos(q, d-) + w (1 - cos(d+, d-)) >= m, spelt for a copy of d+, a near and a far document."""
    to_query, to_positive, own = np.array([0.6, 0.7, 0.3]), np.array([1.0, 0.5, 0.2]), np.full(3, 0.6)
    rows, one = np.arange(3), np.ones(3)
    found = Candidates(rows * 0, rows, rows + 1, 4 * to_query, 2 * own, 2 * to_positive, 2 * one, one, 2 * one)
    spelt = [0.6 - 0.6 + 1.5 * (1 - 1.0), 0.6 - 0.7 + 1.5 * (1 - 0.5), 0.6 - 0.3 + 1.5 * (1 - 0.2)]
    np.testing.assert_allclose(distance(found, 1.5), spelt, atol=1e-12)
    for margin, kept in ((0.0, [True] * 3), (0.01, [False, True, True]), (0.66, [False, False, True])):
        assert keeps(found, triangle={"margin": margin})["triangle"].tolist() == kept


def test_what_is_nearer_to_the_positive_than_a_cosine_goes():
    """cos(d+, d-) = s(d+, d-) / (|d+| |d-|): 3 / 4, 4 / 4, 2.5 / 4; 0 where a vector is zero."""
    one = np.ones(4)
    found = Candidates(
        np.zeros(4, int), np.arange(4), np.arange(1, 5), 9 * one, one, np.array([3.0, 4.0, 2.5, 0.0]), one, 2 * one,
        np.array([2.0, 2.0, 2.0, 0.0]),
    )  # fmt: skip
    for bound, kept in ((0.75, [True, False, True, True]), (0.7, [False, False, True, True]), (1.0, [True] * 4)):
        masks = keeps(found, max_score=10.0, max_positive_cosine=bound, triangle=None)
        assert list(masks) == ["max_score", "max_positive_cosine"]
        assert masks["max_positive_cosine"].tolist() == kept


@pytest.mark.parametrize(
    "filters",
    [{"max_score": 0.6}, {"absolute_margin": 0.15}, {"relative_margin": 0.05},
     {"relative_margin": 0.3, "absolute_margin": 0.1, "max_score": 0.55}],
)  # fmt: skip
def test_the_negatives_are_those_of_sentence_transformers(encoder, texts, filters, tmp_path):
    datasets = pytest.importorskip("datasets")
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import mine_hard_negatives

    queries, passages = texts
    encoder.save(tmp_path)
    given = datasets.Dataset.from_dict({"query": queries, "passage": passages[: len(queries)]})
    theirs = mine_hard_negatives(
        given, SentenceTransformer(str(tmp_path), device="cpu"), corpus=passages, range_max=len(passages) - 1,
        num_negatives=NEGATIVES, output_format="triplet", verbose=False, **filters,
    )  # fmt: skip
    expected = {query: [] for query in queries}
    for row in theirs:
        expected[row["query"]].append(row["negative"])

    with torch.inference_mode():
        asked, known = (
            encoder.embed(encoder.tokenize(some, side), side).numpy()
            for some, side in ((queries, "query"), (passages, "passage"))
        )
    scores = asked @ known.T
    query, document = (~np.eye(len(queries), len(passages), dtype=bool)).nonzero()
    rank = (-scores).argsort(axis=1).argsort(axis=1)[query, document] + 1
    one = np.ones(len(query))
    own = scores[np.arange(len(queries)), np.arange(len(queries))][query]
    found = Candidates(query, document, rank, scores[query, document], own, one, one, one, one)
    found = found.take(np.logical_and.reduce(list(keeps(found, **filters).values())))
    drawn = draw(topk(found.rank)[None], found.query, found.document, NEGATIVES, np.random.default_rng(0)).rows
    ours = {query: [] for query in queries}
    for row in drawn:
        ours[queries[found.query[row]]].append(passages[found.document[row]])
    assert ours == expected
    assert 0 < sum(map(len, ours.values()))
