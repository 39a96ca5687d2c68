"""Mining draws from candidates by the sampler and the filters asked for, and tells what it did."""

import numpy as np
import pytest

from noisyir.base.errors import ConfigError
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.mining.samplers import Sampler
from noisyir.mining.settings import MineParams
from noisyir.mining.stages.hard_negatives import MINE
from tests.world import pairs_world, table

DEPTH, QUERIES = 30, 20


def data(score=None, positive=0.9, similarity=1.0, depth=DEPTH):
    """Query n ranks documents d0..d29 alike, `score(rank)` of each; a query more has a pair and no candidates."""
    ids = [f"q{n}" for n in range(QUERIES)]
    of_query = [(f"d{rank - 1}", rank, "positive") for rank in range(1, depth + 1)]
    if score:
        of_query = [(*row, score(row[1]), positive, similarity, 1.0, 1.0, 1.0) for row in of_query]
    world = pairs_world(
        "pairs",
        dict.fromkeys([*ids, "lonely", "dev"], ""),
        splits={"dev": "dev"},
        pairs=[(query, "positive") for query in [*ids, "lonely"]] + [("dev", "d5")],
    )
    return {"candidates": table(CANDIDATES, [(query, *row) for query in ids for row in of_query]), **world}


def falling(rank):
    return 1 - rank / 50


def by_query(negatives):
    found = {}
    for row in negatives.to_pylist():
        found.setdefault(row["query_id"], []).append(row)
    return found


@pytest.fixture
def note_of(store):
    """The note of the only build of `mine`."""

    def note():
        (meta,) = [meta for meta in store.builds.all() if meta.stage == "mine"]
        return meta.notes["negatives"]

    return note


@pytest.mark.parametrize("sampler", list(Sampler.variants()))
def test_every_query_gets_distinct_negatives_in_numbered_draws(run_stage_on, sampler):
    params = MineParams(per_query=5, sampler=sampler)
    given = data(falling)
    tables = [run_stage_on(MINE, params, given, seed=seed)["negatives"] for seed in (1, 1, 2)]
    found = by_query(tables[0])
    assert list(found) == sorted(f"q{n}" for n in range(QUERIES))
    for rows in found.values():
        assert len({row["doc_id"] for row in rows}) == 5
        assert [row["draw"] for row in rows] == [0, 1, 2, 3, 4]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2]) is (sampler == "topk")


@pytest.mark.parametrize("settings", [{}, {"sampler": "softmax"}, {"sampler": {"kind": "trisampler", "scale": "std"}}])
def test_the_order_of_the_candidates_does_not_matter(run_stage_on, settings):
    params, given = MineParams(per_query=4, **settings), data(falling)
    shuffled = given["candidates"].take(np.random.default_rng(3).permutation(QUERIES * DEPTH))
    one, other = (
        run_stage_on(MINE, params, given | {"candidates": table})["negatives"]
        for table in (given["candidates"], shuffled)
    )
    assert one.equals(other)


def test_topk_takes_the_best_ranks_in_their_order(run_stage_on):
    drawn = by_query(run_stage_on(MINE, MineParams(per_query=3, sampler="topk"), data())["negatives"])
    assert {tuple(row["doc_id"] for row in rows) for rows in drawn.values()} == {("d0", "d1", "d2")}


def test_weights_are_chances_of_the_first_draw(run_stage_on):
    params = MineParams(per_query=DEPTH, sampler={"kind": "softmax", "temperature": 0.1})
    drawn = by_query(run_stage_on(MINE, params, data(falling))["negatives"])
    chances = np.exp(10 * falling(np.arange(1, DEPTH + 1)))
    chances /= chances.sum()
    for rows in drawn.values():
        expected = [chances[int(row["doc_id"][1:])] for row in rows]
        np.testing.assert_allclose([row["weight"] for row in rows], expected, rtol=1e-5)


def test_filters_come_first_and_each_candidate_is_counted_by_the_first_that_drops_it(run_stage_on, note_of):
    filters = {"max_score": 0.965, "absolute_margin": 0.02, "relative_margin": 0.05}
    params = MineParams(per_query=10, sampler="topk", filters=filters)
    drawn = by_query(run_stage_on(MINE, params, data(falling))["negatives"])
    # scores are 0.98, 0.96, ..., 0.40; bounds are 0.965, 0.9 - 0.02 = 0.88 and 0.95 * 0.9 = 0.855
    assert {tuple(row["doc_id"] for row in rows) for rows in drawn.values()} == {tuple(f"d{n}" for n in range(7, 17))}
    assert note_of() == {
        "candidates": QUERIES * DEPTH,
        "removed": {"max_score": QUERIES, "absolute_margin": 5 * QUERIES, "relative_margin": QUERIES},
        "drawn": QUERIES * 10,
        "filled_up_by": {},
        "fallback_rate": 0.0,
        "queries": QUERIES + 1,
        "queries_with_too_few": 1,
    }


def verdicts(keeps):
    """Of every query, verdicts on the documents that `keeps` names: {number: keep}."""
    rows = [(f"q{n}", f"d{doc}", 0.5, 0.5, keep, "said") for n in range(QUERIES) for doc, keep in keeps.items()]
    return table(VERDICTS, rows)


SIEVE = {doc: doc != 3 for doc in range(1, 20)}  # d0 and d20 to d29 were not judged
CROSS = {doc: doc > 5 for doc in range(DEPTH)}


def test_all_judges_must_keep_what_is_drawn_and_they_come_before_filters(run_stage_on, note_of):
    given = data(falling) | {"verdicts": {"cross_encoder": verdicts(CROSS), "sieve": verdicts(SIEVE)}}
    params = MineParams(
        per_query=15, sampler="topk", judges=("sieve", "cross_encoder"), filters={"relative_margin": 0.05}
    )
    drawn = by_query(run_stage_on(MINE, params, given)["negatives"])
    # scores are 0.98, 0.96, ...; the bound is 0.95 * 0.9 = 0.855, which d7 and what is ranked behind it keep
    assert {tuple(row["doc_id"] for row in rows) for rows in drawn.values()} == {tuple(f"d{n}" for n in range(7, 20))}
    note = note_of()
    removed = {"sieve": 12, "cross_encoder": 4, "relative_margin": 1}  # the latter two: d1, d2, d4, d5; d6
    assert note["removed"] == {name: count * QUERIES for name, count in removed.items()}
    assert note["drawn"] == 13 * QUERIES and note["queries_with_too_few"] == QUERIES + 1


@pytest.mark.parametrize("sampler", list(Sampler.variants()))
def test_what_a_sieve_keeps_can_be_drawn_by_any_sampler(run_stage_on, sampler):
    params = MineParams(per_query=DEPTH, sampler=sampler, judges=("sieve",))
    drawn = by_query(run_stage_on(MINE, params, data(falling) | {"verdicts": {"sieve": verdicts(SIEVE)}})["negatives"])
    for rows in drawn.values():
        assert {row["doc_id"] for row in rows} == {f"d{doc}" for doc, keep in SIEVE.items() if keep}


def test_judges_that_are_named_and_those_that_are_given_are_the_same(run_stage_on):
    given = data() | {"verdicts": {"sieve": verdicts(SIEVE)}}
    with pytest.raises(ConfigError, match=r"mine\.judges=\[\], but the given verdicts are of \['sieve'\]"):
        run_stage_on(MINE, MineParams(per_query=2), given)
    with pytest.raises(ConfigError, match=r"name \['cross_encoder'\] and give their verdicts, or leave out both"):
        run_stage_on(MINE, MineParams(per_query=2, judges=("sieve", "cross_encoder")), given)


def test_a_query_with_too_few_candidates_gives_all_of_them_and_the_build_says_so(run_stage_on, note_of):
    out = run_stage_on(MINE, MineParams(per_query=10), data(depth=6))
    assert {len(rows) for rows in by_query(out["negatives"]).values()} == {6}
    note = note_of()
    assert (note["drawn"], note["queries"], note["queries_with_too_few"]) == (6 * QUERIES, QUERIES + 1, QUERIES + 1)


def test_what_trisampler_had_to_fill_up_is_told(run_stage_on, note_of):
    # documents score 0.98, 0.96, ...: only from 0.94 on are they nearer to the positive than to the query
    params = MineParams(per_query=4, sampler={"kind": "trisampler", "transitional": 3})
    out = by_query(run_stage_on(MINE, params, data(falling, similarity=0.95, depth=4))["negatives"])
    note = note_of()
    assert note["drawn"] == 4 * QUERIES
    assert note["filled_up_by"]["rank"] == QUERIES
    rest = sum(row["weight"] == 0 for rows in out.values() for row in rows)
    assert note["filled_up_by"]["eq_5"] + QUERIES == rest
    assert note["fallback_rate"] == rest / (4 * QUERIES)


def test_no_candidates_at_all_give_no_negatives(run_stage_on, note_of):
    given = data(falling)
    for sampler in ("uniform", "simans", "trisampler"):
        params = MineParams(per_query=2, sampler=sampler, filters={"max_score": -5.0})
        assert run_stage_on(MINE, params, given)["negatives"].num_rows == 0
        nothing = given | {"candidates": given["candidates"].slice(0, 0)}
        assert run_stage_on(MINE, params, nothing)["negatives"].num_rows == 0


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"sampler": "simans"}, r"mine\.sampler=simans needs scores"),
        ({"filters": {"relative_margin": 0.05}}, r"mine\.filters\.relative_margin needs scores"),
    ],
)
def test_what_needs_scores_asks_for_vectors(run_stage_on, settings, named):
    with pytest.raises(ConfigError, match=f"{named}: give the stage candidates the vectors of a model"):
        run_stage_on(MINE, MineParams(per_query=2, **settings), data())
