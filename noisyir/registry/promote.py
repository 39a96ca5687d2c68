"""Promotion of challengers and roll-back of champions; every decision is logged before it takes effect."""

import getpass
import re
import shlex
import socket
import tempfile
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from typing import Any, Literal, Self

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import NoisyirError, StoreError
from noisyir.engine.meta import json_digest
from noisyir.engine.outside_errors import is_from_outside, one_line, without_password
from noisyir.engine.store import Store
from noisyir.evaluation.promotion import Numbers, VersionMetrics, chosen_measure, rule, shared_seeds
from noisyir.evaluation.recommendation import START, model_as_is, model_of
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry.backend import Backend, connect, exclusive
from noisyir.registry.card import Version
from noisyir.registry.evaluation import PER_QUERY
from noisyir.registry.kinds import Kind, kind_of
from noisyir.registry.registry import CHALLENGER, CHAMPION, alias_of, champion_of, find_version

_BEFORE = "promoted_over"  # a champion's tag with the number of the champion before it
_ROLLED_BACK = "promotion_rolled_back_at"  # a rolled-back version's tag, until it is promoted again
Verdict = Literal["promoted", "refused", "already champion", "rolled back"]


@dataclass(frozen=True)
class Decision:
    """A decision on a registered model's version, with its grounds: a line of the log.

    `versions` are tags of the compared versions; the digest `comparison` recurs if a decision is repeated, and `yard`
    identifies the queries.
    """

    model: str
    version: str
    verdict: Verdict
    reasons: tuple[str, ...]
    champion_before: str | None
    champion_after: str | None
    when: str
    who: str
    flow_run: str | None
    measure: str | None = None
    split: str | None = None
    numbers: Numbers | None = None
    thresholds: Mapping[str, Any] | None = None
    versions: Mapping[str, Mapping[str, str]] | None = None
    comparison: str | None = None
    yard: str | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """A line of the log."""
        numbers = record["numbers"]
        return cls(**{**record, "reasons": tuple(record["reasons"]), "numbers": numbers and Numbers(**numbers)})

    @property
    def summary(self) -> str:
        """The decision in one line."""
        found = self.numbers
        parts = [f"{self.model} v{self.version} {self.verdict}"]
        if found is not None:
            parts[0] += f": {self.measure} ({self.split}) {found.mean:.4f} over {found.queries:,} queries"
            if found.gain is not None:
                interval = f"[{found.low:+.4f}, {found.high:+.4f}] over {found.seeds} seed{'s'[: found.seeds > 1]}"
                parts.append(
                    f"champion v{self.champion_before} {found.champion_mean:.4f}, gain {found.gain:+.4f} {interval}"
                )
        return "; ".join([*parts, *self.reasons])


@dataclass(frozen=True)
class Rescored:
    """A champion's weights, measured on the challenger's data: values per query by seed of its recipe.

    `trained` are the queries that it was trained on, by which it is not judged.
    """

    champion: str
    eval_digest: str
    values: Mapping[str, pa.Table]
    trained: frozenset[str] = frozenset()


def promote(
    name: str,
    version: str | None,
    params: PromoteParams,
    *,
    store: Store,
    experiment: str | None = None,
    rescored: Rescored | None = None,
    flow_run: str | None = None,
    forced: bool = False,
) -> Decision:
    """Decide whether a version becomes its experiment's champion, and do it; the store keeps the log.

    Args:
        name: The kind of model.
        version: The version; None: the challenger of `experiment`, or the newest version of all.
        experiment: An experiment's name; None: the version's own.
        rescored: The champion's measures on the challenger's data, if others measured it.
        flow_run: The Prefect flow run that asks.
        forced: Also promote a model that is no better than BM25 or than the untrained model.
    """
    kind = kind_of(name)
    with _registry(store) as backend:
        challenger, champion = _contenders(backend, kind, version, experiment)
        line = _line(kind, challenger, champion, flow_run)
        if champion and champion.version == challenger.version:
            return Decision(
                verdict="already champion", reasons=("nothing to do",), champion_after=champion.version, **line
            )
        stepped_back = None if version else challenger.tags.get(_ROLLED_BACK)
        if stepped_back:
            typed = _command(kind, challenger, params, forced=forced)
            reason = f"it was rolled back at {stepped_back}; {typed} has it judged nevertheless"
            decision = Decision(verdict="refused", reasons=(reason,), champion_after=line["champion_before"], **line)
        else:
            log = decisions(store, kind.name)
            decision = _judged(
                backend, kind, challenger, champion, params, line, log=log, rescored=rescored, forced=forced
            )
        _carry_out(backend, store, decision, experiment or challenger.tags.get("experiment"))
    return decision


def to_rescore(
    name: str, version: str | None, experiment: str | None, *, store: Store
) -> tuple[Version, Version, list[Version]] | None:
    """The challenger, the champion and the seeds of its recipe; None if the same data measured both."""
    kind = kind_of(name)
    with _registry(store) as backend:
        challenger, champion = _contenders(backend, kind, version, experiment)
        theirs = champion.tags.get("eval_digest") if champion else None
        if champion is None or not theirs or theirs == challenger.tags.get("eval_digest", theirs):
            return None
        newest = {one.tags.get("seed"): one for one in [*_alike(backend, kind, champion), champion]}
        return challenger, champion, list(newest.values())


def _contenders(
    backend: Backend, kind: Kind, version: str | None, experiment: str | None
) -> tuple[Version, Version | None]:
    """The challenger, and the champion of its experiment, if there is one."""
    which = f"/{version}" if version else f"@{alias_of(CHALLENGER, experiment)}"
    found = find_version(backend, f"models:/{kind.name}{which}")
    own = experiment or found.tags.get("experiment")
    return Version(str(found.version), found.tags), champion_of(backend, kind.name, own)


def roll_back(name: str, *, store: Store, experiment: str | None = None, flow_run: str | None = None) -> Decision:
    """Make the previous champion champion again: of an experiment, or the one without a name.

    Raises:
        StoreError: If there is no champion, or no champion before it.
    """
    kind = kind_of(name)
    with _registry(store) as backend:
        champion = champion_of(backend, kind.name, experiment)
        if champion is None:
            raise StoreError("registry.no_champion", kind=kind.name)
        if (earlier := champion.tags.get(_BEFORE)) is None:
            raise StoreError("registry.no_earlier_champion", kind=kind.name, version=champion.version)
        restored = find_version(backend, f"models:/{kind.name}/{earlier}")
        decision = Decision(
            verdict="rolled back",
            reasons=(f"v{earlier} is champion again",),
            champion_after=earlier,
            versions=_facts(champion, Version(earlier, restored.tags)),
            **_line(kind, champion, champion, flow_run),
        )
        _carry_out(backend, store, decision, experiment or champion.tags.get("experiment"))
    return decision


def decisions(store: Store, name: str | None = None) -> list[dict[str, Any]]:
    """The log, newest first, of one registered model or of all."""
    wanted = kind_of(name).name if name else None
    return [line for line in store.promotions.all() if wanted in (None, line["model"])]


@contextmanager
def _registry(store: Store) -> Iterator[Backend]:
    """MLflow, locked against other processes of this machine.

    Raises:
        StoreError: If MLflow fails.
    """
    backend = connect(store.home)
    try:
        with exclusive(store.home), backend.current():
            yield backend
    except Exception as error:
        if isinstance(error, NoisyirError) or not is_from_outside(error):
            raise
        raise StoreError("registry.mlflow_failed", uri=without_password(backend.uri), fault=one_line(error)) from error


def _command(kind: Kind, version: Version, params: PromoteParams, *, forced: bool) -> str:
    """The command that judges a version by these thresholds; the error rate has no option."""
    given = params.model_dump(exclude_defaults=True, exclude={"error_rate"})
    options = [f"--{name.replace('_', '-')} {value}" for name, value in given.items()] + ["--force"] * forced
    return " ".join([f"noisyir promote {kind.name} --version {version.version}", *options])


def _line(kind: Kind, about: Version, champion: Version | None, flow_run: str | None) -> dict[str, Any]:
    """The fields of every decision."""
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
    rescored: Rescored | None,
    forced: bool,
) -> Decision:
    """The gate's ruling on a version."""
    known = measures_of(backend, challenger, params.split)
    by = Yardstick(chosen_measure(known, params.measure, kind.measure) if known else params.measure or "", params.split)
    own = measured(backend, kind, challenger, by)
    other = measured(backend, kind, champion, by) if champion else None
    notes: tuple[str, ...] = ()
    if other and rescored and (rescored.champion, rescored.eval_digest) == (other.version, own.eval_digest):
        other = _without(_on_other_data(other, rescored, by), rescored.trained)
        notes = (f"the champion v{other.version} was measured again, on the challenger's data",)
        if known_to_it := len({*chain(*own.values.values())} & rescored.trained):
            own = _without(own, rescored.trained)
            notes += (f"{known_to_it} queries are left out, because v{other.version} was trained on them",)
    comparison = comparison_id(own, other, by) if other else None
    yard = f"{own.eval_digest}/{by.split}"
    look = look_of(comparison, yard, log) if comparison else 1
    ruling = rule(own, other, params, look=look, forced=forced)
    if other and ruling.numbers is None and (common := len(shared_seeds(own, other))):
        fewer = params.model_copy(update={"min_seeds": common})
        if rule(own, other, fewer, look=look).numbers:  # seeds alone are missing
            typed = _command(kind, challenger, fewer, forced=forced)
            notes += (f"where the champion's data is gone, {typed} decides by what both have",)
    return Decision(
        verdict="promoted" if ruling.promoted else "refused",
        reasons=(*ruling.reasons, *notes),
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


def _carry_out(backend: Backend, store: Store, decision: Decision, experiment: str | None) -> None:
    """Log, then write the version's tags, the alias last, so that a kill in between leaves the decision in the log."""
    when = datetime.fromisoformat(decision.when)
    store.promotions.record(f"{when:%Y%m%dT%H%M%S%f}-{decision.model}", asdict(decision))
    tags: dict[str, str | None] = {"promotion": decision.verdict, "promotion_summary": decision.summary}
    tags["promotion_decided_at"] = decision.when
    if decision.verdict == "promoted":
        tags |= {"promoted_at": decision.when, _BEFORE: decision.champion_before, _ROLLED_BACK: None}
    elif decision.verdict == "rolled back":
        tags[_ROLLED_BACK] = decision.when
    for name, value in tags.items():
        if value is None:
            backend.client.delete_model_version_tag(decision.model, decision.version, name)
        else:
            backend.client.set_model_version_tag(decision.model, decision.version, name, value)
    if decision.champion_after not in (None, decision.champion_before):
        plain = champion_of(backend, decision.model, None)
        mine = plain is None or plain.tags.get("experiment") == experiment  # else another experiment's
        for alias in (alias_of(CHAMPION, experiment), *((CHAMPION,) if mine else ())):
            backend.client.set_registered_model_alias(decision.model, alias, decision.champion_after)


def _facts(*versions: Version) -> dict[str, dict[str, str]]:
    kept = ("artifact_key", "artifact_digest", "eval_digest", "evaluation_run", "experiment", "recipe", "seed")
    return {each.version: {name: each.tags[name] for name in kept if name in each.tags} for each in versions}


@dataclass(frozen=True)
class Yardstick:
    """A measure and a split."""

    measure: str
    split: str


def measures_of(backend: Backend, version: Version, split: str) -> list[str]:
    """The version's measures on a split, in the order of its table."""
    table = _of_system(_per_query(backend, version.tags), version.tags.get("system"))
    return list(dict.fromkeys(table.filter(pc.equal(table["split"], split))["measure"].to_pylist()))


def measured(backend: Backend, kind: Kind, version: Version, by: Yardstick) -> VersionMetrics:
    """The version with the values of all seeds of its recipe, each seed's newest version."""
    values: dict[str, Mapping[str, float]] = {}
    groups: dict[str, str] = {}
    others = [one.tags for one in _alike(backend, kind, version) if one.version != version.version]
    for tags in (*others, version.tags):
        table = _per_query(backend, tags)
        rows = _chosen(_of_system(table, tags.get("system")), by)
        if rows.num_rows:
            values[tags.get("seed", "unknown")] = dict(_columns(rows, "query_id", "value"))
            groups |= dict(_columns(rows, "query_id", "group")) if "group" in rows.column_names else {}
    named = f"noisyir run {shlex.quote(version.tags.get('run_as', version.tags.get('experiment', '')))}"
    command = re.sub(r" seed=\S+", "", version.tags.get("command", named))
    about = (command, version.tags.get("eval_digest"), version.tags.get("recipe"))
    floors = _floors(_chosen(table, by), kind)
    return VersionMetrics(version.version, *about, values, groups, floors)


def _on_other_data(one: VersionMetrics, rescored: Rescored, by: Yardstick) -> VersionMetrics:
    """The version with the values of its weights on other data."""
    rows = {seed: _chosen(table, by) for seed, table in rescored.values.items()}
    values = {seed: dict(_columns(table, "query_id", "value")) for seed, table in rows.items() if table.num_rows}
    return replace(one, eval_digest=rescored.eval_digest, values=values)


def _without(one: VersionMetrics, queries: Container[str]) -> VersionMetrics:
    """The version without its values of these queries."""
    left = {seed: {query: of[query] for query in of if query not in queries} for seed, of in one.values.items()}
    return replace(one, values=left)


def comparison_id(challenger: VersionMetrics, champion: VersionMetrics, by: Yardstick) -> str:
    """A digest of a comparison: recipes, their common seeds, and the yardstick."""
    about = (challenger.recipe, champion.recipe, challenger.eval_digest, by.measure, by.split)
    return json_digest([*about, shared_seeds(challenger, champion)])[:16]


def look_of(comparison: str, yard: str | None, log: Sequence[Mapping[str, Any]]) -> int:
    """The number of this comparison among those in the log by the same queries, its old one if it is repeated."""
    made = {line["comparison"]: line["numbers"]["look"] for line in log if line.get("yard") == yard and line["numbers"]}
    return int(made.get(comparison) or 1 + max((look for look in made.values() if look), default=0))


def _alike(backend: Backend, kind: Kind, version: Version) -> list[Version]:
    """The versions with this recipe and evaluation, oldest first; none if tags are missing."""
    if not {"recipe", "eval_digest", "seed"} <= set(version.tags):
        return []
    wanted = " and ".join(f"tags.{tag} = '{version.tags[tag]}'" for tag in ("recipe", "eval_digest"))
    found = backend.client.search_model_versions(f"name = '{kind.name}' and {wanted}")
    return [Version(str(one.version), one.tags) for one in sorted(found, key=lambda one: int(one.version))]


def _per_query(backend: Backend, tags: Mapping[str, str]) -> pa.Table:
    """The values of all systems of a version's run; no rows if it has no evaluation."""
    import pyarrow.parquet as pq

    columns = ("system", "measure", "split", "query_id")
    if not (run := tags.get("evaluation_run")):
        return pa.table({**{name: pa.array([], pa.string()) for name in columns}, "value": pa.array([], pa.float64())})
    with tempfile.TemporaryDirectory() as temporary:
        with StoreError.wrapping("registry.unreadable_run", OSError, pa.ArrowInvalid, file=PER_QUERY, run=run):
            return pq.read_table(backend.client.download_artifacts(run, PER_QUERY, temporary))


def _of_system(table: pa.Table, system: str | None) -> pa.Table:
    return table.filter(pc.equal(table["system"], pa.scalar(system, pa.string())))


def _chosen(table: pa.Table, by: Yardstick) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["measure"], by.measure), pc.equal(table["split"], by.split)))


def _columns(table: pa.Table, *names: str) -> "zip[tuple[Any, ...]]":
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _floors(table: pa.Table, kind: Kind) -> dict[str, float]:
    """The means of systems that a model of this kind should beat; NaN if one was not measured."""
    found = [name for name in table["system"].unique().to_pylist() if model_as_is(name) and name == model_of(name)]
    names = [*kind.floors, *(found if START in kind.floors else [])]
    means = {name: pc.mean(_of_system(table, name)["value"]).as_py() for name in names}
    return {name: float("nan") if mean is None else mean for name, mean in means.items()}
