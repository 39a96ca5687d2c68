"""A trained model's card: data, noise, measures, usage and limits."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noisyir import __version__
from noisyir.base.pages.cells import markdown_table, percent
from noisyir.base.settings import places_of
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Stage
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import against, best_lines
from noisyir.evaluation.recommendation import STATIC, model_as_is, model_of, needs_no_training
from noisyir.methods.plans.experiment import Experiment
from noisyir.registry.evaluation import Evaluation, eval_digest, read_recommendation, recipe, system_of
from noisyir.registry.kinds import Kind

Row = Mapping[str, Any]
HYBRID_FILE = "hybrid.json"
_NO_STORY = "The run looked for no wrong labels, and nothing was done about them."


@dataclass(frozen=True)
class Version:
    """A registered version: its number and its tags."""

    version: str
    tags: Mapping[str, str]


@dataclass(frozen=True)
class Card:
    """A model's own measures, tags and text; its combination with BM25; and the case against registering it."""

    own: Mapping[str, float]
    tags: Mapping[str, str]
    text: str
    hybrid: Mapping[str, Any] | None = None
    against: str | None = None


def write_card(
    exp: Experiment,
    store: Store,
    results: Mapping[str, Ref],
    evaluation: Evaluation,
    kind: Kind,
    champion: Version | None,
    stages: Mapping[str, Stage],
) -> Card:
    """The card of the model of this kind that the run kept, without measures if the run was not scored."""
    model = results[kind.kept]
    system = system_of(store, evaluation, model)
    rows = evaluation.own(system)
    digest = eval_digest(store.builds.meta(evaluation.scored[system])) if system else None
    found = read_recommendation(store, exp, results)
    doubt = against(found, system, exp.name) if found and system else None
    beside = champion if champion and digest and champion.tags.get("eval_digest") == digest else None
    hybrid = combination(exp, store, results) if kind.kept == "model" else None
    sections = {
        "Doubts": [doubt] if doubt else [],
        "Best of the run": best_lines(found)[:1] if found else [],
        "Data": [_data(exp, store, model)],
        "Noise": [f"- {sentence}" for sentence in noise_story(exp, store, model, list(results.values()), stages)],
        "Training": [_training(exp, kind, model, system)],
        "With BM25": combination_lines(hybrid) if hybrid else [],
        "Measures": [*measures_table(evaluation, system, exp.compare.confidence, beside), *_absent(champion, beside)],
    }
    text = [_heading(exp), *(f"### {name}\n\n" + "\n".join(lines) for name, lines in sections.items() if lines)]
    return Card(
        own={metric_name(row): row["mean"] for row in rows},
        tags=_tags(exp, store, model, system, rows, digest)
        | ({"hybrid_by": hybrid["by"], "hybrid_weight": f"{hybrid['weight']:g}"} if hybrid else {}),
        text="\n\n".join(text),
        hybrid=hybrid,
        against=doubt if found and system and not found.is_usable(system) else None,
    )


def combination(exp: Experiment, store: Store, results: Mapping[str, Ref]) -> dict[str, Any] | None:
    """The run's combination of its model with BM25, and BM25's settings, if any."""
    if "fusion" not in results:
        return None
    (row,) = store.builds.table(results["fusion"]).to_pylist()
    bm25 = {"engine": exp.bm25_index.engine, "k1": exp.bm25.k1, "b": exp.bm25.b, "analyser": "Lucene's English"}
    return {**row, "candidates": {"bm25": exp.bm25.top_k, "vectors": exp.search.top_k}, "bm25": bm25}


def combination_lines(hybrid: Mapping[str, Any]) -> list[str]:
    """The combination in words."""
    found = "Take the best {bm25} documents of BM25 and the best {vectors} by vectors.".format_map(hybrid["candidates"])
    bm25 = "BM25: k1 {k1:g}, b {b:g}, {analyser} analyser, over title and text.".format_map(hybrid["bm25"])
    if hybrid["by"] == "ranks":
        rule = f"A document's score is the sum of 1 / ({hybrid['k']} + rank) over the rankings that hold it."
        return [f"{found} {rule} {bm25}"]
    weight = "{weight:g} of the scaled vector score, and the rest of the scaled BM25 score".format_map(hybrid)
    chosen = "no dev query chose it" if not hybrid["queries"] else (
        "chosen by {queries:,} dev queries".format_map(hybrid)
        + (", interval {low:g} to {high:g}".format_map(hybrid) if hybrid["low"] is not None else "")
    )  # fmt: skip
    scaled = "Scale both per query, the least to 0 and the greatest to 1; a document that one did not find has 0 there."
    return [f"{found} {scaled} A document's score is {weight} ({chosen}). {bm25}"]


def run_note(exp: Experiment, evaluation: Evaluation) -> str:
    """The text of a run that kept no model."""
    return "\n\n".join([_heading(exp), *measures_table(evaluation, None, exp.compare.confidence)])


def metric_name(row: Row) -> str:
    """A row's measure as an MLflow name, without @; the split is added unless it is test."""
    name = str(row["measure"]).replace("@", "_")
    return name if row["split"] == "test" else f"{name}.{row['split']}"


def usage(kind: Kind, uri: str) -> str:
    """How to load and call the registered model, and its limits."""
    return f"""### Use

After `pip install` of the version's requirements (noisyir itself is not needed):

```python
import mlflow
model = mlflow.pyfunc.load_model("{uri}")
{kind.usage}
```

### Limits

- {kind.limits}
- It was measured on the data above alone; another collection needs its own judgements."""


def _heading(exp: Experiment) -> str:
    return f"{exp.name}: {exp.description}".removesuffix(": ")


def _tags(
    exp: Experiment, store: Store, model: Ref, system: str | None, rows: Sequence[Row], digest: str | None
) -> dict[str, str]:
    """A version's tags that do not depend on its run."""
    measures = {metric_name(row): row for row in rows}
    return {
        "artifact_key": model.key,
        "artifact_digest": model.digest,
        "experiment": exp.name,
        "recipe": recipe(exp, store, model),
        "seed": str(exp.seed),
        **({"system": system} if system else {}),
        **({"eval_digest": digest} if digest else {}),
        **{name: f"{row['mean']:.6f}" for name, row in measures.items()},
        **{f"{name}.{end}": f"{row[end]:.6f}" for name, row in measures.items() for end in ("low", "high")},
    }


def _data(exp: Experiment, store: Store, model: Ref) -> str:
    sources = {meta.stage: meta for meta in lineage(store, [model])}
    if not (data := sources.get("ingest")):
        return f"{exp.data.kind}."
    rows = ", ".join(f"{c.rows:,} {name}" for name, c in data.artifacts.items() if c.rows and name != "excluded")
    files = ", ".join(Path(place).name for _, place in places_of(exp.data)) or exp.data.kind
    return f"{files}, digest {', '.join(digest[:12] for digest in data.raw.values())}: {rows}."


def noise_story(
    exp: Experiment, store: Store, model: Ref, results: Sequence[Ref], stages: Mapping[str, Stage]
) -> list[str]:
    """Sentences on noise put in, found and handled, from the `story` of each build's stage."""

    def sentences(meta: Meta) -> Iterable[str]:
        stage = stages.get(meta.stage)
        return stage.story(meta, store) if stage and stage.story else ()

    behind = lineage(store, [model])
    used = {(meta.key, meta.build) for meta in behind}
    beside = [meta for meta in lineage(store, results) if (meta.key, meta.build) not in used]
    found = [sentence for meta in behind for sentence in sentences(meta)]
    seen = [f"{sentence} (seen by the run, not used by this model)" for m in beside for sentence in sentences(m)]
    return [_put_in(exp, behind), *(dict.fromkeys([*found, *seen]) or [_NO_STORY])]


def _put_in(exp: Experiment, behind: Sequence[Meta]) -> str:
    if exp.task.label_story:
        return exp.task.label_story
    if exp.noise.rate:
        return f"{percent(exp.noise.rate)} of the training pairs were given a wrong document ({exp.noise.kind})."
    return "Only the pairs' own noise: none was put in."


def _training(exp: Experiment, kind: Kind, model: Ref, system: str | None) -> str:
    start, made = kind.start(exp), f"trained by {system or model.stage}; seed {exp.seed}"
    made = "used as it is, without training" if needs_no_training(system or "") else made
    if name := model_as_is(system or ""):
        start = f"{exp.as_is[name].backbone} from {exp.as_is[name].weights}"
    elif model_of(system or "") == STATIC:
        start = f"static from {exp.model.weights}, cosine"
    return (
        f"{start[0].upper()}{start[1:]}; {made}. noisyir {__version__}, "
        f"artifact {model.stage}/{model.key}, sha256 {model.digest}; "
        f"`noisyir show {model.key[:12]} --trace` shows the rest."
    )


def _absent(champion: Version | None, beside: Version | None) -> list[str]:
    """The reason why the champion has no row, if it has none."""
    if champion is None or beside is not None:
        return []
    return ["", f"The champion when this was registered, v{champion.version}, was measured by other data."]


def measures_table(
    evaluation: Evaluation, system: str | None, confidence: float, champion: Version | None = None
) -> list[str]:
    """The comparison in Markdown, a row for each system and split, and the champion's own measures."""
    rows = evaluation.rows
    if not rows:
        return []
    measures = list(dict.fromkeys(row["measure"] for row in rows))
    table = [["system", "split", *measures]]
    for name, split in dict.fromkeys((row["system"], row["split"]) for row in rows):
        found = {row["measure"]: row for row in evaluation.own(name) if row["split"] == split}
        label = f"**{name}** (this model)" if name == system else name
        table.append([label, split, *(_cell(found.get(measure)) for measure in measures)])
    for split in dict.fromkeys(row["split"] for row in rows) if champion else ():
        assert champion is not None
        known = [_of_champion(champion, {"measure": measure, "split": split}) for measure in measures]
        label = f"champion, v{champion.version} ({champion.tags.get('system', champion.tags.get('experiment', ''))})"
        table.append([label, split, *map(_cell, known)])
    queries = max(row["queries"] for row in rows)
    return [
        markdown_table(table, left=2),
        f"In brackets: {percent(confidence)} intervals over {queries:,} queries, of this one seed.",
    ]


def _of_champion(champion: Version, about: Row) -> Row | None:
    """The champion's mean and interval of a measure and split, from its tags."""
    name = metric_name(about)
    tags = {"mean": name, "low": f"{name}.low", "high": f"{name}.high"}
    if not all(tag in champion.tags for tag in tags.values()):
        return None
    return {end: float(champion.tags[tag]) for end, tag in tags.items()}


def _cell(row: Row | None) -> str:
    return f"{row['mean']:.4f} [{row['low']:.4f}, {row['high']:.4f}]" if row else ""
