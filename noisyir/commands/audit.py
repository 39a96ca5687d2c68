"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

import sys
from pathlib import Path
from typing import Annotated

from noisyir.commands import (
    StoreUrl,
    argument,
    experiment_names,
    flag,
    open_store,
    option,
    seconds_of,
    split_settings,
)


def run(
    data: Annotated[
        str, argument("DATASET|PAIRS", "an experiment, a data set's folder, or a file of pairs", experiment_names)
    ],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as detect.threshold=0.8")] = None,
    corpus: Annotated[str | None, option("FILE", "the documents, where a file of pairs only names them")] = None,
    out: Annotated[str | None, option("DIR", "where the files go (default: NAME-audit)")] = None,
    model: Annotated[str | None, option("MODEL", "judge by this model, not by the packaged one")] = None,
    sample: Annotated[int | None, option("N", "write a sample of N pairs to judge by hand")] = None,
    budget: Annotated[
        str | None, option("TIME", "how long a transformer may read, such as 5m: the most doubtful pairs first")
    ] = None,
    error: Annotated[float | None, option("E", "say how many to judge for the noise rate within E")] = None,
    judgements: Annotated[str | None, option("FILE", "take verdicts by hand back, and judge all pairs anew")] = None,
    apply: Annotated[bool, flag("--apply", "write cleaned pairs, and a log of what was changed")] = False,
    store: StoreUrl = None,
) -> int:
    """Say which training pairs are wrong, and why.

    example: noisyir audit pairs.jsonl --corpus corpus.jsonl --out audit --apply
    """
    from noisyir import experiments
    from noisyir.app.console import observer_for, stdout_console
    from noisyir.app.label_audit import experiment_to_audit, refuse_to_overwrite, run_audit
    from noisyir.tracking import open_tracker

    settings, machine = split_settings(overrides)
    exp = experiment_to_audit(
        data,
        settings,
        corpus=corpus,
        model=model,
        sample=sample,
        judgements=judgements,
        budget=None if budget is None else seconds_of(budget),
    )
    opened = open_store(store)
    opened.check_writable()
    folder = Path(out or f"{exp.name}-audit")
    refuse_to_overwrite(exp, folder)
    runtime = experiments.load_runtime(machine)
    tracker = open_tracker(experiment=exp, home=opened.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        found = run_audit(exp, store=opened, runtime=runtime, tracker=tracker, observer=observer)
    console = stdout_console()
    console.print(found.summary(error))
    for name in found.write(folder):
        console.print(f"{name:<23}{folder / name}")
    if apply:
        console.print(f"\n{found.apply(folder).summary()}")
    return 0
