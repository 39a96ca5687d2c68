"""`noisyir promote`: promote a registered model to champion, or restore the previous champion."""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from noisyir.base.errors import ConfigError
from noisyir.front.commands import Json, StoreUrl, argument, flag, open_store, option, print_json

if TYPE_CHECKING:
    from noisyir.engine.store import Store
    from noisyir.evaluation.settings import PromoteParams


def run(
    model: Annotated[
        str, argument("NAME", "noisyir-retriever (the default), noisyir-ranker or noisyir-reader")
    ] = "noisyir-retriever",
    version: Annotated[str | None, option("N", "this version (default: the challenger, the newest)")] = None,
    measure: Annotated[str | None, option("M", "the measure (default nDCG@10, of readers the first F1)")] = None,
    split: Annotated[
        Literal["promotion", "dev"] | None, option("promotion|dev", "the queries of the gate (default promotion)")
    ] = None,
    min_gain: Annotated[float | None, option("X", "the gain must be above X (default 0.01)")] = None,
    min_seeds: Annotated[int | None, option("N", "seeds that both must be measured with (default 3)")] = None,
    force: Annotated[bool, flag("--force", "also a model that is no better than BM25 or the untrained one")] = False,
    experiment: Annotated[str | None, option("NAME", "the challenger and champion of this experiment")] = None,
    go_back: Annotated[bool, flag("--roll-back", "make the champion before this one champion again")] = False,
    log: Annotated[bool, flag("--log", "show all decisions, newest first, and decide nothing")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Make a registered model its experiment's champion, if it is better by more than chance.

    A champion that other data measured is measured again on the challenger's, without training. Exit code 1 if
    it is refused, with the reasons on stderr.

    example: noisyir promote noisyir-retriever --min-gain 0.005
    """
    from noisyir.app.console import observer_for
    from noisyir.app.rescoring import promote_on_data_of_today
    from noisyir.app.runs import Execution
    from noisyir.registry.promote import roll_back

    if go_back and log:
        raise typer.BadParameter("--roll-back and --log exclude each other")
    opened = open_store(store)
    if log:
        return _print_log(opened, model, as_json=as_json)
    if go_back:
        decision = roll_back(model, store=opened, experiment=experiment)
    else:
        params = _params(measure=measure, split=split, min_gain=min_gain, min_seeds=min_seeds)
        with observer_for(sys.stderr) as observer:
            execution = Execution(store=opened, observer=observer)
            decision = promote_on_data_of_today(model, version, params, execution, experiment=experiment, forced=force)
    if as_json:
        print_json(asdict(decision))
    elif decision.verdict != "refused":
        print(decision.summary)
    if decision.verdict == "refused":
        print(f"noisyir: {decision.summary}", file=sys.stderr)
        return 1
    return 0


def _print_log(store: Store, model: str, *, as_json: bool) -> int:
    from noisyir.registry.promote import Decision, decisions

    lines = decisions(store, model)
    if as_json:
        return print_json(lines)
    for line in lines:
        print(f"{line['when']}  {line['who']}  {Decision.from_record(line).summary}")
    return 0


def _params(**given: Any) -> PromoteParams:
    """Return the settings given on the command line.

    Raises:
        ConfigError: If a value is out of range.
    """
    from pydantic import ValidationError

    from noisyir.evaluation.settings import PromoteParams

    try:
        return PromoteParams(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise ConfigError("front.bad_option", option=option, input=first["input"], msg=first["msg"]) from error
