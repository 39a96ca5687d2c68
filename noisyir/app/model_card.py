"""README.md of an exported model: description, origin, evaluation and limitations."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from noisyir import __version__
from noisyir.app.lookup import Finished
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.known_stages import known_stages
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment, recorded_experiment
from noisyir.models.layout import read_layout
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.models.weights import MINILM
from noisyir.registry.card import write_card
from noisyir.registry.evaluation import Evaluation, read_evaluation, system_of
from noisyir.registry.kinds import RETRIEVER

_MINILM = "sentence-transformers/all-MiniLM-L6-v2"  # Hub name of the packaged weights
_USE = """## Use

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{folder}")
queries = model.encode_query(["your question"])
documents = model.encode_document(["title and text"])
model.similarity(queries, documents)
```"""
_COMBINED = """```python
import json

how = json.load(open("{folder}/hybrid.json"))


def combined(bm25, vectors):
    \"\"\"(score, document) of one query, best first, from {{document: score}} of the best by BM25 and by vectors.\"\"\"
    lexical, dense = scaled(bm25), scaled(vectors)
    found = {{*lexical, *dense}}
    weight = how["weight"]
    return sorted(((weight * dense.get(d, 0) + (1 - weight) * lexical.get(d, 0), d) for d in found), reverse=True)


def scaled(scores):
    low, high = min(scores.values(), default=0), max(scores.values(), default=0)
    return {{d: (s - low) / (high - low) if high > low else 1.0 for d, s in scores.items()}}
```"""
_LIMITS = """## Limits

- It was measured on the data above alone; another collection needs its own judgements.
- {held_out}
- {reads}
- {vectors}"""
_CITATION = """## Citation

```bibtex
@software{{noisyir,
  title = {{noisyir: dense retrievers from noisy labels}},
  author = {{{{The noisyir developers}}}},
  version = {{{version}}},
  license = {{Apache-2.0}}
}}
```"""
_METHODS = (
    "Training is DPR (Karpukhin et al., EMNLP 2020); a method named npc is NPC (Zhang et al., Findings of EMNLP 2023)."
)


def model_card(store: Store, model: Ref, run: Finished | None, folder: Path, licence: str | None) -> str:
    """Return the card in Markdown, with metadata for the Hugging Face Hub.

    Args:
        run: The run that kept the model; None: no measures are known.
        folder: Path that the example loads.
        licence: Hub identifier such as apache-2.0; None: the card states that there is none.
    """
    behind = lineage(store, [model])
    exp = recorded_experiment(run.settings) if run else None
    evaluation = read_evaluation(store, run.results.get("comparison") if run else None)
    system = system_of(store, evaluation, model) if run else None
    parts = [f"# {exp.name if exp else model.stage}", _USE.format(folder=folder.name)]
    if exp and run:
        told = write_card(exp, store, run.results, evaluation, RETRIEVER, None, known_stages())
        by_sum = bool(told.hybrid and told.hybrid["by"] == "sum")
        with_bm25 = f"### With BM25, in Python\n\n{_COMBINED.format(folder=folder.name)}" if by_sum else ""
        told_below = told.text.removeprefix(f"**{exp.name}**").lstrip()  # the name is the title already
        raised = re.sub("^### ", "## ", told_below, flags=re.MULTILINE)
        parts = [parts[0], raised, _command(exp), parts[1], with_bm25]
    parts += [
        _shorter(folder),
        _digests(behind),
        _limits(behind),
        _licence(behind, licence),
        _CITATION.format(version=__version__),
        "" if model.stage == INIT_MODEL.name else _METHODS,
    ]
    metadata = _metadata(behind, exp, evaluation, system, licence)
    head = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=1000)
    return f"---\n{head}---\n\n" + "\n\n".join(part for part in parts if part) + "\n"


def _command(exp: Experiment) -> str:
    settings = exp.model_dump(mode="json", exclude_defaults=True, exclude={"chosen"})
    places = {name: Path(settings["data"][name]).name for name in exp.data.locations() if settings["data"].get(name)}
    settings["data"] |= places  # paths would reveal the machine
    written = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=100).strip()
    return f"Made and measured by `noisyir run {exp.name}.yaml` (noisyir {__version__}) with\n\n```yaml\n{written}\n```"


def _shorter(folder: Path) -> str:
    """Describe how to truncate vectors, for models trained for it."""
    lengths = read_layout(folder).shape.matryoshka
    if not lengths:
        return ""
    return (
        f"## Shorter vectors\n\nIt was trained to be cut to the first {', '.join(map(str, lengths))} numbers of a "
        f'vector: `SentenceTransformer("{folder.name}", truncate_dim={lengths[0]})`.'
    )


def _digests(behind: Sequence[Meta]) -> str:
    rows = ["## Data, by digest", "", "| what | rows | SHA-256 |", "|---|--:|---|"]
    for meta in behind:
        if meta.stage == INGEST.name:
            raw = meta.inputs.get("source")
            rows += [f"| raw data ({meta.params.get('kind', '')}) | | `{raw}` |"] if isinstance(raw, str) else []
            rows += [
                f"| {name} | {made.rows:,} | `{made.digest}` |" for name, made in meta.artifacts.items() if made.rows
            ]
    return "\n".join(rows) if len(rows) > 4 else ""


def _limits(behind: Sequence[Meta]) -> str:
    shape = next(meta.params for meta in behind if meta.stage == INIT_MODEL.name)
    source: dict[str, Any] = next((meta.notes.get("source", {}) for meta in behind if meta.stage == INGEST.name), {})
    held_out = f"Dev and test: {source.get('held_out', 'queries of the data set')}."
    reads = (
        f"It reads the first {shape['query_max_len']} tokens of a query and {shape['passage_max_len']} of a passage."
    )
    return _LIMITS.format(held_out=held_out, reads=reads, vectors=RETRIEVER.limits)


def _licence(behind: Sequence[Meta], licence: str | None) -> str:
    chosen = f"`{licence}`, as the person who exported it said." if licence else (
        "None was chosen: see the licences of the data and the weights."
    )  # fmt: skip
    return (
        f"## Licence\n\n{chosen} It comes from {_start(behind)} and from the data above, and noisyir knows neither's "
        "licence beyond that all-MiniLM-L6-v2 is Apache-2.0. noisyir itself is Apache-2.0."
    )


def _start(behind: Sequence[Meta]) -> str:
    """Return the public name of the start model, if it has one."""
    weights = next((str(meta.params["weights"]) for meta in behind if meta.stage == INIT_MODEL.name), MINILM)
    if weights == MINILM:
        return _MINILM
    return weights if weights.count("/") == 1 and not Path(weights).exists() else "a model of its maker's own"


def _metadata(
    behind: Sequence[Meta], exp: Experiment | None, evaluation: Evaluation, system: str | None, licence: str | None
) -> dict[str, Any]:
    """Return the card's Hub header.

    Source: https://github.com/huggingface/hub-docs/blob/main/modelcard.md.
    """
    start, name = _start(behind), exp.name if exp else "noisyir-retriever"
    given = {"license": licence} if licence else {"license": "other", "license_name": "not-chosen"}
    data = exp.data.kind if exp else "unknown"
    results = [
        {
            "task": {"type": "information-retrieval", "name": "Information retrieval"},
            "dataset": {"type": data, "name": f"{name} ({split})", "split": split},
            "metrics": [
                {
                    "type": row["measure"],
                    "name": f"{row['measure']} [{row['low']:.4f}, {row['high']:.4f}]",
                    "value": round(row["mean"], 6),
                }
                for row in evaluation.own(system)
                if row["split"] == split
            ],
        }
        for split in dict.fromkeys(row["split"] for row in evaluation.own(system))
    ]
    return {
        **given,
        "library_name": "sentence-transformers",
        "pipeline_tag": "sentence-similarity",
        "tags": ["sentence-transformers", "feature-extraction", "dense-retrieval", "noisy-labels", "noisyir"],
        **({"base_model": start} if "/" in start else {}),
        **({"model-index": [{"name": name, "results": results}]} if results else {}),
    }
