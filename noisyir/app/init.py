"""Generation of an experiment file for the user's own data, with findings, options and reasons as comments."""

import json
import math
import os
import re
import shlex
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from noisyir.app.data_check import check_data
from noisyir.app.lookup import kept_by_run
from noisyir.app.own_data import experiment_for
from noisyir.app.recommending import Advice, Profile, advise, as_json, known_sets, passes_of, profile_of_data, sentences
from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError
from noisyir.data.formats.pairs import Pairs
from noisyir.engine.hub import is_on_hub
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.left_out import MANY, RULES

STATIC_PAIRS = 5_000  # per second: pairs a static model reads and trains on, per core
_AROUND = 30.0  # seconds per run for reading data, BM25, evaluation and tracking
_TIMED = 32  # pairs
_TIMINGS = 4  # of each precision, in turn
_PAYS = 0.9  # share of the fp32 time below which bf16 is worth its rounding

_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")  # YAML text that needs no quotes
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")  # YAML reads these as other types
_TEMPLATE = """\
# Written by `noisyir init`: {found}
#   noisyir run {file} --dry-run          the steps, and how long they take
#   noisyir run {file}                    do it; nothing is done twice
#   noisyir run {file} train.epochs=3     settings on the command line change it for once
#   noisyir audit {file}                  which of the training pairs are wrong
name: {name}
data:
  {data}
{hold_out}
# Trained on the same pairs, and compared with BM25 and the untrained model, each model also together with BM25.
# The last one is kept.  The run tells the best of all.
#   dpr       believes every pair
#   auto      tries on held-out queries whether it helps to weigh the pairs by their chance to be right, and to give
#             wrong ones another document too, and is dpr where it does not: 18 trainings, minutes of a static model
#   reweight  weighs them where made-up pairs agree, or detect.assume is set: one training, for transformers;
#             reweight_relabel also gives the most suspicious ones another document
# Chosen: {why_methods}.
methods: [{methods}]
{assumed}
# Where training starts.  static: a table of token vectors, trained on a laptop in minutes.  transformer: an encoder,
# better and a hundred times slower; its weights are a folder, or a Hugging Face name that was downloaded before.
# Chosen {why_model}.
model: {{backbone: {backbone}}}
# model: {{backbone: transformer, weights: intfloat/e5-small-v2, query_prefix: "query: ", passage_prefix: "passage: "}}

# Left out, and therefore chosen by rule ({chosen}):
# train: {{{train}}}
{precision}
# A page next to the result with the pairs that are likely to be wrong:
# audit: {{}}
"""
_ASSUMED = """# Its gain was measured so: wrong pairs are assumed to be like the made-up ones that fit best.
# Audits of this file assume it, too.
# Without this line it trains plainly, unless made-up pairs agree with the scores.
detect: {{assume: {assume}}}
"""


def experiment_file(
    data: str,
    target: Path,
    store: Store,
    *,
    corpus: str | None = None,
    budget: str | None = None,
    overrides: Sequence[str] = (),
) -> str:
    """Write the experiment; return a description of findings and choices.

    Args:
        data: Path or Hub name, written to the experiment unchanged.
        store: Searched for audits of the data.
        budget: Time limit of a run, such as 10m; None: a static model.
        overrides: Settings; only the columns of a pairs file are written.

    Raises:
        ConfigError: If the file exists, or the budget is too small for any model.
    """
    typed = shlex.quote(str(target))
    if target.suffix not in experiments.ENDINGS:
        raise ConfigError("app.target_not_yaml", target=target, typed=typed)
    if target.exists():
        raise ConfigError("app.experiment_exists", target=target, typed=typed)
    exp, why_model, advice, _ = advice_for(data, store, corpus=corpus, budget=budget, overrides=overrides)
    why_methods = f"{advice.method}: {advice.why}"
    found = _found(exp, data)
    on_hub = {name: source for name, source in (("path", data), ("corpus", corpus or "")) if is_on_hub(source)}
    places = {"kind": exp.data.kind, **_places(exp, target), **on_hub}
    train = {name: getattr(exp.train, name) for name in ("learning_rate", "epochs", "batch_size", "patience")}
    precision = "" if exp.train.precision == "fp32" else f"train: {{precision: {exp.train.precision}}}\n"
    text = _TEMPLATE.format(
        found=found,
        file=typed,
        name=_yaml(exp.name),
        methods=", ".join(dict.fromkeys(["dpr", advice.method])),
        why_methods=why_methods,
        assumed=_ASSUMED.format(assume=advice.assume) if advice.assume else "",
        why_model=why_model,
        backbone=exp.model.backbone,
        data="\n  ".join([*(f"{name}: {_yaml(value)}" for name, value in places.items()), *_columns(exp)]),
        hold_out=_hold_out(exp),
        chosen=next(said for name, said in exp.chosen.items() if name.startswith("train.")).partition(": ")[2],
        train=", ".join(f"{name}: {value}" for name, value in train.items()),
        precision=precision,
    )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError("app.cannot_write", target=target, error=error) from error
    chosen = {"methods": why_methods, "model.backbone": why_model}
    return "\n".join([found, *(f"{'chosen':<12}{name:<20} {said}" for name, said in (exp.chosen | chosen).items())])


def advised(
    data: str, store: Store, *, corpus: str | None = None, budget: str | None = None, overrides: Sequence[str] = ()
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return training advice without writing the experiment, as (keyword, text) rows and as JSON."""
    exp, why_model, advice, profile = advice_for(data, store, corpus=corpus, budget=budget, overrides=overrides)
    leaks = check_data(data, beside={"corpus": corpus}).of("leaks")
    source = shlex.join([data, *overrides, *(["--corpus", corpus] if corpus else [])])
    most = most_wrong(store, exp)
    met = ", ".join(f"{one.count:,} of {one.of:,} queries ({one.name})" for one in leaks)
    lines = [
        *sentences(advice, profile),
        ("leaks", f"{met}: tests are too easy (noisyir check {source})" if met else "none between training and tests"),
        ("backbone", why_model),
        ("negatives", "from the batch: the protocol measures no mined ones"),
        ("budget", f"{passes_of(advice, exp.train.epochs)} passes over the documents of the pairs"),
        (
            "judge",
            f"50 pairs first: the rate of wrong pairs is not known (noisyir audit {source} --judge)"
            if most is None
            else f"done: at most {most:.0%} of the pairs are wrong by your judgements",
        ),
        ("next", f"noisyir init {source}"),
    ]
    counts = {one.name: one.count for one in leaks}
    return lines, {**as_json(advice, profile), "backbone": exp.model.backbone, "leaks": counts}


def advice_for(
    data: str, store: Store, *, corpus: str | None = None, budget: str | None = None, overrides: Sequence[str] = ()
) -> tuple[Experiment, str, Advice, Profile | None]:
    """Return the experiment for a file, the reason for its backbone, training advice, and statistics of the file.

    Arguments and errors are as for `experiment_file`.
    """
    if other := [setting for setting in overrides if not setting.startswith("data.columns")]:
        raise ConfigError("app.only_columns", other=other[0])
    exp = experiment_for(data, corpus=corpus, overrides=overrides)
    why = "static: no time was given (noisyir init --budget 10m)"
    if budget:
        chosen, why = affordable(exp, budget)
        exp = experiment_for(data, corpus=corpus, overrides=[*overrides, *chosen])
    profile, pairs = profile_of_data(exp.data), exp.data.summary().pairs
    if isinstance(exp.data, Pairs) and exp.data.has_weights:
        return exp, why, Advice("dpr", "the pairs have weights, and others would doubt them twice", None, ()), profile
    return exp, why, advise(profile, exp.model.backbone, known_sets(), pairs, most_wrong(store, exp)), profile


def affordable(exp: Experiment, budget: str) -> tuple[list[str], str]:
    """Return settings of a model that trains within the budget, with the reason.

    Raises:
        ConfigError: If the budget is too small for any model.
    """
    seconds = seconds_of(budget, "--budget")
    if not isinstance(exp.data, Pairs):
        raise ConfigError("app.budget_without_pairs", data=exp.data.kind)
    pairs = exp.data.summary().pairs
    static = run_seconds(pairs, exp.train.epochs, 1 / STATIC_PAIRS)
    if static > seconds:
        raise ConfigError(
            "app.budget_too_small", budget=budget, pairs=pairs, static=static, ceil=math.ceil(static / 10) * 10
        )
    timed = time_pairs(exp.data)
    epochs = next(rule.epochs for rule in RULES["transformer"])
    transformer = run_seconds(pairs, epochs, timed.seconds)
    needs = f"a transformer would take about {transformer / 60:.0f} min on this {timed.device}, and {budget} were given"
    if transformer > seconds:
        return ["model.backbone=static"], f"static: {needs}"
    return ["model.backbone=transformer", f"train.precision={timed.precision}"], f"transformer: {needs}"


def run_seconds(pairs: int, epochs: int, of_pair: float) -> float:
    """Estimate the duration of a run in seconds.

    Training reads each pair forward and, at twice the cost, backward; dev queries are ranked after every epoch; the
    collection is encoded for the untrained and the trained model.

    Args:
        of_pair: Seconds to encode a query and its document once.
    """
    return _AROUND + pairs * of_pair * (3 * epochs + epochs + 2)


class TimedPairs(NamedTuple):
    """Seconds the packaged transformer needs to encode a query and its document, with device and precision."""

    seconds: float
    device: str
    precision: str


def time_pairs(data: Pairs) -> TimedPairs:
    """Time the first pairs in either precision, because the faster one depends on the processor.

    bf16 must pay in each of several pairs of timings, because another program may disturb one.
    """
    import torch

    from noisyir.models.bi_encoder import choose_device, initial_bi_encoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.text_tokenizer import SIDES, passage_text
    from noisyir.models.weights import locate_weights
    from noisyir.retrieval.encode import embed_all

    params = InitModelParams(backbone="transformer")
    device = choose_device("auto")
    encoder = initial_bi_encoder(locate_weights(params.weights, "model.weights"), params).to(device).eval()
    rows = list(islice(data.open().pairs_in_order(), _TIMED))
    texts = {"query": [row.query for row in rows], "passage": [passage_text(row.title, row.document) for row in rows]}
    timings: dict[str, list[float]] = {"fp32": [], "bf16": []}
    for precision in [*timings] * (1 + _TIMINGS):  # the first round warms up
        began = time.perf_counter()
        with torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16"):
            for side in SIDES:
                embed_all(encoder, encoder.tokenize(texts[side], side), side, batch_tokens=4096)
        timings[precision].append((time.perf_counter() - began) / len(rows))
    precision = faster_precision(timings["fp32"][1:], timings["bf16"][1:])
    return TimedPairs(min(timings[precision][1:]), "GPU" if device.startswith("cuda") else "CPU", precision)


def faster_precision(fp32: Sequence[float], bf16: Sequence[float]) -> Literal["fp32", "bf16"]:
    """Return bf16 if it pays in every pair of timings."""
    return "bf16" if all(one < _PAYS * other for one, other in zip(bf16, fp32, strict=True)) else "fp32"


def most_wrong(store: Store, exp: Experiment) -> float | None:
    """Return the upper bound of the share of wrong pairs, if an audit of the data has human judgements."""
    if (audit := kept_by_run(store, exp.name, "audit")) is None:
        return None
    interval = audit.notes.get("judgements", {}).get("interval")
    return float(interval[2]) if interval else None


def _found(exp: Experiment, data: str) -> str:
    """Describe the data in a sentence; for a pairs file, its size and column roles."""
    if not isinstance(exp.data, Pairs):
        return f"{data} has the format {exp.data.kind}"
    pairs = exp.data.summary().pairs
    columns = ", ".join(f"{name} as {column}" for column, name in exp.data.open().columns.items())
    return f"{data} holds {pairs:,}{' pairs or more' if pairs == MANY else ' pairs'}, with {columns}"


def _places(exp: Experiment, target: Path) -> dict[str, str]:
    """Return the data files relative to the experiment file."""
    given = {name: getattr(exp.data, name) for name in exp.data.locations()}
    return {name: os.path.relpath(value, target.parent) for name, value in given.items() if value is not None}


def _columns(exp: Experiment) -> list[str]:
    """Return the `columns` line, if columns were named."""
    named = exp.data.columns if isinstance(exp.data, Pairs) else {}
    return [f"columns: {json.dumps(dict(named), ensure_ascii=False)}"] if named else []


def _hold_out(exp: Experiment) -> str:
    """Return the `hold_out` line, if the data has no splits."""
    held = exp.data.hold_out
    if held is None:
        return ""
    shares = ", ".join(f"{split}: {share:g}" for split, share in held.shares.items())
    return f"  # {exp.chosen['data.hold_out']}:\n  # hold_out: {{{shares}, seed: {held.seed}}}\n"


def _yaml(text: str) -> str:
    """Quote a text for YAML if necessary."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
