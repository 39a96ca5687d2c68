"""The experiment of an audit, from an experiment's name, a data set or a file of pairs; and the model to ask."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noisyir.base.durations import seconds_of
from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.data.containers import stem
from noisyir.data.recognise import IR_DATASETS, recognise
from noisyir.engine.hub import SCHEME
from noisyir.engine.remote.fetched import here
from noisyir.methods import experiments

if TYPE_CHECKING:
    from noisyir.audits.model_judges.settings import AskParams
    from noisyir.detection.detectors import Detector
    from noisyir.methods.plans.experiment import Experiment

# An override that names columns of a pair, and not the one of labels alone
_OF_PAIRS = re.compile(r"data\.columns(?!\.label=|=\{ *\"?label\"? *:[^,]*$)")


def experiment_to_audit(
    data: str,
    overrides: Sequence[str] = (),
    *,
    corpus: str | None = None,
    model: str | None = None,
    sample: int | None = None,
    judgements: Sequence[str] = (),
    refit: bool = False,
    budget: str | None = None,
    assume: str | None = None,
    split: str | None = None,
) -> Experiment:
    """The experiment that audits `data`.

    Args:
        data: An experiment's name or file, a data set's folder, or a file of pairs.
        overrides: Settings of the experiment, such as `detect.threshold=0.8`.
        corpus: File with the documents of a file of pairs.
        model: Model that scores the pairs, replacing detectors that train.
        sample: Number of pairs to draw for judging by hand.
        judgements: Files of verdicts.
        refit: Judge all pairs again, by all verdicts.
        budget: Time that a transformer may read, such as 5m.
        assume: Kind of null pairs that wrong pairs are assumed to resemble.
        split: Audit the relevant judgements of dev or test.
    """
    given: dict[str, Any] = {"audit.sample": sample, "audit.refit": refit or None, "model.weights": model or None}
    given |= {"detect.assume": assume, "audit.split": split, "audit.judgements": list(judgements) or None}
    changed = [f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in given.items() if value is not None]
    exp = _named(data, corpus, [*overrides, *changed])
    from noisyir.audits.settings import AuditParams  # slow: a mistyped name does not need it

    changes: dict[str, Any] = {"audit": exp.audit or AuditParams()}
    if model or exp.audited != "train":  # the model scores the pairs itself, instead of small ones trained on folds
        changes["detectors"] = {name: detector.untrained() for name, detector in exp.detectors.items()}
    if budget is not None:
        changes["detectors"] = _within(budget, changes.get("detectors", exp.detectors))
    return exp.model_copy(update=changes)


def whom_to_ask(
    overrides: Sequence[str],
    *,
    model: str | None = None,
    url: str | None = None,
    name: str | None = None,
    budget: str | None = None,
) -> tuple[list[str], AskParams | None]:
    """Split overrides into the experiment's and a model judge's (`ask.*`), and return the judge's settings.

    Raises:
        ConfigError: If options contradict each other, or the judge cannot answer.
        DataError: If the judge's model cannot be read.
        MissingPackageError: If the judge needs a package.
    """
    from noisyir.audits.model_judges.budget import Budget

    asking = [text for text in overrides if text.startswith("ask.")]
    settings = [text for text in overrides if text not in asking]
    if model and url:
        raise ConfigError("app.two_judges")
    if not (model or url):
        if name or budget or asking:
            raise ConfigError("app.no_judge")
        return settings, None
    if bool(name) != bool(url):
        raise ConfigError("app.judge_url_without_name")
    judge = {"kind": "chat", "url": url, "model": name} if url else {"kind": "classifier", "model": model}
    params = experiments.load_asking({"judge": judge} | ({"budget": budget} if budget else {}), asking)
    params.judge.check(Budget.parse(params.budget))
    return settings, params


def _within(budget: str, detectors: Mapping[str, Detector]) -> dict[str, Detector]:
    from noisyir.detection.detectors.ensemble import Ensemble

    if not any(isinstance(detector, Ensemble) for detector in detectors.values()):
        raise ConfigError("app.budget_without_ensemble", detectors=", ".join(detectors))
    if not (seconds := seconds_of(budget, "--budget")):
        raise ConfigError("base.not_a_duration", name="--budget", text=budget)
    return {name: one.within(seconds) if isinstance(one, Ensemble) else one for name, one in detectors.items()}


def _named(data: str, corpus: str | None, overrides: Sequence[str]) -> Experiment:
    path = Path(data)
    if not path.is_dir() and (data in experiments.names() or path.suffix in experiments.ENDINGS):
        if corpus:
            raise ConfigError("app.corpus_without_pairs", data=data)
        return experiments.load(data, overrides)
    settings = settings_of_data(data, corpus, overrides)
    headed = {"audit": {"title": path.name}} if Path(here(data)).is_file() else {}
    return experiments.from_settings({"name": named_after(data), "data": settings, **headed}, overrides)


def named_after(data: str) -> str:
    """Name an experiment after its data: the file name without endings."""
    return stem(Path(data).name.split("@")[0])


def settings_of_data(data: str, corpus: str | None = None, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """The settings of `data` for a file or folder, recognised by its content unless an override sets data.kind.

    Raises:
        ConfigError: If there is no such file.
        DataError: If its format is not recognised.
    """
    beside = {"corpus": corpus} if corpus else {}
    if any(override.startswith("data.kind=") or _OF_PAIRS.match(override) for override in overrides):
        said = any(override.startswith("data.kind=") for override in overrides)
        return {"path": data, **beside} | ({} if said else {"kind": "pairs"})
    there = here(data)
    if not Path(there).exists() and not data.startswith((*IR_DATASETS, SCHEME)):
        if Path(data).suffix or len(Path(data).parts) > 1:
            folder = Path(data).parent
            known = [str(folder / path.name) for path in folder.iterdir()] if folder.is_dir() else []
            others = did_you_mean(data, known) or ": name one that is there"
            raise ConfigError("app.no_file", data=data, did_you_mean=others)
        known = experiments.names()
        others = did_you_mean(data, known) or f": give a file of pairs, a folder, or one of {', '.join(known)}"
        raise ConfigError("app.no_experiment", data=data, others=others)
    found = recognise(there, **{name: here(place) for name, place in beside.items()})
    return {**found, **beside} | ({"path": data} if found.get("path") == there else {})
