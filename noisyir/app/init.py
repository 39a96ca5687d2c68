"""Generation of an experiment file for the user's own data, with findings, options and reasons as comments."""

import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noisyir.app.affordable import Afforded, afforded
from noisyir.app.data_check import check_data
from noisyir.app.lookup import kept_by_run
from noisyir.app.own_data import experiment_for
from noisyir.app.recommending import Advice, Profile, advise, as_json, known_sets, passes_of, profile_of_data, sentences
from noisyir.base.errors import ConfigError, DataError
from noisyir.base.pages.cells import percent
from noisyir.data.formats import Format
from noisyir.data.formats.pairs import Pairs
from noisyir.data.intake import AGAIN, JUDGED_OTHERWISE, TOLERANT, Intake
from noisyir.data.records import Judgement, Source, one_by_one
from noisyir.engine.hub import is_on_hub
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.rules import MANY

_RULES = "on_empty", "min_relevance"
_SET_HERE = "data.columns", *(f"data.{name}=" for name in _RULES)
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
{hold_out}{chunk}
# Models that are compared without any training.  Chosen {why_as_is}.
as_is: {as_is}
# as_is: {{minilm: {{}}, e5: {{weights: intfloat/e5-small-v2, query_prefix: "query: ", passage_prefix: "passage: "}}}}

# Trained on the same pairs, and compared with BM25 and models without training, each also together with BM25.
# The last one is kept.  The run tells the best of all.
#   dpr       believes every pair
#   static    is dpr with a static model, in seconds, where the model below is a transformer
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

{kept}# Left out, and therefore chosen by rule ({chosen}):
# train: {{{train}}}
# A page next to the result with the pairs that are likely to be wrong:
# audit: {{}}
"""
_CHUNK = """
# Documents are cut into passages, and stand where their best one does.  Of no use if all queries ask about beginnings.
# Chosen {why}.
chunk: {chunk}
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
        budget: Time limit of a run, such as 10m, which is the default.
        overrides: Settings of `data.columns`, `data.on_empty` and `data.min_relevance`, which are written.

    Raises:
        ConfigError: If the file exists, or the budget is too small for any model.
    """
    typed = shlex.quote(str(target))
    if target.suffix not in experiments.ENDINGS:
        raise ConfigError("app.target_not_yaml", target=target, typed=typed)
    if target.exists():
        raise ConfigError("app.experiment_exists", target=target, typed=typed)
    exp, models, advice, _ = advice_for(data, store, corpus=corpus, budget=budget, overrides=overrides)
    why_methods = f"{advice.method}: {advice.why}"
    found = _found(exp, data)
    on_hub = {name: source for name, source in (("path", data), ("corpus", corpus or "")) if is_on_hub(source)}
    places = {"kind": exp.data.kind, **_places(exp, target), **on_hub}
    train = {name: getattr(exp.train, name) for name in ("learning_rate", "epochs", "batch_size", "patience")}
    text = _TEMPLATE.format(
        found=found,
        file=typed,
        name=_yaml(target.stem),
        methods=", ".join(methods_of(models, advice)),
        why_methods=why_methods,
        assumed=_ASSUMED.format(assume=advice.assume) if advice.assume else "",
        why_model=models.why,
        as_is=_flow(models.as_is),
        kept=f"train: {_flow(models.train)}\n" if models.train else "",
        why_as_is=models.why_as_is,
        backbone=exp.model.backbone,
        data="\n  ".join([*(f"{name}: {_yaml(value)}" for name, value in places.items()), *_as_given(exp)]),
        hold_out=_hold_out(exp),
        chunk=_CHUNK.format(why=models.why_chunk, chunk=_flow(models.chunk)) if models.why_chunk else "",
        chosen=next(said for name, said in exp.chosen.items() if name.startswith("train.")).partition(": ")[2],
        train=", ".join(f"{name}: {value}" for name, value in train.items()),
    )
    with ConfigError.wrapping("app.cannot_write", target=target):
        target.write_text(text, encoding="utf-8")
    chosen = {"methods": why_methods, "model.backbone": models.why, "as_is": models.why_as_is}
    chosen |= {"chunk": models.why_chunk} if models.why_chunk else {}
    return "\n".join([found, *(f"{'chosen':<12}{name:<20} {said}" for name, said in (exp.chosen | chosen).items())])


def advised(
    data: str, store: Store, *, corpus: str | None = None, budget: str | None = None, overrides: Sequence[str] = ()
) -> tuple[list[tuple[str, str]], dict[str, Any]]:
    """Return training advice without writing the experiment, as (keyword, text) rows and as JSON."""
    exp, models, advice, profile = advice_for(data, store, corpus=corpus, budget=budget, overrides=overrides)
    mapped = ",".join(f"{what}={name or ''}" for what, name in getattr(exp.data, "columns", {}).items())
    leaks = check_data(data, columns=mapped or None, beside={"corpus": corpus}).of("leaks")
    beside = ["--corpus", corpus] if corpus else []
    source = shlex.join([data, *overrides, *beside])
    check = shlex.join(["noisyir", "check", data, *(["--map", mapped] if mapped else []), *beside])
    init = shlex.join(["noisyir", "init", data, *overrides, *beside, *(["--budget", budget] if budget else [])])
    most = most_wrong(store, exp)
    judge = f"50 pairs first: the rate of wrong pairs is not known (noisyir audit {source} --judge)"
    if most is not None:
        judge = f"done: at most {percent(most)} of the pairs are wrong by your judgements"
    elif exp.data.has_weights:
        judge = "not needed: the pairs have weights, as an audit gives them"
    met = ", ".join(f"{one.count:,} of {one.of:,} queries ({one.name})" for one in leaks)
    said = exp.chosen.get("data.columns.label")
    lines = [
        *([("labels", said)] if said else []),
        *sentences(advice, profile),
        ("leaks", f"{met}: tests are too easy ({check})" if met else "none between training and tests"),
        ("as it is", models.why_as_is),
        ("backbone", models.why),
        *([("chunk", models.why_chunk)] if models.why_chunk else []),
        ("negatives", "from the batch: the protocol measures no mined ones"),
        ("budget", f"{passes_of(advice, exp.train.epochs)} passes over the documents of the pairs"),
        ("judge", judge),
        ("next", init),
    ]
    counts = {one.name: one.count for one in leaks}
    chosen = {"backbone": exp.model.backbone, "as_is": models.as_is, "chunk": models.chunk}
    return lines, {**as_json(advice, profile), **chosen, "leaks": counts}


def advice_for(
    data: str, store: Store, *, corpus: str | None = None, budget: str | None = None, overrides: Sequence[str] = ()
) -> tuple[Experiment, Afforded, Advice, Profile | None]:
    """Return the experiment for a file, its models and their reasons, training advice, and statistics of the file.

    Arguments and errors are as for `experiment_file`.
    """
    if other := [setting for setting in overrides if not setting.startswith(_SET_HERE)]:
        raise ConfigError("app.only_columns", other=other[0])
    exp = experiment_for(data, corpus=corpus, overrides=overrides)
    models = afforded(exp, budget)
    exp = experiment_for(data, corpus=corpus, overrides=[*overrides, *models.settings])
    profile, pairs = profile_of_data(exp.data), exp.data.summary().pairs
    if not pairs:
        raise DataError("app.no_training_pairs", data=data, typed=shlex.quote(data))
    if exp.data.has_weights:
        weighed = Advice("dpr", "the pairs have weights, and others would doubt them twice", None, ())
        return exp, models, weighed, profile
    advice = advise(profile, models.backbone, known_sets(), pairs, most_wrong(store, exp), weighs=models.weighs)
    return exp, models, advice, profile


def methods_of(models: Afforded, advice: Advice) -> list[str]:
    """Return the methods that a run trains by; the last one is kept."""
    first = ["static"] if models.backbone == "transformer" else []
    return list(dict.fromkeys([*first, "dpr", advice.method]))


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
    pairs, source = exp.data.summary().pairs, exp.data.open()
    holds = f"{pairs:,} pairs or more" if pairs == MANY else _counted(source, exp.data.min_relevance)
    columns = ", ".join(f"{name} as {column}" for column, name in source.columns.items())
    unread = f"; not read: {', '.join(source.unread)}" if source.unread else ""
    labels = f"; wrong pairs are left out by {source.labels.said}" if source.labels else ""
    return f"{data} holds {holds}, with {columns}{unread}{labels}"


def _counted(source: Source, least: int) -> str:
    """The pairs in words and, if their number is another, the rows and the reasons why."""
    intake, rows, fates = Intake(source.name, TOLERANT, may_repeat=True), set[tuple[str, int]](), Counter[str]()
    for one in one_by_one(source.records()):
        fault = intake.fault(one)
        if isinstance(one, Judgement):
            rows.add((one.where, one.number))
            is_right = one.relevance is None or one.relevance >= least
            again = "repeated" if fault in (AGAIN, JUDGED_OTHERWISE) else "without a text"
            fates[again if fault else "right" if is_right else "called wrong"] += 1
    right = fates["right"]
    said = [f"{right:,} pair{'s' * (right > 1)}{' called right' if fates['called wrong'] else ''}"]
    said += [f"{fates[what]:,} {what}" for what in ("called wrong", "repeated", "without a text") if fates[what]]
    return ("" if len(rows) == right else f"{len(rows):,} rows: ") + ", ".join(said)


def _places(exp: Experiment, target: Path) -> dict[str, str]:
    """Return the data files relative to the experiment file."""
    given = {name: getattr(exp.data, name) for name in exp.data.locations()}
    return {name: os.path.relpath(value, target.parent) for name, value in given.items() if value is not None}


def rules_of(data: Format) -> dict[str, Any]:
    """Return the settings, other than columns, that say which rows and pairs count, without defaults."""
    given = {name: getattr(data, name) for name in _RULES}
    return {name: value for name, value in given.items() if value != Format.model_fields[name].default}


def _as_given(exp: Experiment) -> list[str]:
    """Return the lines of `columns` and of the rules, if they were set."""
    named = getattr(exp.data, "columns", {})
    columns = [f"columns: {json.dumps(dict(named), ensure_ascii=False)}"] if named else []
    return [*columns, *(f"{name}: {value}" for name, value in rules_of(exp.data).items())]


def _hold_out(exp: Experiment) -> str:
    """Return the `hold_out` line, if the data has no splits."""
    if (held := exp.data.hold_out) is None:
        return ""
    shares = ", ".join(f"{split}: {share:g}" for split, share in held.shares.items())
    return f"  # {exp.chosen['data.hold_out']}:\n  # hold_out: {{{shares}, seed: {held.seed}}}\n"


def _flow(settings: Mapping[str, Any]) -> str:
    """Settings as YAML on one line."""
    return json.dumps(dict(settings)).replace('"', "")


def _yaml(text: str) -> str:
    """Quote a text for YAML if necessary."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
