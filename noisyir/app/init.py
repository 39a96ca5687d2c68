"""An experiment's file for data of one's own: what was found in it as comments, what may be changed, and why."""

import json
import os
import re
from pathlib import Path

from noisyir.app.own_data import experiment_for
from noisyir.data.formats.pairs import Pairs
from noisyir.data.limits import is_on_hub
from noisyir.errors import ConfigError
from noisyir.pipelines.experiment import Experiment
from noisyir.pipelines.left_out import MANY

_PLAIN = re.compile(r"[A-Za-z_./][\w./-]*")  # of YAML, a text that needs no quotes
_WORDS = ("true", "false", "null", "yes", "no", "on", "off", "y", "n")  # which YAML takes for something else
_TEMPLATE = """\
# Written by `noisyir init`: {found}
#   noisyir run {file} --dry-run          what it would do, and what that costs
#   noisyir run {file}                    do it; nothing is done twice
#   noisyir run {file} train.epochs=3     settings on the command line change it for once
#   noisyir audit {file}                  which of the training pairs are wrong
name: {name}
data:
  {data}
{hold_out}
# Trained side by side on the same pairs, and compared.  The last one is kept: noisyir search, export and trace take it.
#   dpr       believes every pair
#   auto      tries on held-out queries whether it helps to weigh the pairs by their chance to be right, and to give
#             wrong ones another document too, and is dpr where it does not: 18 trainings, minutes of a static model
#   reweight  weighs them in any case: one training, for transformers
methods: [dpr, auto]

# Where training starts.  static: a table of token vectors, trained on a laptop in minutes.  transformer: an encoder,
# better and a hundred times slower; its weights are a folder, or a Hugging Face name that was downloaded before.
model: {{backbone: static}}
# model: {{backbone: transformer, weights: intfloat/e5-small-v2, query_prefix: "query: ", passage_prefix: "passage: "}}

# Left out, and therefore chosen by rule ({chosen}):
# train: {{{train}}}

# A page beside the result with the pairs that are likely to be wrong:
# audit: {{}}
"""


def experiment_file(data: str, target: Path, *, corpus: str | None = None) -> str:
    """Write the experiment; what was found and chosen, in words.  ConfigError where the file is there already.

    data, corpus: paths, or names of the Hub, which the experiment holds as they are.
    """
    if target.exists():
        raise ConfigError(f"{target} exists already: run it (noisyir run {target}), or name another file with --to")
    exp = experiment_for(data, corpus=corpus)
    found = _found(exp, data)
    on_hub = {name: source for name, source in (("path", data), ("corpus", corpus or "")) if is_on_hub(source)}
    places = {"kind": exp.data.kind, **_places(exp, target), **on_hub}
    train = {name: getattr(exp.train, name) for name in ("learning_rate", "epochs", "batch_size", "patience")}
    text = _TEMPLATE.format(
        found=found,
        file=target,
        name=_yaml(exp.name),
        data="\n  ".join(f"{name}: {_yaml(value)}" for name, value in places.items()),
        hold_out=_hold_out(exp),
        chosen=next(said for name, said in exp.chosen.items() if name.startswith("train.")).partition(": ")[2],
        train=", ".join(f"{name}: {value}" for name, value in train.items()),
    )
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {target}: {error}") from error
    return "\n".join([found, *(f"{'chosen':<12}{name:<20} {said}" for name, said in exp.chosen.items())])


def _found(exp: Experiment, data: str) -> str:
    """The data in a sentence; of a file of pairs how many there are, and the use of its columns."""
    if not isinstance(exp.data, Pairs):
        return f"{data} is read as {exp.data.kind}"
    pairs = exp.data.count_pairs(MANY)
    columns = ", ".join(f"{name} as {column}" for column, name in exp.data.open().columns.items())
    return f"{data} holds {pairs:,}{' pairs or more' if pairs == MANY else ' pairs'}, with {columns}"


def _places(exp: Experiment, target: Path) -> dict[str, str]:
    """The files of the data, as seen from the experiment's."""
    given = {name: getattr(exp.data, name) for name in exp.data.locations()}
    return {name: os.path.relpath(value, target.parent) for name, value in given.items() if value is not None}


def _hold_out(exp: Experiment) -> str:
    """The line of what is held out, where the data has no splits."""
    held = exp.data.hold_out
    if held is None:
        return ""
    shares = ", ".join(f"{split}: {share:g}" for split, share in held.shares.items())
    return f"  # {exp.chosen['data.hold_out']}:\n  # hold_out: {{{shares}, seed: {held.seed}}}\n"


def _yaml(text: str) -> str:
    """A text as YAML reads it back."""
    return text if _PLAIN.fullmatch(text) and text.lower() not in _WORDS else json.dumps(text, ensure_ascii=False)
