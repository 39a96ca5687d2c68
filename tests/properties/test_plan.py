import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import ConfigError
from noisyir.base.settings import Params
from noisyir.data.artifacts import QUERIES
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.stage import Job, Stage
from noisyir.models.artifacts import MODEL
from tests.refusals import refuses


class Numbers(Params):
    a: int = 0
    b: float = 0.0


def nothing(job: Job[Numbers]) -> None: ...


def source(digest: str = "d", version: int = 1) -> Stage:
    return Stage("source", version, Numbers, {}, {"queries": QUERIES}, nothing, raw={"digest": lambda _: digest})


SEEDED = Stage("seeded", 1, Numbers, {"queries": QUERIES.all()}, {"model": MODEL}, nothing, seeded=True)
LAST = Stage("last", 1, Numbers, {"model": MODEL.all()}, {"model": MODEL}, nothing)


def chain(a: int = 0, b: float = 0.0, seed: int = 0, digest: str = "d") -> list[str]:
    plan = Plan(seed)
    queries = plan.add(source(digest), Numbers(a=a))["queries"]
    model = plan.add(SEEDED, Numbers(b=b), queries=queries)["model"]
    plan.add(LAST, Numbers(), model=model)
    return [step.key for step in plan.steps]


@given(
    st.integers(-(10**18) + 1, 10**18 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(0, 99),
    st.text(),
)
def test_keys_are_pure(a, b, seed, digest):
    assert chain(a, b, seed, digest) == chain(a, b, seed, digest)


@given(st.integers(1, 10**18 - 2), st.integers(1, 99))
def test_a_change_moves_the_keys_of_what_depends_on_it_and_no_other(a, seed):
    base = chain()
    assert [x != y for x, y in zip(base, chain(a=a), strict=True)] == [True, True, True]
    assert [x != y for x, y in zip(base, chain(b=float(a)), strict=True)] == [False, True, True]
    assert [x != y for x, y in zip(base, chain(seed=seed), strict=True)] == [False, True, True]
    assert [x != y for x, y in zip(base, chain(digest="e"), strict=True)] == [True, True, True]


def test_a_bumped_version_moves_the_key():
    plan = Plan(0)
    plan.add(source(version=2), Numbers())
    assert plan.steps[0].key != chain()[0]


def test_to_selects_exactly_the_ancestors():
    plan = Plan(0)
    queries = plan.add(source(), Numbers())["queries"]
    one = plan.add(SEEDED, Numbers(), "one", queries=queries)["model"]
    plan.add(SEEDED, Numbers(b=1.0), "two", queries=queries)
    plan.add(LAST, Numbers(), model=one)
    assert Choice(to="last").selected(plan) == {"source", "seeded@one", "last"}
    assert Choice(to="seeded").selected(plan) == {"source", "seeded@one", "seeded@two"}
    assert Choice(only="seeded@two").selected(plan) == {"seeded@two"}


def test_an_unknown_stage_is_refused_with_a_suggestion():
    plan = Plan(0)
    plan.add(source(), Numbers())
    with refuses(ConfigError, "engine.no_stage_pipeline", others=" (did you mean source?); it has source"):
        Choice(to="sourc").selected(plan)
    with refuses(ConfigError, "engine.only_exclude_each_other"):
        Choice(to="source", only="source").selected(plan)


def test_a_pipeline_that_wires_a_stage_wrongly_fails_at_once():
    with pytest.raises(AssertionError, match=r"missing \{'queries'\}"):
        Plan(0).add(SEEDED, Numbers())
    with pytest.raises(AssertionError, match=r"unknown inputs \{'model'\}"):
        Plan(0).add(source(), Numbers(), model="m")
    plan = Plan(0)
    plan.add(source(), Numbers())
    with pytest.raises(AssertionError, match="give it a label"):
        plan.add(source("e"), Numbers())


def test_an_equal_call_is_one_step_under_whatever_label():
    plan = Plan(0)
    queries = plan.add(source(), Numbers())["queries"]
    first = plan.add(SEEDED, Numbers(), "one", queries=queries)
    assert plan.add(SEEDED, Numbers(), "two", queries=queries) == plan.add(SEEDED, Numbers(), queries=queries) == first
    assert [step.name for step in plan.steps] == ["source", "seeded@one"]
    plan.seed = 1
    assert plan.add(SEEDED, Numbers(), "two", queries=queries) != first
    assert [step.name for step in plan.steps] == ["source", "seeded@one", "seeded@two"]
