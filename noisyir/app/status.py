"""Status of a store: recent runs, failures, and times and hit rates of stages."""

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
from noisyir.engine.store import Store
from noisyir.engine.store_locks import RUN_LOCK

_OF_FAILURE = ("error", "traceback", "log")
_SECONDS = 1.0
_AT_WORK = {"PENDING", "RUNNING", "SCHEDULED", "CANCELLING", "PAUSED"}
State = Literal["done", "failed", "running", "killed", "unknown", "cancelled", "unregistered"]


@dataclass(frozen=True)
class RunState:
    """State of one run.

    `unregistered` means that MLflow was lost before the end, `killed` that the process is gone, and `unknown` that
    neither the store nor Prefect can tell. `now` is the running step with its progress, `verb` the command's verb,
    `result` the best system or the judgements, `failed_in` the failed step, and `log` the file with its traceback.
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


@dataclass
class StageRate:
    """Numbers of builds and cache hits of a stage, and the seconds of its builds."""

    stage: str
    built: int = 0
    cached: int = 0
    seconds: list[float] = field(default_factory=list)

    @property
    def hit_rate(self) -> float:
        """Share of cached steps."""
        return self.cached / (self.built + self.cached)


def run_states(store: Store, host: str, since: datetime) -> list[RunState]:
    """Runs since a time, newest first, as seen from `host`."""
    return [_state(store, host, run) for run in _since(store, since)]


def stage_rates(store: Store, since: datetime) -> list[StageRate]:
    """Rates per stage in finished runs since a time, the longest in total first."""
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
    """The time `hours` ago."""
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
        seconds=(datetime.now(UTC) - began).total_seconds() if state == "running" else run["seconds"],
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
    """The result of a finished run in a few words."""
    kept, steps = run.get("kept", {}), run["steps"]
    standings, audit = (built(store, steps.get(kept.get(name))) for name in ("standings", "audit"))
    if standings is not None:
        return standings.result
    if audit is None:
        return f"only {only}" if (only := run.get("tags", {}).get("only")) else ""
    judged = audit.notes.get("judgements")
    if judged is None:
        return "not judged"
    percents = [round(100 * share) for share in judged["interval"] or ()]
    return f"{judged['judged']:,} judged" + (", {} % wrong ({} to {})".format(*percents) if percents else "")


def _living(store: Store, host: str, run: Mapping[str, Any], id_: str) -> State:
    """State of an unfinished run: by its lock, which a folder shows on one machine only, else by Prefect."""
    if run.get("host") != host and not store.locks.everywhere:
        return state_in_prefect(run.get("tags", {}).get("flow_run"))
    return "running" if store.locks.is_held(RUN_LOCK, id_) else "killed"


def state_in_prefect(flow_run: str | None) -> Literal["running", "killed", "unknown"]:
    """State of a flow run on the server PREFECT_API_URL; unknown if it does not answer within a second."""
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
