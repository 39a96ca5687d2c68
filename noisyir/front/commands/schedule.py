"""`noisyir schedule`: run an experiment by the clock, on the workers of a Prefect server."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from noisyir.front.commands import argument, flag, option, prefect_engine


def run(
    experiment: Annotated[str, argument("EXPERIMENT", "a .yaml file that the workers see, or a name")],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings to change")] = None,
    cron: Annotated[str | None, option("CRON", "when: minute, hour, day, month, weekday (default 0 2 * * *)")] = None,
    timezone: Annotated[str | None, option("ZONE", "of the time, such as Europe/Vienna (default UTC)")] = None,
    environment: Annotated[str | None, option("NAME", "a further deployment, such as staging")] = None,
    variable: Annotated[str | None, option("NAME", "a Prefect Variable that lists settings, read each night")] = None,
    min_seeds: Annotated[int, option("N", "seeds that are trained each night, which the gate tests")] = 3,
    fail_on: Annotated[str | None, option("NAME,..", "do not train on data with these faults, as of check")] = None,
    ask_above: Annotated[float | None, option("E", "ask a person if more than the share E may be wrong")] = None,
    remove: Annotated[bool, flag("--remove", "remove the schedule and its deployment")] = False,
) -> int:
    """Train an experiment every night, and promote the model if it passes its gate.

    It is a deployment of the flow `nightly` on the server that PREFECT_API_URL names. The same command changes it.

    example: noisyir schedule pairs.yaml --cron '30 1 * * 1-5' --timezone Europe/Vienna
    """
    from noisyir.methods import experiments

    flows, settings = prefect_engine("scheduling"), tuple(overrides or ())
    if remove:
        print(f"removed     {flows.unschedule(experiment, environment=environment, overrides=settings)}")
        return 0
    if min_seeds < 1:
        raise typer.BadParameter("--min-seeds is 1 or more")
    if environment is not None and not environment.isidentifier():
        raise typer.BadParameter("--environment is a name of letters, digits and underscores")
    if ask_above is not None and not 0 < ask_above < 1:
        raise typer.BadParameter("--ask-above is a share of the pairs, such as 0.1")
    faults = tuple(name.strip() for name in fail_on.split(",")) if fail_on else ()
    night = {"gate": {"min_seeds": min_seeds}, "fail_on": faults, "ask": {"above": ask_above}, "variable": variable}
    when, how = cron or "0 2 * * *", {"timezone": timezone, "environment": environment, "night": night}
    name, resume = flows.schedule(experiment, when, overrides=settings, **how)
    print(f"scheduled   {name}  {when} {timezone or 'UTC'}{resume and f'; still paused: {resume}'}")
    if not experiments.load(experiment, settings).data.promotion_share:
        print("gate        promotes nothing without queries for it: data.promotion_share=0.5 draws them")
    print(f"now         prefect deployment run {shlex.quote(name)}")
    print(f"stop        {flows.removal(experiment, environment, settings)}")
    return 0
