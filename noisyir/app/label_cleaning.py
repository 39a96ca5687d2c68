"""Whether an audit may change training pairs, and how to measure the cost of a change."""

import json
import math
import shlex
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from noisyir.app.init import rules_of
from noisyir.app.label_audit import Audited
from noisyir.audits.apply import Applied, changed
from noisyir.base.errors import ConfigError
from noisyir.base.pages.cells import percent
from noisyir.data.formats.pairs import Pairs
from noisyir.detection.calibration.logistic import FEWEST
from noisyir.detection.judgements import drawn_at_random, given_judgements
from noisyir.engine.remote.fetched import here
from noisyir.methods.plans.experiment import Experiment

_MOST = 2.0  # times the upper end of the noise rate's interval: how many pairs may be changed
_TREATMENTS = ("dpr", "reweight", "relabel", "drop")


@dataclass(frozen=True)
class CleaningWords:
    """A front end's words for applying an audit; the defaults are the command line's."""

    apply: str = "--apply"
    judge_first: str = "--judge asks about 50 pairs (or --sample 50 writes them); give the answers with --judgements"
    force: str = "--force"
    assume: str = "--assume random --force"
    threshold: str = "detect.threshold={:g}"


_COMMAND_LINE = CleaningWords()


def refuse_held_out(exp: Experiment, asked: str) -> None:
    """Refuse `asked`, an option, for audits of dev or test.

    Raises:
        ConfigError: If held-out pairs are audited.
    """
    if exp.audited != "train":
        raise ConfigError("app.held_out_unchanged", asked=asked, audited=exp.audited)


def refuse_unjudged(exp: Experiment, *, force: bool, words: CleaningWords = _COMMAND_LINE) -> None:
    """Refuse to clean pairs without a judged random sample; with `force`, any judgement or assumption suffices.

    Raises:
        ConfigError: If the rate is unknown, or the pairs are held out.
    """
    refuse_held_out(exp, words.apply)
    files = exp.audit.judgement_files if exp.audit else ()
    enough = (files or exp.detect.assume) if force else files and drawn_at_random(given_judgements(files))
    if enough:
        return
    theirs = " (the verdicts given carry no weights, so they were chosen otherwise)" if files else ""
    raise ConfigError(
        "app.rate_unknown", apply=words.apply, theirs=theirs, judge_first=words.judge_first, assume=words.assume
    )


def refuse_too_much(found: Audited, *, drop: bool, force: bool, words: CleaningWords = _COMMAND_LINE) -> None:
    """Refuse changes of more pairs than the judged sample supports.

    Raises:
        ConfigError: If the sample is too small, or more pairs would change than twice the wrong ones.
    """
    pairs, sampled = found.table.num_rows, found.sampled
    least = min(FEWEST, pairs)
    if force:
        return
    if sampled < least:
        raise ConfigError("app.sample_too_small", apply=words.apply, least=least, sampled=sampled, force=words.force)
    most = math.floor(_MOST * found.noise.high * pairs)
    count = changed(found.table, drop=drop)
    if count > most:
        raise ConfigError(
            "app.too_many_changes",
            apply=words.apply,
            count=count,
            pairs=pairs,
            share=percent(count / pairs),
            high=percent(found.noise.high, 1),
            fewer=_fewer(found, most, words),
        )


def _fewer(found: Audited, most: int, words: CleaningWords) -> str:
    """Advice on flagging at most `most` pairs."""
    by_chance = sorted(found.table["machine_p_clean"].drop_null().to_pylist())
    room = most - found.table["judged"].to_pylist().count("wrong")
    threshold = math.floor(1e4 * by_chance[room]) / 1e4 if 0 <= room < len(by_chance) else 0.0
    raised = words.threshold.format(threshold)
    fewer = f"{raised} flags fewer" if threshold > 0 else "look at the flagged pairs, or judge more"
    return f"{fewer}; {words.force} changes them anyway"


def how_to_measure(found: Audited, applied: Applied) -> str:
    """Write experiments that measure the change on held-out queries, and return their commands."""
    if not found.held_out:
        columns = dict(getattr(found.exp.data, "columns", {})) if applied.whole else {}
        flags = [(f"--{name}", columns.pop(name)) for name in ("query", "document") if columns.get(name)]
        rest = [f"data.columns.{name}={json.dumps(column, ensure_ascii=False)}" for name, column in columns.items()]
        rest += [f"data.{name}={value}" for name, value in rules_of(found.exp.data).items() if applied.whole]
        command = shlex.join(["noisyir", "init", str(applied.pairs), *chain(*flags), *rest])
        return f"\n{'next':<7}{command}\n{'':<7}writes an experiment that trains on the cleaned pairs"
    experiments = _experiments(found.exp, applied)
    change = "the change" if len(experiments) > 1 else "the effect of the machine's flags alone"
    intro = f"The data has {found.held_out:,} held-out queries. To measure {change} on them:"
    commands = [f"  noisyir run {shlex.quote(str(path))}" for path in experiments]
    return "\n".join([intro, *commands])


def _experiments(exp: Experiment, applied: Applied) -> list[Path]:
    """Experiments on a whole file before and after cleaning, or on the data with each treatment of the flags."""
    settings = exp.model_dump(mode="json", exclude_defaults=True, exclude={"audit", "methods", "keep"})
    folder, stem = applied.pairs.parent, applied.log.name.removesuffix(".changes.jsonl")
    if not (isinstance(exp.data, Pairs) and applied.whole):
        return [_written(folder / f"{stem}.treatments.yaml", {**settings, "methods": list(_TREATMENTS)})]
    found_at = {
        name: str(Path(here(path)).resolve())
        for name, path in [("path", exp.data.path), ("corpus", exp.data.corpus)]
        if path
    }
    found = []
    for name, path in [("given", found_at["path"]), ("cleaned", str(applied.pairs.resolve()))]:
        data = {**settings["data"], **found_at, "path": path}
        told = {**settings, "name": f"{exp.name}-{name}", "data": data, "methods": ["dpr"]}
        found.append(_written(folder / f"{stem}.{name}.yaml", told))
    return found


def _written(path: Path, settings: dict[str, Any]) -> Path:
    path.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")
    return path
