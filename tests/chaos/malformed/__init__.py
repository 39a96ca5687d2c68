"""Malformed input of every kind: each must end in one line that names place and remedy, soon, in little memory."""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import chain, zip_longest
from pathlib import Path

import torch

from noisyir.base.errors import NoisyirError
from noisyir.methods import experiments
from tests.chaos.case import Case
from tests.chaos.malformed import commands, data, formats, judgements, models, settings
from tests.chaos.malformed.trial import Trial, tried
from tests.tiny import write_beir

FAMILIES = {
    "data": data.trials,
    "formats": formats.trials,
    "settings": settings.trials,
    "models": models.trials,
    "judgements": judgements.trials,
    "commands": commands.trials,
}


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """Try `count` inputs, of every family alike until it has no more; each in a folder of its own."""
    warm_up(folder)
    for number, trial in enumerate(chosen(seed, count)):
        yield tried(trial, folder / f"{number:04d}", seed)


def warm_up(folder: Path) -> None:
    """Load here, once, what every trial needs, for each is forked from this process."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.set_num_threads(1)
    folder.mkdir(parents=True, exist_ok=True)
    experiments.load("demo")
    data.read_all(kind="beir", path=str(write_beir(folder / "sound")))
    models.make_sound()
    formats.sound()
    with suppress(NoisyirError):
        commands.called(["run", "demo", "--why"])


def chosen(seed: int, count: int) -> list[Trial]:
    """The trials of a campaign: those of each family in an order that follows from the seed, the families in turns."""
    families: list[Sequence[Trial]] = []
    for name, trials in FAMILIES.items():
        found = list(trials(random.Random(f"{seed} {name}")))
        random.Random(seed).shuffle(found)
        families.append(found)
    turns = chain.from_iterable(zip_longest(*families))
    return [trial for trial in turns if trial is not None][:count]
