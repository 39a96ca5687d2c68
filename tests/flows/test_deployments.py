"""What is deployed exists, imports, and takes the parameters that it is deployed with."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOYMENTS = yaml.safe_load((ROOT / "infra" / "prefect.yaml").read_text())["deployments"]


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=lambda deployment: deployment["name"])
def test_every_deployment_is_of_a_flow_that_takes_its_parameters(prefect_api, deployment):
    from prefect.flows import load_flow_from_entrypoint

    flow = load_flow_from_entrypoint(deployment["entrypoint"])
    assert flow.name == deployment["entrypoint"].rpartition(".")[2]
    if flow.name != "dispatched_step":  # of which nobody fills in the form
        unsaid = [name for name, field in flow.parameters.properties.items() if not field.get("description")]
        assert not unsaid
    if given := deployment.get("parameters"):  # none: a parent run fills them in
        flow.validate_parameters(flow_parameters(flow, given))


def flow_parameters(flow, given):
    from prefect.utilities.callables import get_call_parameters

    return get_call_parameters(flow.fn, (), given)


def test_nothing_is_scheduled_until_somebody_switches_it_on():
    schedules = yaml.safe_load((ROOT / "infra" / "bootstrap.yaml").read_text())["schedules"]
    assert schedules and not any(schedule["active"] for schedule in schedules.values())
    assert not any("schedules" in deployment for deployment in DEPLOYMENTS)  # would switch people's off


def test_compose_publishes_ports_on_loopback_only():
    services = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text())["services"]
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert len(published) == 2 and all(port.startswith("127.0.0.1:") for port in published)
