"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

import sys
from argparse import Namespace
from pathlib import Path

from noisyir import experiments
from noisyir.app.console import observer_for, stdout_console
from noisyir.app.label_audit import experiment_to_audit, refuse_to_overwrite, run_audit
from noisyir.commands import open_store
from noisyir.tracking import open_tracker


def run(args: Namespace) -> int:
    """Judge the pairs, put the files for their owner into --out, and say what was found."""
    overrides = [text for text in args.overrides if not experiments.is_runtime(text)]
    exp = experiment_to_audit(
        args.data, overrides, corpus=args.corpus, model=args.model, sample=args.sample, judgements=args.judgements
    )
    store = open_store(args)
    store.check_writable()
    folder = Path(args.out or f"{exp.name}-audit")
    refuse_to_overwrite(exp, folder)
    runtime = experiments.load_runtime([text for text in args.overrides if experiments.is_runtime(text)])
    tracker = open_tracker(experiment=exp, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        found = run_audit(exp, store=store, runtime=runtime, tracker=tracker, observer=observer)
    out = stdout_console()
    out.print(found.summary(args.error))
    for name in found.write(folder):
        out.print(f"{name:<23}{folder / name}")
    if args.apply:
        out.print(f"\n{found.apply(folder).summary()}")
    return 0
