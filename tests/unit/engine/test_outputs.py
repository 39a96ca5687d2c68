"""What a stage writes under some settings alone: planned and checked there, and unknown to the key."""

from dataclasses import replace

import pyarrow as pa
import pytest

from noisyir.base.artifact import STRING, Artifact
from noisyir.base.settings import Params
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Stage

ALWAYS, SOMETIMES = Artifact("always", 1, {"name": STRING}), Artifact("more", 1, {"name": STRING})
ROWS = pa.table({"name": ["a"]})


class Asked(Params):
    """Whether there is more."""

    more: bool = False


def write(job):
    job.write("always", ROWS)
    if job.params.more:
        job.write("more", ROWS)


BEFORE = Stage("asked", 1, Asked, {}, {"always": ALWAYS}, lambda job: job.write("always", ROWS))
STAGE = replace(BEFORE, run=write, optional_writes={"more": SOMETIMES}, when=lambda params: params.more)


def step_of(stage, *, more):
    plan = Plan(0)
    outputs = plan.add(stage, Asked(more=more))
    return plan.steps[0], set(outputs)


def test_the_output_is_planned_and_written_under_its_settings_alone(store):
    for more, names in ((False, {"always"}), (True, {"always", "more"})):
        step, planned = step_of(STAGE, more=more)
        assert planned == names == set(run_stage(step, {}, store=store, runtime=Runtime()).meta.artifacts)


def test_a_build_of_before_there_was_such_an_output_stays_good(store):
    before, _ = step_of(BEFORE, more=False)
    run_stage(before, {}, store=store, runtime=Runtime())
    step, _ = step_of(STAGE, more=False)
    assert step.key == before.key and run_stage(step, {}, store=store, runtime=Runtime()).cached


def test_to_forget_it_or_to_write_it_unasked_is_an_error(store):
    for more in (True, False):
        wrong = replace(STAGE, when=lambda params: not params.more)
        with pytest.raises((AssertionError, KeyError)):
            run_stage(step_of(wrong, more=more)[0], {}, store=store, runtime=Runtime())
