"""Steps that travel: what arrives on another machine is what was planned, or is refused."""

import json
from dataclasses import replace

import pytest

from noisyir.base.errors import ConfigError
from noisyir.engine.known_stages import stage_named
from noisyir.engine.meta import Ref
from noisyir.engine.plan import Plan
from noisyir.engine.provenance import without_inputs
from noisyir.engine.stage import Inputs, Output, Step
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.planning import bench_of, pipeline_of
from noisyir.training.launch import SerializedStep
from tests.refusals import refuses


def resolved(step: Step) -> Inputs:
    """The step's inputs as if all of them had been built."""

    def ref(output: Output) -> Ref:
        return Ref(output.artifact, output.stage, output.key, "build", "digest")

    return {
        name: ref(value) if isinstance(value, Output) else
        value if isinstance(value, str | Ref) else {label: ref(made) for label, made in value.items()}
        for name, value in step.inputs.items()
    }  # fmt: skip


def travelled(sent: SerializedStep) -> SerializedStep:
    """As a database hands it over, which sorts the names of objects."""
    return SerializedStep.model_validate(json.loads(json.dumps(sent.model_dump(mode="json"), sort_keys=True)))


PLANNED = [(of, name) for of in ("", "suites") for name in experiments.names(of)] + [("audit", "demo")]


def planned(of: str, name: str) -> Plan:
    with without_inputs():
        if of == "suites":
            return bench_of(experiments.load_suite(name, ["seeds=[0, 1]"]))
        return (audit_pairs if of == "audit" else pipeline_of)(experiments.load(name, []))


@pytest.mark.parametrize(("of", "name"), PLANNED)
def test_every_step_that_noisyir_plans_arrives_as_it_was_sent(of, name):
    for step in planned(of, name).steps:
        inputs = resolved(step)
        there, found = travelled(SerializedStep.of(step, inputs)).open(stage_named)
        assert there == replace(step, inputs=inputs)
        assert found == inputs
        labels = {name: list(value) for name, value in inputs.items() if isinstance(value, dict)}
        assert {name: list(found[name]) for name in labels} == labels  # the order of labels has a meaning


def test_a_worker_with_another_version_refuses():
    step = planned("", "demo").steps[-1]
    sent = SerializedStep.of(step, resolved(step))
    with refuses(ConfigError, "training.other_key"):
        sent.model_copy(update={"key": "abc"}).open(stage_named)
    with refuses(ConfigError, "engine.version_noisyir_no_stage", name="wash"):
        sent.model_copy(update={"stage": "wash"}).open(stage_named)
    with refuses(ConfigError, "training.bad_setting", setting="nobody"):
        sent.model_copy(update={"params": {**sent.params, "nobody": 1}}).open(stage_named)
