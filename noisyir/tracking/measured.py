"""What the gate of promotion is given: the values by query of a version, of its recipe's other seeds, and of floors."""

import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.engine.builds import canonical_json
from noisyir.errors import StoreError
from noisyir.eval.promotion import Measured, shared_seeds
from noisyir.tracking.backend import Backend
from noisyir.tracking.card import Version
from noisyir.tracking.evaluation import PER_QUERY
from noisyir.tracking.kinds import Kind


@dataclass(frozen=True)
class Yardstick:
    """A measure and the split that it is taken on."""

    measure: str
    split: str


def measures_of(backend: Backend, version: Version, split: str) -> list[str]:
    """What the version was measured by on a split, in the order of its table; nothing where it was not."""
    table = _of_system(_per_query(backend, version.tags), version.tags.get("system"))
    return list(dict.fromkeys(table.filter(pc.equal(table["split"], split))["measure"].to_pylist()))


def measured(backend: Backend, kind: Kind, version: Version, by: Yardstick) -> Measured:
    """The version with the values of all seeds of its recipe: of each the newest version, its own among them."""
    values: dict[str, Mapping[str, float]] = {}
    groups: dict[str, str] = {}
    for tags in [*_alike(backend, kind, version), dict(version.tags)]:
        rows = _chosen(_of_system(_per_query(backend, tags), tags.get("system")), by)
        if rows.num_rows:
            values[tags.get("seed", "unknown")] = dict(_columns(rows, "query_id", "value"))
            groups |= dict(_columns(rows, "query_id", "group")) if "group" in rows.column_names else {}
    about = (version.tags.get("experiment", ""), version.tags.get("eval_digest"), version.tags.get("recipe"))
    floors = _floors(_chosen(_per_query(backend, version.tags), by), kind)
    return Measured(version.version, *about, values, groups, floors)


def comparison_id(challenger: Measured, champion: Measured, by: Yardstick) -> str:
    """What makes a comparison the same: recipes, their common seeds, and what they are measured by."""
    recipes = challenger.recipe, champion.recipe
    content = [*recipes, challenger.eval_digest, by.measure, by.split, shared_seeds(challenger, champion)]
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:16]


def look_of(comparison: str, yard: str | None, log: Sequence[Mapping[str, Any]]) -> int:
    """The how-manieth comparison by the same queries this is: its own number where it was made before.

    yard: the digest of what is measured by; log: lines of decisions, in any order.
    """
    made = {line["comparison"]: line["numbers"]["look"] for line in log if line.get("yard") == yard and line["numbers"]}
    return int(made.get(comparison) or 1 + max((look for look in made.values() if look), default=0))


def _alike(backend: Backend, kind: Kind, version: Version) -> list[Mapping[str, str]]:
    """The tags of the versions of this recipe and evaluation, oldest first; none where the version does not tell."""
    told = ("recipe", "eval_digest", "seed")
    if not {*told} <= set(version.tags):
        return []
    wanted = " and ".join(f"tags.{tag} = '{version.tags[tag]}'" for tag in told[:2])
    found = backend.client.search_model_versions(f"name = '{kind.name}' and {wanted}")
    return [dict(one.tags) for one in sorted(found, key=lambda one: int(one.version))]


def _per_query(backend: Backend, tags: Mapping[str, str]) -> pa.Table:
    """The evaluation of a version's run, of all its systems; without rows where it has none."""
    import pyarrow.parquet as pq

    columns = ("system", "measure", "split", "query_id")
    if not (run := tags.get("evaluation_run")):
        return pa.table({**{name: pa.array([], pa.string()) for name in columns}, "value": pa.array([], pa.float64())})
    with tempfile.TemporaryDirectory() as temporary:
        try:
            return pq.read_table(backend.client.download_artifacts(run, PER_QUERY, temporary))
        except (OSError, pa.ArrowInvalid) as error:
            raise StoreError(f"cannot read {PER_QUERY} of the MLflow run {run}: {error}") from error


def _of_system(table: pa.Table, system: str | None) -> pa.Table:
    return table.filter(pc.equal(table["system"], pa.scalar(system, pa.string())))


def _chosen(table: pa.Table, by: Yardstick) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["measure"], by.measure), pc.equal(table["split"], by.split)))


def _columns(table: pa.Table, *names: str) -> "zip[tuple[Any, ...]]":
    return zip(*(table[name].to_pylist() for name in names), strict=True)


def _floors(table: pa.Table, kind: Kind) -> dict[str, float]:
    """The mean of each system that a model of this kind should pass; NaN of one that the run did not measure."""
    means = {name: pc.mean(_of_system(table, name)["value"]).as_py() for name in kind.floors}
    return {name: float("nan") if mean is None else mean for name, mean in means.items()}
