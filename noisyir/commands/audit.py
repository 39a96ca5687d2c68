"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

import json
import shutil
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from noisyir import experiments
from noisyir.audit.apply import apply
from noisyir.audit.judge import how_many
from noisyir.audit.sources import FileOfPairs, Source, TableOfPairs
from noisyir.commands import open_store
from noisyir.config import AuditParams, Experiment
from noisyir.console import observer_for, stdout_console
from noisyir.data.pairs import PairsFile
from noisyir.data.row_files import SUFFIXES
from noisyir.errors import ConfigError, StoreError
from noisyir.pipelines import audit
from noisyir.plan import Choice
from noisyir.runs import Outcome, run_experiment
from noisyir.store import Store
from noisyir.tables import read_parts, stream_parts
from noisyir.tracking import open_tracker

_HOLDS = {"corpus.jsonl": "beir", "train-v1.1.json": "squad"}  # a file that tells a folder's format


def run(args: Namespace) -> int:
    """Judge the pairs, put the files for their owner into --out, and say what was found."""
    exp, store = experiment(args), open_store(args)
    store.check_writable()
    folder = Path(args.out or f"{exp.name}-audit")
    files = _files(exp)
    _refuse_to_overwrite(exp, folder, files)
    runtime = experiments.load_runtime([text for text in args.overrides if experiments.is_runtime(text)])
    tracker = open_tracker(experiment=exp, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        outcome = run_experiment(
            exp, Choice(), store=store, runtime=runtime, tracker=tracker, observer=observer, pipeline=audit
        )
    table = read_parts(store.fs, store.parts(outcome.kept["audit"]))
    out = stdout_console()
    out.print(_found(exp, store, outcome, table, args.error))
    written = _copy(store.folder(outcome.kept["audit_files"]), table, folder)
    for name in filter(written.__contains__, files):
        out.print(f"{name:<23}{folder / name}")
    if args.apply:
        applied = apply(table, _source(exp, store, outcome, table), folder, relabel=exp.repair.relabel)
        out.print(f"\n{applied.summary()}")
    return 0


def experiment(args: Namespace) -> Experiment:
    """What DATASET or PAIRS on the command line means, with the other arguments applied."""
    overrides = [text for text in args.overrides if not experiments.is_runtime(text)]
    if args.sample is not None:
        overrides.append(f"audit.sample={args.sample}")
    if args.judgements is not None:
        overrides.append(f"audit.judgements={json.dumps(args.judgements)}")
    if args.model:
        overrides.append(f"model.weights={json.dumps(args.model)}")
    exp = _named(args.data, args.corpus, overrides)
    changes: dict[str, Any] = {"audit": exp.audit or AuditParams()}
    if args.model:  # a trained model scores the pairs itself, instead of small ones trained on their folds
        changes["detectors"] = {name: params.model_copy(update={"folds": 0}) for name, params in exp.detectors.items()}
    return exp.model_copy(update=changes)


def _named(data: str, corpus: str | None, overrides: list[str]) -> Experiment:
    path = Path(data)
    if corpus and (path.is_dir() or not _is_file_of_pairs(path)):
        raise ConfigError(f"--corpus belongs to a file of pairs ({', '.join(SUFFIXES)}), which {data} is not: drop it")
    if path.is_dir():
        dataset = next((known for name, known in _HOLDS.items() if (path / name).exists()), None)
        if dataset is None:
            raise ConfigError(f"{data} is a folder of no known format: it holds none of {', '.join(_HOLDS)}")
    elif data in experiments.names() or path.suffix in (".yaml", ".yml"):
        return experiments.load(data, overrides)
    elif _is_file_of_pairs(path):
        dataset = "pairs"
    else:
        raise ConfigError(
            f"{data!r} is no experiment ({', '.join(experiments.names())}), no folder of a data set, and no file of "
            f"pairs ({', '.join(SUFFIXES)})"
        )
    settings = {"name": path.name.split(".")[0], "data": {"dataset": dataset, "path": data, "corpus": corpus}}
    return experiments.from_settings(settings, overrides)


def _is_file_of_pairs(path: Path) -> bool:
    return path.name.removesuffix(".gz").endswith(SUFFIXES)


def _found(exp: Experiment, store: Store, outcome: Outcome, table: pa.Table, error: float | None) -> str:
    wrong = sum(verdict == "wrong" for verdict in table["verdict"].to_pylist())
    lines = [f"\n{table.num_rows:,} training pairs, {wrong:,} flagged as wrong"]
    estimate = _estimate(store, outcome)
    if judged := outcome.results["audit"].meta.notes.get("judgements"):
        lines.append(judged["summary"])
        estimate = judged
    else:
        rate, low, high = (f"{estimate[name]:.1%}" for name in ("rate", "rate_low", "rate_high"))
        lines.append(f"noise rate    {rate} [{low}, {high}] at {exp.detect.confidence:.0%}")
    if error is not None:
        lines.append(how_many(estimate["rate"], error, exp.detect.confidence, table.num_rows))
    if "audit_negatives" in outcome.results:
        lines.append(_suspects(outcome.results["audit_negatives"].meta.notes["suspects"]))
    return "\n".join(lines)


def _suspects(counts: dict[str, Any]) -> str:
    drawn = "" if counts["used"] is None else f"; {counts['used']:,} of them drawn as negatives"
    return f"candidates    {counts['judged']:,} for negatives judged, {counts['against']:,} not kept by a judge{drawn}"


def _estimate(store: Store, outcome: Outcome) -> dict[str, float]:
    rows = read_parts(store.fs, store.parts(outcome.results["detect"].meta.ref("noise_estimate"))).to_pylist()
    last = max(row["epoch"] for row in rows)
    return {row["name"]: row["value"] for row in rows if row["epoch"] == last}


def _files(exp: Experiment) -> list[str]:
    """Names of the files that may go to --out."""
    sample = ["sample.csv"] if exp.audit and exp.audit.sample else []
    return ["audit.html", "audit.csv", "audit.parquet", *sample, "negatives.csv", "extra_positives.jsonl"]


def _refuse_to_overwrite(exp: Experiment, folder: Path, files: list[str]) -> None:
    """ConfigError where the files would take the place of the judgements, which are someone's work."""
    given = exp.audit and exp.audit.judgements
    if given and Path(given).resolve() in [(folder / name).resolve() for name in files]:
        raise ConfigError(f"the judgements in {given} would be overwritten: choose another --out, or move them")


def _copy(made: Path, table: pa.Table, folder: Path) -> set[str]:
    """The files of the audit and its table, those of an earlier one giving way; their names."""
    names = {path.name for path in made.iterdir()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(made / name, folder / name)
        pq.write_table(table, folder / "audit.parquet")
    except OSError as error:
        raise StoreError(f"cannot write to the folder {folder}, choose another --out: {error}") from error
    return names | {"audit.parquet"}


def _source(exp: Experiment, store: Store, outcome: Outcome, table: pa.Table) -> Source:
    """What a cleaned copy is made of: the user's file, or the data set's training pairs with the noise put in."""
    if exp.data.dataset == "pairs":
        return FileOfPairs(PairsFile.open(exp.data.path, exp.data.corpus, exp.data.columns))
    noisy, corpus = outcome.results["corrupt"].meta.ref("noisy_pairs"), outcome.results["ingest"].meta.ref("corpus")
    pairs = read_parts(store.fs, store.parts(noisy))
    documents = stream_parts(store.fs, store.parts(corpus), ("doc_id", "title", "text"), 65536)
    return TableOfPairs.of(pairs, table, documents, exp.name)
