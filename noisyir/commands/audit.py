"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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

if TYPE_CHECKING:
    from noisyir.app.judging.verb import Wishes
    from noisyir.pipelines.experiment import Experiment


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
        str | None, option("TIME", "how long a transformer may read, such as 5m: doubtful ones first")
    ] = None,
    error: Annotated[float | None, option("E", "say how many to judge for the noise rate within E")] = None,
    judgements: Annotated[
        list[str] | None, option("FILE", "take verdicts by hand back; a random sample sets the machine (repeatable)")
    ] = None,
    refit: Annotated[bool, flag("--refit", "judge all pairs anew by all verdicts, also by those not drawn")] = False,
    apply: Annotated[
        bool, flag("--apply", "write pairs with weights, the surest wrong ones relabelled, and a log")
    ] = False,
    drop: Annotated[bool, flag("--drop", "with --apply: leave wrong pairs out, and write no weights")] = False,
    force: Annotated[bool, flag("--force", "with --apply: also without a random sample, however much changes")] = False,
    judge: Annotated[bool, flag("--judge", "judge pairs on a local page; in the terminal without a display")] = False,
    terminal: Annotated[bool | None, flag("--terminal/--page", "with --judge: there, display or not")] = None,
    judge_as: Annotated[str | None, option("NAME", "with --judge: who you are (default: login name)", "--as")] = None,
    keep_wrong_below: Annotated[
        float | None, option("E", "say how many to keep for a share of wrong ones below E")
    ] = None,
    store: StoreUrl = None,
) -> int:
    """Say which training pairs are wrong, and why.

    example: noisyir audit pairs.jsonl --corpus corpus.jsonl --judgements sample.csv --out audit --apply
    """
    from noisyir.app.judging.verb import AuditCommand, Wishes
    from noisyir.app.label_audit import experiment_to_audit
    from noisyir.errors import ConfigError

    settings, machine = split_settings(overrides)
    reading = None if budget is None else seconds_of(budget)
    exp = experiment_to_audit(
        data,
        settings,
        corpus=corpus,
        model=model,
        sample=sample,
        judgements=judgements or (),
        refit=refit,
        budget=reading,
    )
    if drop and not apply:
        raise ConfigError("--drop says how an audit is applied: give it with --apply")
    folder = Path(out or f"{exp.name}-audit")
    command = AuditCommand(data, overrides or (), corpus, out, model, store)
    wishes = Wishes(command, judgements or (), judge, terminal, judge_as, keep_wrong_below)
    return _audit(exp, machine, folder, store, wishes, error=error, apply=apply, drop=drop, force=force)


def _audit(
    exp: "Experiment",
    machine: Sequence[str],
    folder: Path,
    store: str | None,
    wishes: "Wishes",
    *,
    error: float | None,
    apply: bool,
    drop: bool,
    force: bool,
) -> int:
    from noisyir import experiments
    from noisyir.app.console import observer_for, stdout_console
    from noisyir.app.label_audit import refuse_to_overwrite, run_audit
    from noisyir.app.label_cleaning import how_to_measure, refuse_too_much, refuse_unjudged
    from noisyir.tracking import open_tracker

    if apply:
        refuse_unjudged(exp, force=force)
    opened = open_store(store)
    opened.check_writable()
    refuse_to_overwrite(exp, folder)
    runtime = experiments.load_runtime(machine)
    tracker = open_tracker(experiment=exp, home=opened.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        found = run_audit(exp, store=opened, runtime=runtime, tracker=tracker, observer=observer)
    console = stdout_console()
    console.print(found.summary(error))
    if apply:
        refuse_too_much(found, drop=drop, force=force)
    for name in found.write(folder):
        console.print(f"{name:<23}{folder / name}")
    if apply:
        applied = found.apply(folder, drop=drop)
        console.print(f"\n{applied.summary()}\n{how_to_measure(found, applied)}".rstrip())
    if said := wishes.met(found, folder):
        console.print(said, markup=False)
    return 0
