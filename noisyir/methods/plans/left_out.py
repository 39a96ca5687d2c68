"""Rules for settings that an experiment leaves out and that depend on its model and its data."""

from typing import Any

from noisyir.base.pages.cells import percent
from noisyir.data.formats import Summary
from noisyir.data.settings import HeldOutParams
from noisyir.engine.remote.fetched import located
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.rules import MANY, rule_for

TRIED_FROM, LEAST_RATE = 5_000, 0.05
# Ranked after each epoch of a transformer are at most a fifth as many dev queries and documents as there are pairs: a
# tenth of its time, because a pair that is trained on costs three times as much as one that is read.
_DEV_PART, _OF_DEV = 5, ("dev_queries", "dev_documents")
_PATIENCE = 2  # epochs without a better dev MRR@10, if dev queries are drawn


def trials_pay(backbone: str, pairs: int, most_wrong: float | None = None) -> tuple[bool, str]:
    """Whether the eighteen trainings of `auto` can matter, and why, in words.

    A trial is judged by its difference in nDCG@10 to plain training on every training query.  With 5,000 queries the
    standard error is about .004, because the difference varies by .28 from query to query: a gain of .01, the least
    that `noisyir promote` counts, is then detected in four of five cases at a level of 5 %.  `most_wrong` is the upper
    end of the share of wrong pairs, if people have judged some.
    """
    if backbone != "static":
        return False, "auto trains eighteen times, which is long for a transformer"
    if most_wrong is not None and most_wrong <= LEAST_RATE:
        known = f"at most {percent(most_wrong)} of the pairs are wrong by your judgements"
        return False, f"{known}: there is little to correct"
    if pairs < TRIED_FROM:
        return False, f"auto's trials cannot tell a gain of 0.01 from chance with fewer than {TRIED_FROM:,} pairs"
    return True, f"{TRIED_FROM:,} pairs or more are enough for auto's trials to tell a gain of 0.01"


def filled_in(exp: Experiment) -> Experiment:
    """The experiment with settings that it leaves out chosen, and noted in `chosen`.

    Data that is not on this machine is taken to be large and to have no splits.
    """
    if exp.task.trained:
        return exp
    found = located(exp.data).summary()
    held = _held_out(exp, found)
    chosen = {"data.columns.label": found.labels} if found.labels else dict[str, str]()
    changes: dict[str, Any] = {}
    if held is not None:
        changes["data"] = exp.data.model_copy(update={"hold_out": held})
        shares = " and ".join(f"{percent(share)} for {split}" for split, share in held.shares.items())
        chosen["data.hold_out"] = f"the data has no {' and no '.join(held.shares)} queries: {shares} are drawn from it"
    training, why = _training(exp, found.pairs, draws_dev=bool(held and held.dev))
    if training:
        changes["train"] = exp.train.model_copy(update=training)
        chosen |= {
            f"train.{name}": f"{value if isinstance(value, str) else format(value, 'g')}: {why}"
            for name, value in training.items()
        }
    return exp.model_copy(update={**changes, "chosen": {**exp.chosen, **chosen}}) if chosen else exp


def _held_out(exp: Experiment, found: Summary) -> HeldOutParams | None:
    """Shares to hold out; None if the experiment sets them or the data has its splits."""
    if "hold_out" in exp.data.model_fields_set:
        return None
    held = HeldOutParams(**{split: 0.0 for split in ("test", "dev") if split in found.splits})
    return held if held.shares else None


def _training(exp: Experiment, pairs: int, *, draws_dev: bool) -> tuple[dict[str, Any], str]:
    """Values for the settings of `train` that are left out, and the reason."""
    rule = rule_for(exp.model.backbone, pairs, upper=bool(exp.train.freeze))
    values = {**rule.settings, **({"patience": _PATIENCE} if draws_dev else {})}
    if exp.model.backbone == "transformer" and pairs < MANY:
        values |= {name: min(getattr(exp.train, name), 1 + pairs // _DEV_PART) for name in _OF_DEV}
    known = f"{pairs:,} pairs{' or more' if pairs == MANY else ''}"
    left_out = {name: value for name, value in values.items() if name not in exp.train.model_fields_set}
    part = ", its upper layers" if exp.train.freeze else ""
    return left_out, f"{exp.model.backbone} backbone{part}, {known}"
