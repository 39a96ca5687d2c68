"""`noisyir bench speed`: what noisyir takes beside its peers; the bench itself is in the checkout alone."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

from noisyir.commands import flag, option
from noisyir.errors import ConfigError

_CHECKOUT = Path(__file__).parents[3]


def run(
    rows: Annotated[str | None, option("NAME,..", "rows of the table, with commas (default: all)")] = None,
    quick: Annotated[bool, flag("--quick", "an eighth of the texts, two turns, no record")] = False,
    data: Annotated[str | None, option("PATH", "a data set's file or folder (default: what the demo reads)")] = None,
    turns: Annotated[int | None, option("N", "of each side (default: the row's)")] = None,
    under: Annotated[str | None, option("COMMAND", "run each side below it, such as 'taskset -c 0'")] = None,
    grow: Annotated[bool, flag("--grow", "time a 16th, a 4th and all of the texts, and fit exponents")] = False,
    profile: Annotated[bool, flag("--profile", "show where noisyir's side of each row spends its time")] = False,
) -> int:
    """Time noisyir beside its peers, in turns of one run, and write benchmarks/speed.json.

    example: noisyir bench speed --rows mining,npc_epoch --quick
    """
    if not (_CHECKOUT / "bench" / "speed").is_dir():
        raise ConfigError("the speed bench is in noisyir's checkout, not in the package: git clone it, and make test")
    sys.path.insert(0, str(_CHECKOUT))
    command = import_module("bench.speed.command")
    asked = command.Asked(data, quick=quick, turns=turns, under=tuple(shlex.split(under or "")))
    what = {"growth": grow, "profile": profile}
    chosen = next((name for name, wanted in what.items() if wanted), "table")
    return int(getattr(command, chosen)((rows or "").split(",") if rows else [], asked))
