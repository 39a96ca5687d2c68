"""The plan of an experiment or a suite, by the function that its task names."""

from pkgutil import resolve_name

from noisyir.engine.plan import Plan
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.suite import Suite


def pipeline_of(exp: Experiment) -> Plan:
    """The plan of the experiment's trainings."""
    plan: Plan = resolve_name(exp.task.pipeline)(exp)
    return plan


def bench_of(suite: Suite) -> Plan:
    """The plan of a suite."""
    plan: Plan = resolve_name(suite.experiment.task.bench)(suite)
    return plan
