"""Time noisyir beside its peers, in turns of one run, and write benchmarks/speed.json.

example: python -m bench.speed --rows mining,npc_epoch --quick
"""

import argparse
import shlex
import sys

from bench.speed import command
from noisyir.base.errors import NoisyirError


def main() -> int:
    """The table, the growth of hot paths, or a profile of them."""
    parser = argparse.ArgumentParser("bench.speed", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rows", help="rows of the table, with commas (default: all)")
    parser.add_argument("--quick", action="store_true", help="an eighth of the texts, two turns, no record")
    parser.add_argument("--data", help="a data set's file or folder (default: that of the demo)")
    parser.add_argument("--turns", type=int, help="of each side (default: the row's)")
    parser.add_argument("--under", default="", help="run each side below it, such as 'taskset -c 0'")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--grow", action="store_true", help="time a 16th, a 4th and all of the texts, and fit exponents")
    what.add_argument("--profile", action="store_true", help="show where noisyir's side of each row spends its time")
    given = parser.parse_args()
    asked = command.Asked(given.data, quick=given.quick, turns=given.turns, under=tuple(shlex.split(given.under)))
    chosen = command.growth if given.grow else command.profile if given.profile else command.table
    try:
        return int(chosen(given.rows.split(",") if given.rows else [], asked))
    except NoisyirError as error:
        sys.exit(str(error))


sys.exit(main())
