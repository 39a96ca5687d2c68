"""`noisyir refresh`: new documents for a trained model, encoded and indexed without what is there already."""

import json
import sys
from argparse import Namespace
from pathlib import Path

from noisyir import experiments
from noisyir.app.console import observer_for, stdout_console
from noisyir.app.refresh import refresh_corpus
from noisyir.commands import open_store
from noisyir.tracking.tracker import Tracker


def run(args: Namespace) -> int:
    """Refresh the model's newest index, and say what was new."""
    documents, given = args.documents, list(args.overrides)
    if documents and "=" in documents and not Path(documents).exists():  # a setting behind MODEL: only --remove
        documents, given = None, [documents, *given]
    settings = experiments.load_refresh(
        {"model": args.model, "data": {"path": documents, "remove": args.remove}, "rebuild": args.rebuild},
        [text for text in given if not experiments.is_runtime(text)],
    )
    runtime = experiments.load_runtime([text for text in given if experiments.is_runtime(text)])
    store = open_store(args)
    store.check_writable()
    with observer_for(sys.stderr) as observer:
        done = refresh_corpus(settings, store=store, runtime=runtime, tracker=Tracker(), observer=observer)
    if args.json:
        outcome = done.outcome
        print(json.dumps({"run": outcome.executed, "cached": outcome.cached, **done.counts}, indent=2))
        return 0
    out = stdout_console()
    out.print(f"\n{done.outcome.executed} run, {done.outcome.cached} cached")
    for name, line in done.lines().items():
        out.print(f"{name:<11} {line}", markup=False)
    out.print(f"\nnext        noisyir search {args.model} 'your question'", markup=False)
    return 0
