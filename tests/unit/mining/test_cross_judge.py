"""The cross-encoder as judge of candidates, against its logits of each pair by itself."""

import numpy as np
import pyarrow.compute as pc
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.mining.artifacts import CANDIDATES
from noisyir.mining.judges import CrossEncoderJudge
from noisyir.mining.stages import relevance_judges as module
from noisyir.mining.stages.relevance_judges import CROSS_JUDGE
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from tests.tiny_models import WORDS, tiny_classifier
from tests.world import pairs_world, table

MAX_LEN, COUNT = 32, 12
ASKED = [f"{WORDS[n % 6]} {WORDS[n % 6 + 1]}" for n in range(COUNT)]  # each text twice
TITLES = ["" if n % 3 else f"Title {WORDS[n]}" for n in range(COUNT)]
BODIES = [" ".join(WORDS[n % 9 : n % 9 + n % 5 + 1]) for n in range(COUNT)]
READ = [f"{title} {body}".strip() for title, body in zip(TITLES, BODIES, strict=True)]
PAIRS = [(q, d) for q in range(COUNT) for d in range(COUNT) if (q + d) % 3]


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny_classifier(tmp_path_factory.mktemp("classifier"), labels=2)


@pytest.fixture
def judge(run_stage_on, classifier):
    """`judge(tables, **params)`: the verdicts."""

    def run(tables, **params):
        params = {"weights": str(classifier), "max_len": MAX_LEN} | params
        return run_stage_on(CROSS_JUDGE, CrossEncoderJudge(**params), tables)["verdicts"]

    return run


def world(pairs=PAIRS):
    candidates = table(CANDIDATES, [(f"q{q}", f"d{d}", 1) for q, d in pairs])
    return pairs_world("queries corpus", ASKED, list(zip(TITLES, BODIES, strict=True))) | {"candidates": candidates}


def expected(classifier):
    encoder = load_cross_encoder(classifier, MAX_LEN, "cpu")
    logits = [encoder.logits(TextPairs([ASKED[q]], [READ[d]]), 4096, lambda _: None)[0] for q, d in PAIRS]
    return 1 / (1 + np.exp(-np.array(logits, np.float64)))


def test_a_candidate_stays_unless_it_is_likelier_relevant_than_the_bound(judge, classifier):
    chances = expected(classifier)
    bound = float(np.median(chances))
    found = judge(world(), max_relevance=bound)
    assert [tuple(row.values()) for row in found.select(["query_id", "doc_id"]).to_pylist()] == [
        (f"q{q}", f"d{d}") for q, d in PAIRS
    ]
    np.testing.assert_allclose(found["score"].to_numpy(), chances, atol=1e-5)
    assert set(found["bound"].to_pylist()) == {np.float32(bound)}
    clear = np.abs(chances - bound) > 1e-4
    assert (found["keep"].to_numpy() == (chances <= bound))[clear].all() and 0 < pc.sum(found["keep"]).as_py()
    reasons = {True: "a cross-encoder finds it irrelevant", False: "a cross-encoder finds it relevant"}
    assert all(row["reason"] == reasons[row["keep"]] for row in found.to_pylist())
    assert pc.all(judge(world(), max_relevance=1.0)["keep"]).as_py()


@pytest.mark.parametrize("at_once", [7, 10_000])
def test_neither_the_order_of_rows_nor_the_place_of_a_copy_matters(judge, monkeypatch, at_once):
    monkeypatch.setattr(module, "_PAIRS_AT_ONCE", at_once)
    plain, order = world(), np.random.default_rng(0).permutation
    shuffled = {name: given.take(order(len(given))) for name, given in plain.items()}
    by_ids = [("query_id", "ascending"), ("doc_id", "ascending")]
    one, other = judge(plain).sort_by(by_ids), judge(shuffled).sort_by(by_ids)
    assert one.equals(other)
    scores = {}  # of each pair of texts
    for row in one.to_pylist():
        read = ASKED[int(row["query_id"][1:])], READ[int(row["doc_id"][1:])]
        scores.setdefault(read, set()).add(row["score"])
    assert len(scores) < len(PAIRS) and {len(found) for found in scores.values()} == {1}


def test_no_candidates_get_no_verdicts(judge):
    assert judge(world([])).num_rows == 0


def test_what_is_missing_is_named(judge):
    given = world()
    with pytest.raises(ConfigError, match=r"needs a sequence classifier: set judges\.cross_encoder\.weights"):
        judge(given, weights=None)
    with pytest.raises(DataError, match="no 'd3' among the documents, which a candidate names"):
        judge(given | {"corpus": given["corpus"].filter(pc.not_equal(given["corpus"]["doc_id"], "d3"))})
    with pytest.raises(DataError, match="no 'q1' among the queries, which a candidate names"):
        judge(given | {"queries": given["queries"].filter(pc.not_equal(given["queries"]["query_id"], "q1"))})
