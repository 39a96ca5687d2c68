"""Status of a store: recent runs, failures and where to look, how long stages take and how often they are reused."""

import base64
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Literal
from urllib.error import URLError
from urllib.request import Request, urlopen

from noisyir.app.lookup import built
from noisyir.app.runs import in_words
from noisyir.base.durations import duration
from noisyir.engine.store import Store
from noisyir.engine.store_locks import RUN_LOCK

_OF_FAILURE = ("error", "traceback", "log")
_SECONDS = 1.0
_AT_WORK = {"PENDING", "RUNNING", "SCHEDULED", "CANCELLING", "PAUSED"}
State = Literal["done", "failed", "running", "killed", "unknown", "cancelled", "unregistered"]


@dataclass(frozen=True)
class RunState:
    """One pipeline run.

    state: `unregistered` where MLflow was lost before the end; `killed` where its process is gone without having ended
    the run; `unknown` where that was on another host, the store is a folder, and Prefect cannot say.
    now: the step that it is at, and how far.  verb: of the command that began it, empty where Python did.
    result: the best system of a run, the judgements of an audit; empty where it did not end, or made neither.
    failed_in: the step that raised; log: the file that holds its traceback.
    seconds: until it ended, or until its record was last written.
    """

    id: str
    experiment: str
    began: datetime
    state: State
    seconds: float
    built: int
    cached: int
    failed_in: str | None
    error: str | None
    page: str | None
    facts: Mapping[str, str]
    log: str | None = None
    now: str = ""
    verb: str = ""
    result: str = ""

    @property
    def took(self) -> str:
        """How long it took, or has taken so far."""
        return duration(self.seconds)


@dataclass
class StageRate:
    """How often a stage was built and how often reused in some runs, and the seconds of its builds."""

    stage: str
    built: int = 0
    cached: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """The share of its steps that were in the store already."""
        return self.cached / (self.built + self.cached)


def run_states(store: Store, host: str, since: datetime) -> list[RunState]:
    """The runs that began at or after `since`, newest first, as seen from `host`."""
    return [_state(store, host, run) for run in _since(store, since)]


def stage_rates(store: Store, since: datetime) -> list[StageRate]:
    """One row a stage, for the finished runs that began at or after `since`, the longest in all first."""
    rates: dict[str, StageRate] = {}
    for run in _since(store, since):
        for step in run["steps"].values():
            if step["cached"] is not None:
                rate = rates.setdefault(step["stage"], StageRate(step["stage"]))
                rate.cached += step["cached"]
                rate.built += not step["cached"]
                if not step["cached"] and step.get("seconds") is not None:
                    rate.seconds.append(step["seconds"])
    return sorted(rates.values(), key=lambda rate: (-sum(rate.seconds), rate.stage))


def hours_ago(hours: float) -> datetime:
    """That many hours before now."""
    return datetime.now(UTC) - timedelta(hours=hours)


def _since(store: Store, since: datetime) -> Iterable[dict[str, Any]]:
    return [run for run in store.runs.all() if datetime.fromisoformat(run["began"]) >= since]


def _state(store: Store, host: str, run: Mapping[str, Any]) -> RunState:
    began = datetime.fromisoformat(run["began"])
    id_ = run.get("id") or f"{began:%Y%m%dT%H%M%S%f}-{run['experiment']}"
    steps = [step["cached"] for step in run["steps"].values()]
    state = _living(store, host, run, id_) if run["status"] == "running" else run["status"]
    return RunState(
        id=id_,
        experiment=run["experiment"],
        began=began,
        state=state,
        seconds=run["seconds"],
        built=steps.count(False),
        cached=steps.count(True),
        failed_in=run.get("failed_in"),
        error=run["facts"].get("error"),
        page=run.get("tags", {}).get("flow_run_url"),
        facts={name: value for name, value in run["facts"].items() if name not in _OF_FAILURE},
        log=run["facts"].get("log"),
        verb=(run.get("command") or "noisyir -").split()[1].strip("-"),
        now=in_words(store.runs.progress(id_)) if state in ("running", "unknown") else "",
        result=_result(store, run) if state == "done" else "",
    )


def _result(store: Store, run: Mapping[str, Any]) -> str:
    """The result of a run that is done, in a few words."""
    kept, steps = run.get("kept", {}), run["steps"]
    standings, audit = (built(store, steps.get(kept.get(name))) for name in ("standings", "audit"))
    if standings is not None:
        return standings.result
    if audit is None:
        return ""
    judged = audit.notes.get("judgements")
    if judged is None:
        return "not judged"
    percents = [round(100 * share) for share in judged["interval"] or ()]
    return f"{judged['judged']:,} judged" + (", {} % wrong ({} to {})".format(*percents) if percents else "")


def _living(store: Store, host: str, run: Mapping[str, Any], id_: str) -> State:
    """A run holds its lock while it lives; one of a folder is seen on the machine that holds it only."""
    if run.get("host") != host and not store.locks.everywhere:
        return state_in_prefect(run.get("tags", {}).get("flow_run"))
    return "running" if store.locks.is_held(RUN_LOCK, id_) else "killed"


def state_in_prefect(flow_run: str | None) -> Literal["running", "killed", "unknown"]:
    """Whether a flow run goes on; unknown where there is none, or no server that says so in a second.

    The server is that of PREFECT_API_URL; PREFECT_API_AUTH_STRING is its login, where it asks for one.
    """
    address = os.environ.get("PREFECT_API_URL")
    if not flow_run or not address or not re.match("https?://", address):
        return "unknown"
    asked = Request(f"{address.rstrip('/')}/flow_runs/{flow_run}")
    if login := os.environ.get("PREFECT_API_AUTH_STRING"):
        asked.add_header("Authorization", f"Basic {base64.b64encode(login.encode()).decode()}")
    try:
        with urlopen(asked, timeout=_SECONDS) as answer:
            return "running" if json.load(answer).get("state_type") in _AT_WORK else "killed"
    except (URLError, OSError, ValueError):
        return "unknown"
