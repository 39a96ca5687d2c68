"""Challengers become champions, or do not; champions step back.  Every decision is logged before it takes effect."""

import getpass
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from noisyir.engine.outside_errors import is_from_outside, one_line, without_password
from noisyir.engine.store import Store
from noisyir.errors import NoisyirError, StoreError
from noisyir.eval.promotion import chosen_measure, rule
from noisyir.eval.settings import PromoteParams
from noisyir.tracking.backend import Backend, connect, exclusive
from noisyir.tracking.card import Version
from noisyir.tracking.decision import Decision
from noisyir.tracking.kinds import Kind, kind_of
from noisyir.tracking.measured import Yardstick, comparison_id, look_of, measured, measures_of
from noisyir.tracking.registry import CHALLENGER, CHAMPION, champion_of, find_version


def promote(
    name: str,
    version: str | None,
    params: PromoteParams,
    *,
    store: Store,
    flow_run: str | None = None,
    forced: bool = False,
) -> Decision:
    """Decide whether a version, the challenger unless one is named, becomes champion, and do it.

    forced: also one that is no better than BM25 or than the untrained model.
    Nothing but MLflow is needed of the models; the store keeps the log.  StoreError or ConfigError where there is
    nothing to decide: no such version, or a measure that was not taken.
    """
    kind = kind_of(name)
    with _registry(store) as backend:
        found = find_version(backend, f"models:/{kind.name}" + (f"/{version}" if version else f"@{CHALLENGER}"))
        challenger = Version(str(found.version), found.tags)
        champion = champion_of(backend, kind.name)
        line = _line(kind, challenger, champion, flow_run)
        if champion and champion.version == challenger.version:
            return Decision(
                verdict="already champion", reasons=("nothing to do",), champion_after=champion.version, **line
            )
        stepped_back = None if version else _rolled_back(store, kind, challenger)
        if stepped_back:
            reason = f"it was rolled back at {stepped_back}; --version {challenger.version} has it judged nevertheless"
            after = champion.version if champion else None
            decision = Decision(verdict="refused", reasons=(reason,), champion_after=after, **line)
        else:
            decision = _judged(
                backend, kind, challenger, champion, params, line, log=decisions(store, kind.name), forced=forced
            )
        _carry_out(backend, store, decision)
    return decision


def roll_back(name: str, *, store: Store, flow_run: str | None = None) -> Decision:
    """Make the champion before the present one champion again, as the log has it.

    StoreError where there is no champion, or the log knows none before it.
    """
    kind = kind_of(name)
    with _registry(store) as backend:
        champion = champion_of(backend, kind.name)
        if champion is None:
            raise StoreError(f"{kind.name} has no champion to roll back")
        earlier = before(decisions(store, kind.name), champion.version)
        if earlier is None:
            raise StoreError(
                f"{kind.name} v{champion.version}: the log in {store.url} knows no champion before it; "
                f"promote another: noisyir promote {kind.name} --version N"
            )
        restored = find_version(backend, f"models:/{kind.name}/{earlier}")
        decision = Decision(
            verdict="rolled back",
            reasons=(f"v{earlier} is champion again",),
            champion_after=earlier,
            versions=_facts(champion, Version(earlier, restored.tags)),
            **_line(kind, champion, champion, flow_run),
        )
        _carry_out(backend, store, decision)
    return decision


def before(log: Sequence[Mapping[str, Any]], champion: str) -> str | None:
    """The version that was champion before this champion, by a log, newest first; None where it knows none.

    The log is played from its beginning.  What it says was champion before each line counts more than what the line
    before said comes after: a process may die between its line and the alias, and people set aliases by hand.  So a
    roll-back is left out whose champion was still champion afterwards.
    """
    stack: list[str] = []
    lines = [line for line in reversed(log) if line["verdict"] in ("promoted", "rolled back")]
    for line, found_next in zip(lines, [*(line["champion_before"] for line in lines[1:]), champion], strict=True):
        _make_top(stack, line["champion_before"])
        if line["verdict"] == "promoted":
            stack.append(line["champion_after"])
        elif found_next != line["champion_before"]:
            stack.pop()
            _make_top(stack, line["champion_after"])
    _make_top(stack, champion)
    return stack[-2] if len(stack) > 1 else None


def _make_top(stack: list[str], champion: str | None) -> None:
    """Take champions off until this one is the last; one that is not there had none before that the log knows."""
    while stack and stack[-1] != champion:
        stack.pop()
    if not stack and champion is not None:
        stack.append(champion)


def decisions(store: Store, name: str | None = None) -> list[dict[str, Any]]:
    """The log, newest first: of one registered model, or of all."""
    wanted = kind_of(name).name if name else None
    return [line for line in store.promotions() if wanted in (None, line["model"])]


@contextmanager
def _registry(store: Store) -> Iterator[Backend]:
    """MLflow, held against others of this machine.  StoreError for what it refuses."""
    backend = connect(store.home)
    try:
        with exclusive(store.home), backend.current():
            yield backend
    except Exception as error:
        if isinstance(error, NoisyirError) or not is_from_outside(error):
            raise
        raise StoreError(f"MLflow at {without_password(backend.uri)}: {one_line(error)}") from error


def _rolled_back(store: Store, kind: Kind, challenger: Version) -> str | None:
    """When the version was rolled back, if that was the last that became of it."""
    became = ("promoted", "rolled back")
    lines = (line for line in decisions(store, kind.name) if line["version"] == challenger.version)
    last = next((line for line in lines if line["verdict"] in became), None)
    return str(last["when"]) if last and last["verdict"] == "rolled back" else None


def _line(kind: Kind, about: Version, champion: Version | None, flow_run: str | None) -> dict[str, Any]:
    """What every decision says."""
    return {
        "model": kind.name,
        "version": about.version,
        "champion_before": champion.version if champion else None,
        "when": datetime.now(UTC).isoformat(timespec="microseconds"),
        "who": f"{getpass.getuser()}@{socket.gethostname()}",
        "flow_run": flow_run,
    }


def _judged(
    backend: Backend,
    kind: Kind,
    challenger: Version,
    champion: Version | None,
    params: PromoteParams,
    line: Mapping[str, Any],
    *,
    log: Sequence[Mapping[str, Any]],
    forced: bool,
) -> Decision:
    """The gate's ruling on a version, with what it rests on."""
    known = measures_of(backend, challenger, params.split)
    by = Yardstick(chosen_measure(known, params.measure, kind.measure) if known else params.measure or "", params.split)
    own = measured(backend, kind, challenger, by)
    other = measured(backend, kind, champion, by) if champion else None
    comparison = comparison_id(own, other, by) if other else None
    yard = f"{own.eval_digest}/{by.split}"
    look = look_of(comparison, yard, log) if comparison else 1
    ruling = rule(own, other, params, look=look, forced=forced)
    return Decision(
        verdict="promoted" if ruling.promoted else "refused",
        reasons=ruling.reasons,
        champion_after=challenger.version if ruling.promoted else line["champion_before"],
        measure=by.measure or None,
        split=by.split,
        comparison=comparison,
        yard=yard,
        numbers=ruling.numbers,
        thresholds=params.model_dump(mode="json"),
        versions=_facts(*(one for one in (champion, challenger) if one)),
        **line,
    )


def _carry_out(backend: Backend, store: Store, decision: Decision) -> None:
    """Log, then set the alias, then tell it by tags: who dies in between has left a line that says what was meant."""
    when = datetime.fromisoformat(decision.when)
    store.record_promotion(f"{when:%Y%m%dT%H%M%S%f}-{decision.model}", asdict(decision))
    if decision.champion_after not in (None, decision.champion_before):
        backend.client.set_registered_model_alias(decision.model, CHAMPION, decision.champion_after)
    tags = {"promotion": decision.verdict, "promotion_summary": decision.summary, "promotion_decided_at": decision.when}
    if decision.verdict == "promoted":
        tags["promoted_at"] = decision.when
    for name, value in tags.items():
        backend.client.set_model_version_tag(decision.model, decision.version, name, value)


def _facts(*versions: Version) -> dict[str, dict[str, str]]:
    told = ("artifact_key", "artifact_digest", "eval_digest", "evaluation_run", "experiment", "recipe", "seed")
    return {one.version: {name: one.tags[name] for name in told if name in one.tags} for one in versions}
