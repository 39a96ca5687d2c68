"""What stands behind a trained model, read from its provenance: data, noise, measures, and how to use it."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from noisyir import __version__
from noisyir.builds import Meta, Ref, canonical_json, input_digests
from noisyir.config import Experiment
from noisyir.provenance import lineage
from noisyir.store import Store
from noisyir.tables import read_parts

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Card:
    """A run's result: `measures` by system.measure, the model's own ones, and the text for a person."""

    measures: Mapping[str, float]
    own: Mapping[str, float]
    eval_digest: str | None
    text: str


def write_card(experiment: Experiment, store: Store, results: Mapping[str, Ref]) -> Card:
    """The card of a run that kept `results`: model and comparison, either of which may be missing."""
    model, comparison = results.get("model"), results.get("comparison")
    rows: list[Row] = read_parts(store.fs, store.parts(comparison)).to_pylist() if comparison else []
    system, scored = _system_of(store, model, comparison)
    parts = [
        f"**{experiment.name}** {experiment.description}".strip(),
        *(_origin(experiment, store, model, system) if model else []),
        *(_table(rows, system, experiment.compare.confidence) if rows else []),
    ]
    return Card(
        measures={f"{row['system']}.{metric_name(row)}": row["mean"] for row in rows},
        own={metric_name(row): row["mean"] for row in rows if row["system"] == system},
        eval_digest=_eval_digest(scored) if scored else None,
        text="\n\n".join(parts),
    )


def metric_name(row: Row) -> str:
    """A comparison row's measure under MLflow's rule for names, which lacks @; the test split goes without saying."""
    name = str(row["measure"]).replace("@", "_")
    return name if row["split"] == "test" else f"{name}.{row['split']}"


def usage(uri: str) -> str:
    """How to load and call the registered model."""
    return f"""Use it, after `pip install` of the version's requirements (noisyir itself is not needed):

```python
import mlflow
model = mlflow.pyfunc.load_model("{uri}")
queries = model.predict(["how to parse a date"])
passages = model.predict(texts, params={{"side": "passage"}})
```

The inner product of a query's vector and a passage's is their score."""


def _system_of(store: Store, model: Ref | None, comparison: Ref | None) -> tuple[str | None, Meta | None]:
    """The label in the comparison under which `model` was scored, and that scoring."""
    if model is None or comparison is None:
        return None, None
    for name, metrics in store.meta(comparison).input_refs():
        if any((meta.key, meta.build) == (model.key, model.build) for meta in lineage(store, [metrics])):
            return name.removeprefix("metrics."), store.meta(metrics)
    return None, None


def _eval_digest(scored: Meta) -> str:
    """What two models were measured by, if equal: judgements, queries, and how they were scored."""
    judged_by = {name: value for name, value in input_digests(scored.inputs).items() if name != "run"}
    described = {"inputs": judged_by, "params": scored.params, "version": scored.version}
    return hashlib.sha256(canonical_json(described).encode()).hexdigest()


def _origin(experiment: Experiment, store: Store, model: Ref, system: str | None) -> list[str]:
    sources = {meta.stage: meta for meta in lineage(store, [model])}
    lines = []
    if data := sources.get("ingest"):
        rows = ", ".join(f"{c.rows:,} {name}" for name, c in data.artifacts.items() if c.rows and name != "excluded")
        lines.append(f"Data: {experiment.data.dataset}: {rows}.")
    noise = experiment.noise
    lines.append(
        f"Noise: {noise.rate:.0%} of the training pairs were given a wrong document ({noise.mechanism})."
        if noise.rate
        else "Noise: only what the pairs came with."
    )
    settings, start = experiment.train, experiment.model
    lines.append(
        f"Model: {start.backbone} from {start.weights}, {start.similarity}; trained by {system or model.stage}, "
        f"{settings.epochs} epochs of {settings.batch_size} at {settings.learning_rate:g}; seed {experiment.seed}."
    )
    commit = store.meta(model).git_commit or "unknown"
    lines.append(
        f"Provenance: noisyir {__version__}, commit {commit}, artifact {model.stage}/{model.key}, "
        f"sha256 {model.digest}; `noisyir trace {model.key[:12]}` shows the rest."
    )
    return lines


def _table(rows: Sequence[Row], system: str | None, confidence: float) -> list[str]:
    """The comparison in Markdown: a row for a system and split, a column for a measure."""
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    cells = {(row["system"], row["split"], row["measure"]): row for row in rows}
    lines = ["| system | split | " + " | ".join(measures) + " |", "|---" * (len(measures) + 2) + "|"]
    for name, split in dict.fromkeys((row["system"], row["split"]) for row in rows):
        found = [cells.get((name, split, measure)) for measure in measures]
        label = f"**{name}** (this model)" if name == system else name
        lines.append(f"| {label} | {split} | " + " | ".join(_cell(row) for row in found) + " |")
    queries = max(row["queries"] for row in rows)
    return ["\n".join(lines), f"In brackets: {confidence:.0%} bootstrap intervals over {queries:,} queries."]


def _cell(row: Row | None) -> str:
    return f"{row['mean']:.4f} [{row['low']:.4f}, {row['high']:.4f}]" if row else ""
