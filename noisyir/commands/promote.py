"""`noisyir promote`: decide whether a registered model becomes champion, or step back to the champion before."""

import json
import sys
from argparse import Namespace
from dataclasses import asdict

from pydantic import ValidationError

from noisyir.commands import open_store
from noisyir.errors import ConfigError
from noisyir.eval.settings import PromoteParams


def run(args: Namespace) -> int:
    """Print the decision, or the log; 1 where the challenger is refused, with the reasons on stderr."""
    from noisyir.tracking.decision import Decision
    from noisyir.tracking.promote import decisions, promote, roll_back

    store = open_store(args)
    if args.log:
        lines = decisions(store, args.model)
        if args.json:
            print(json.dumps(lines, indent=2))
        for line in () if args.json else lines:
            print(f"{line['when']}  {line['who']}  {Decision.from_record(line).summary}")
        return 0
    decision = roll_back(args.model, store=store) if args.roll_back else promote(
        args.model, args.version, _params(args), store=store
    )  # fmt: skip
    if args.json:
        print(json.dumps(asdict(decision), indent=2))
    elif decision.verdict != "refused":
        print(decision.summary)
    if decision.verdict == "refused":
        print(f"noisyir: {decision.summary}", file=sys.stderr)
        return 1
    return 0


def _params(args: Namespace) -> PromoteParams:
    """The settings given on the command line.  ConfigError for a value out of range."""
    given = {name: getattr(args, name) for name in ("measure", "split", "min_gain", "min_seeds")}
    try:
        return PromoteParams(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        option = str(first["loc"][0]).replace("_", "-")
        raise ConfigError(f"--{option} {first['input']}: {first['msg']}") from error
