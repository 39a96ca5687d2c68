"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from noisyir.commands import StoreUrl, experiment_names, open_store, split_settings

if TYPE_CHECKING:
    from noisyir.app.audits import Audited
    from noisyir.engine.store import Store
    from noisyir.pipelines.experiment import Experiment


def run(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATASET|PAIRS",
            help="an experiment, a data set's folder, or a file of pairs",
            autocompletion=experiment_names,
        ),
    ],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="settings, such as detect.threshold=0.8")
    ] = None,
    corpus: Annotated[
        str | None, typer.Option(metavar="FILE", help="the documents, where a file of pairs only names them")
    ] = None,
    out: Annotated[str | None, typer.Option(metavar="DIR", help="where the files go (default: NAME-audit)")] = None,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="judge by this model, not by small ones trained on the data")
    ] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", help="write a sample of N pairs to judge by hand")] = None,
    error: Annotated[
        float | None, typer.Option(metavar="E", help="say how many to judge for the noise rate within E")
    ] = None,
    judgements: Annotated[
        str | None, typer.Option(metavar="FILE", help="take verdicts by hand back, and judge all pairs anew")
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="write cleaned pairs, and a log of what was changed")] = False,
    store: StoreUrl = None,
) -> int:
    """Say which training pairs are wrong, and why.

    example: noisyir audit pairs.jsonl --corpus corpus.jsonl --out audit --apply
    """
    from noisyir.app.audits import experiment_of
    from noisyir.app.console import stdout_console

    settings, machine = split_settings(overrides)
    exp = experiment_of(data, settings, corpus=corpus, model=model, sample=sample, judgements=judgements)
    folder = Path(out or f"{exp.name}-audit")
    found = _judged(exp, folder, machine, open_store(store))
    console = stdout_console()
    console.print(found.summary(error))
    for name in found.write(folder):
        console.print(f"{name:<23}{folder / name}")
    if apply:
        console.print(f"\n{found.apply(folder).summary()}")
    return 0


def _judged(exp: Experiment, folder: Path, machine: list[str], store: Store) -> Audited:
    """The verdicts on the pairs.  StoreError where they could not be written."""
    from noisyir import experiments
    from noisyir.app.audits import audit, refuse_to_overwrite
    from noisyir.app.console import observer_for
    from noisyir.tracking import open_tracker

    store.check_writable()
    refuse_to_overwrite(exp, folder)
    runtime = experiments.load_runtime(machine)
    tracker = open_tracker(experiment=exp, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        return audit(exp, store=store, runtime=runtime, tracker=tracker, observer=observer)
