"""The sieve judges candidates by cosine with a model that it trains first, and tells how many go."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS
from noisyir.mining.artifacts import CANDIDATES
from noisyir.mining.judges import SieveJudge
from noisyir.mining.sieve_pools import SievePools, cosines
from noisyir.mining.stages.sieve import SIEVE
from tests.tiny_models import static_encoder, tiny_bert, tiny_encoder
from tests.unit.training.toy import toy_pairs
from tests.world import pairs_world, table

COUNT, DEPTH, WORDS = 12, 8, 40
VECTORS = torch.randn(WORDS, 8, generator=torch.Generator().manual_seed(0)) * torch.linspace(0.2, 3, WORDS)[:, None]


def words(number, factor=7):
    return number % WORDS, (factor * number + 3) % WORDS


def text(number, factor=7):
    return " ".join(f"w{word}" for word in words(number, factor))


def vector(number, factor=7):
    return VECTORS[list(words(number, factor))].mean(0).numpy()


def cosine(query, document):
    """Of query number `query`, which shares a word with its own document."""
    one, other = vector(query, 11), vector(document)
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


def candidate_table(depth=DEPTH, queries=COUNT):
    """Query q<i> ranks documents i + 20, i + 21, ... from the last to the first; its own is document i."""
    rows = [(f"q{i:02}", f"d{i + 20 + k:02}", depth - k) for i in range(queries) for k in range(depth)]
    return table(CANDIDATES, rows)


def world(tmp_path, similarity="cosine", *, candidates=None, pairs=()):
    model = tmp_path / f"{similarity}_model"
    if not model.exists():
        model.mkdir()
        static_encoder(VECTORS, similarity).save(model)
    return pairs_world(
        "pairs queries corpus qrels",
        {**{f"q{i:02}": text(i, 11) for i in range(COUNT)}, "dev": text(0)},
        {f"d{i:02}": text(i) for i in range(WORDS)},
        splits={"dev": "dev"},
        pairs=[*((f"q{i:02}", f"d{i:02}") for i in range(COUNT)), *pairs, ("dev", "d00")],
        judged=[("dev", "d00", 1)],
    ) | {"model": model, "candidates": candidate_table() if candidates is None else candidates}


@pytest.fixture
def sieve(run_stage_on, tmp_path, store):
    """`sieve(settings, **world)`: the verdicts, the curves and the note of the last run."""

    def run(settings=None, *, seed=0, given=None, **how):
        params = SieveJudge(**{"pool_size": None, "batch_size": 4} | (settings or {}))
        made = run_stage_on(SIEVE, params, given or world(tmp_path, **how), seed=seed)
        metas = [meta for meta in store.builds.all() if meta.stage == "sieve"]
        notes = {meta.key: meta.notes for meta in metas}
        return made["verdicts"], made["curves"].to_pylist(), list(notes.values())[-1].get("sieve")

    return run


def expected(positives=lambda i: i, depth=DEPTH):
    """(query, document, cosine, mean) in rank order, by hand."""
    found = []
    for i in range(COUNT):
        scores = [cosine(i, i + 20 + k) for k in range(depth)]
        mean = (sum(scores) + cosine(i, positives(i))) / (depth + 1)
        found += [(f"q{i:02}", f"d{i + 20 + k:02}", scores[k], mean) for k in reversed(range(depth))]
    return found


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_candidate_stays_if_its_cosine_is_at_most_the_mean_of_its_pool(sieve, similarity):
    verdicts, _, note = sieve(similarity=similarity)  # the paper's rate of 1e-7 leaves the model as it is
    queries, documents, scores, means = zip(*expected(), strict=True)
    assert verdicts["query_id"].to_pylist() == list(queries)
    assert verdicts["doc_id"].to_pylist() == list(documents)
    np.testing.assert_allclose(verdicts["score"], scores, atol=1e-5)
    np.testing.assert_allclose(verdicts["bound"], means, atol=1e-5)
    keep = [score <= mean for score, mean in zip(scores, means, strict=True)]
    assert verdicts["keep"].to_pylist() == keep
    reasons = {True: "no nearer to the query than its pool's mean", False: "nearer to the query than its pool's mean"}
    assert verdicts["reason"].to_pylist() == [reasons[one] for one in keep]
    left = {query for query, one in zip(queries, keep, strict=True) if one}
    assert note == {
        "judged": COUNT * DEPTH,
        "sieved_out": keep.count(False),
        "rate": pytest.approx(keep.count(False) / len(keep)),
        "queries": COUNT,
        "queries_with_none_left": COUNT - len(left),
    }
    assert 0 < note["rate"] < 1


def test_the_rate_is_a_point_before_training_and_after_each_epoch(sieve):
    verdicts, curves, note = sieve({"epochs": 3, "learning_rate": 0.05, "batch_size": 4, "dev_queries": 5})
    rates = [(row["step"], row["epoch"], row["value"]) for row in curves if row["name"] == "sieve_out_rate"]
    assert [(step, epoch) for step, epoch, _ in rates] == [(0, 0.0), (3, 1.0), (6, 2.0), (9, 3.0)]
    assert rates[-1][2] == pytest.approx(note["rate"]) == pytest.approx(1 - np.mean(verdicts["keep"].to_numpy()))
    by_hand = [score > mean for _, _, score, mean in expected()]
    assert rates[0][2] == pytest.approx(np.mean(by_hand))
    assert len([row for row in curves if row["name"] == "train_loss"]) == 9
    assert [row["epoch"] for row in curves if row["name"] == "dev_mrr@10"] == [1.0, 2.0, 3.0]


def test_training_is_by_the_robust_loss_on_the_candidates(sieve):
    def score(**settings):
        settings = {"epochs": 4, "learning_rate": 0.05, "ccr": {"beta": 0.5}} | settings
        verdicts, curves, _ = sieve(settings)
        return verdicts["score"].to_numpy(), next(row["value"] for row in curves if row["name"] == "train_loss")

    robust, plain, fewer = score(), score(ccr={"beta": 0.0}), score(hard_negatives=1)
    assert np.abs(robust[0] - np.array([row[2] for row in expected()])).max() > 0.05
    assert len({values.tobytes() for values, _ in (robust, plain, fewer)}) == 3
    # at scale 1 the loss of any passage of a pool of 6 is about ln 6, so half of it is off
    assert robust[1] == pytest.approx(plain[1] - 0.5 * np.log(6), abs=0.3)


def test_training_lets_the_candidates_fall_behind_their_positives(sieve):
    before, after = (sieve({"epochs": epochs, "learning_rate": rate})[0] for epochs, rate in ((1, 1e-7), (20, 0.05)))
    assert np.mean(after["score"].to_numpy()) < np.mean(before["score"].to_numpy()) - 0.2


def test_at_most_pool_size_candidates_are_judged_and_the_others_have_no_row(sieve):
    verdicts, _, note = sieve({"pool_size": 3})
    whole = {(query, document): score for query, document, score, _ in expected()}
    found = {}
    for row in verdicts.to_pylist():
        found.setdefault(row["query_id"], []).append(row)
        assert row["score"] == pytest.approx(whole[row["query_id"], row["doc_id"]], abs=1e-5)
    assert set(map(len, found.values())) == {3} and len(found) == COUNT
    for i, drawn in enumerate(found.values()):
        places = [row["doc_id"] for row in drawn]
        assert places == sorted(places, reverse=True)  # by rank
        mean = (sum(row["score"] for row in drawn) + cosine(i, i)) / 4
        np.testing.assert_allclose([row["bound"] for row in drawn], mean, atol=1e-5)
    assert note["judged"] == 3 * COUNT
    drawn_again, other_seed = sieve({"pool_size": 3})[0], sieve({"pool_size": 3}, seed=1)[0]
    assert drawn_again.equals(verdicts) and not other_seed["doc_id"].equals(verdicts["doc_id"])


def test_of_several_positives_one_at_random_is_in_the_pool(sieve):
    more = [(f"q{i:02}", f"d{i + 12:02}", "train", None) for i in range(COUNT)]
    bounds = [dict(zip(*(v[name].to_pylist() for name in ("query_id", "bound")), strict=True)) for v in (
        sieve(pairs=more, seed=seed)[0] for seed in range(6)
    )]  # fmt: skip
    for i in range(COUNT):
        scores = sum(cosine(i, i + 20 + k) for k in range(DEPTH))
        either = [(scores + cosine(i, positive)) / (DEPTH + 1) for positive in (i, i + 12)]
        found = [bound[f"q{i:02}"] for bound in bounds]
        assert all(min(abs(one - other) for other in either) < 1e-5 for one in found)
    assert len({tuple(bound.values()) for bound in bounds}) == 6


def test_the_order_of_the_rows_does_not_matter(sieve, tmp_path):
    given = world(tmp_path, pairs=[("q00", "d15")])
    settings = {"pool_size": 4, "epochs": 2, "learning_rate": 0.01}
    shuffled = {name: given[name].take(np.random.default_rng(3).permutation(len(given[name])))
                for name in ("candidates", "pairs")}  # fmt: skip
    assert sieve(settings, given=given)[0].equals(sieve(settings, given=given | shuffled)[0])


def test_a_text_without_words_has_cosine_0(sieve, tmp_path):
    given = world(tmp_path)
    corpus = given["corpus"].to_pylist()
    corpus[25]["text"] = ""
    given["corpus"] = table(CORPUS, corpus)
    verdicts = sieve(given=given)[0]
    assert set(verdicts.filter(pc.equal(verdicts["doc_id"], "d25"))["score"].to_pylist()) == {0.0}


def test_a_model_in_training_is_judged_without_its_dropout(tmp_path):
    encoder = tiny_encoder(tiny_bert(tmp_path / "bert"))
    pairs, rows = toy_pairs(encoder), np.arange(6)
    pools = SievePools(query=rows // 2, document=rows, text=rows[:3], positive=rows[3:])
    one, other = (cosines(mode(), pairs, pools) for mode in (encoder.eval, encoder.train))
    np.testing.assert_array_equal(one, other)


def test_a_pool_of_copies_stays_whole(sieve, tmp_path):
    given = world(tmp_path)
    corpus = [row | {"text": text(5)} for row in given["corpus"].to_pylist()]
    given["corpus"] = table(CORPUS, corpus)
    verdicts, _, note = sieve(given=given)
    assert all(verdicts["keep"].to_pylist()) and note["rate"] == 0.0


def test_queries_without_candidates_are_left_out_and_no_candidates_give_no_verdicts(sieve):
    verdicts, _, note = sieve(candidates=candidate_table(queries=5))
    assert set(verdicts["query_id"].to_pylist()) == {f"q{i:02}" for i in range(5)} and note["queries"] == 5
    verdicts, curves, note = sieve(candidates=candidate_table(queries=0))
    assert (verdicts.num_rows, curves) == (0, [])
    assert (note["judged"], note["rate"], note["queries_with_none_left"]) == (0, 0.0, 0)


def test_a_query_can_lose_all_its_candidates_and_the_build_says_so(sieve):
    """With one candidate, what scores above the positive goes."""
    verdicts, _, note = sieve(candidates=candidate_table(depth=1))
    gone = [bool(cosine(i, i + 20) > cosine(i, i)) for i in range(COUNT)]
    assert [not keep for keep in verdicts["keep"].to_pylist()] == gone and any(gone)
    assert note["queries_with_none_left"] == sum(gone)


def test_candidates_of_a_query_without_a_training_pair_are_an_error(sieve, tmp_path):
    given = world(tmp_path)
    strange = table(CANDIDATES, [("dev", "d03", 1)])
    given["candidates"] = pa.concat_tables([given["candidates"], strange])
    with pytest.raises(DataError, match=r"1 of the 13 queries with candidates have no training pair, .*'dev'"):
        sieve(given=given)
