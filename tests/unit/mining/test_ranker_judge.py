"""The plan's own ranker as judge of candidates: its probabilities, and what it need not read again."""

import numpy as np
import pyarrow as pa
import pytest

from noisyir.engine.runtime import Runtime
from noisyir.mining.artifacts import VERDICTS
from noisyir.mining.judges import RankerJudge
from noisyir.mining.stages.relevance_judges import RANKER_JUDGE
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from noisyir.models.ranker import initial_ranker
from noisyir.models.settings import InitRankerParams
from tests.tiny_models import tiny_bert
from tests.unit.mining.test_cross_judge import ASKED, MAX_LEN, PAIRS, READ, world
from tests.world import table


@pytest.fixture(scope="module")
def ranker(tmp_path_factory):
    bert, folder = tiny_bert(tmp_path_factory.mktemp("bert"), layers=1), tmp_path_factory.mktemp("ranker")
    initial_ranker(bert, InitRankerParams(max_len=MAX_LEN), seed=3)[0].save(folder)
    return folder


@pytest.fixture
def judge(run_stage_on, ranker, store):
    """`judge(bound, judged)`: the verdicts, and how many pairs were read."""

    def run(bound=0.5, judged=None):
        given = world() | {"ranker": ranker} | ({"judged": judged} if judged else {})
        runtime = Runtime(device="cpu", threads=1)
        found = run_stage_on(RANKER_JUDGE, RankerJudge(max_relevance=bound), given, runtime=runtime)["verdicts"]
        (meta,) = [meta for meta in store.builds.all() if meta.stage == "ranker_judge"]
        return found, meta.notes["pairs_read"]

    return run


def test_scores_are_the_sigmoids_of_the_rankers_logits(judge, ranker):
    encoder = load_cross_encoder(ranker, MAX_LEN, "cpu")
    texts = TextPairs([ASKED[q] for q, _ in PAIRS], [READ[d] for _, d in PAIRS])
    chances = 1 / (1 + np.exp(-encoder.logits(texts, 4096, lambda _: None).astype(np.float64)))
    bound = float(np.median(chances))
    found, read = judge(bound)
    np.testing.assert_allclose(found["score"].to_numpy(), chances, atol=1e-5)
    clear = np.abs(chances - bound) > 1e-4
    assert (found["keep"].to_numpy() == (chances <= bound))[clear].all() and clear.any()
    assert read == len(PAIRS)


def test_what_was_scored_before_is_taken_and_not_read_again(judge):
    some, others = PAIRS[:20], PAIRS[10:30]
    stranger = ("x", "d1", 0.5, 0.1, True, "")
    judged = {
        "first": table(VERDICTS, [(f"q{q}", f"d{d}", 0.25, 0.1, False, "why") for q, d in some]),
        "then": table(VERDICTS, [(f"q{q}", f"d{d}", 0.75, 0.1, False, "why") for q, d in others] + [stranger]),
    }
    found, read = judge(0.5, judged)
    scores = found["score"].to_numpy()
    assert read == len(PAIRS) - 30
    assert set(scores[:20]) == {np.float32(0.25)} and set(scores[20:30]) == {np.float32(0.75)}
    assert found["keep"].to_pylist()[:30] == [True] * 20 + [False] * 10


def test_all_may_have_been_scored_before(judge):
    judged = {"all": table(VERDICTS, [(f"q{q}", f"d{d}", 0.25, 0.1, False, "why") for q, d in PAIRS])}
    found, read = judge(0.5, judged)
    assert read == 0 and pa.compute.all(found["keep"]).as_py()
