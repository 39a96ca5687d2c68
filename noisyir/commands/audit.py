"""`noisyir audit`: which training pairs are wrong, and why; if asked, a cleaned copy of them."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from noisyir.commands import StoreUrl, argument, experiment_names, flag, open_store, option, split_settings

if TYPE_CHECKING:
    from noisyir.app.label_audit import Audited
    from noisyir.engine.runtime import Runtime
    from noisyir.engine.store import Store
    from noisyir.pipelines.experiment import Experiment
    from noisyir.verdicts.asking.settings import AskParams


def run(
    data: Annotated[
        str, argument("DATASET|PAIRS", "an experiment, a data set's folder, or a file of pairs", experiment_names)
    ],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as detect.threshold=0.8")] = None,
    corpus: Annotated[str | None, option("FILE", "the documents, where a file of pairs only names them")] = None,
    out: Annotated[str | None, option("DIR", "where the files go (default: NAME-audit)")] = None,
    model: Annotated[str | None, option("MODEL", "judge by this model, not by small ones trained on the data")] = None,
    sample: Annotated[int | None, option("N", "write a sample of N pairs to judge by hand")] = None,
    error: Annotated[float | None, option("E", "say how many to judge for the noise rate within E")] = None,
    judgements: Annotated[str | None, option("FILE", "take verdicts by hand back, and judge all pairs anew")] = None,
    apply: Annotated[bool, flag("--apply", "write cleaned pairs, and a log of what was changed")] = False,
    judge_model: Annotated[
        str | None, option("MODEL", "ask a sequence classifier about pairs, by folder or name")
    ] = None,
    judge_url: Annotated[
        str | None, option("URL", "ask an endpoint of the chat protocol: texts are sent there")
    ] = None,
    judge_name: Annotated[str | None, option("NAME", "the model's name at --judge-url")] = None,
    judge_budget: Annotated[str | None, option("N", "most calls, or tokens: 200k tokens (default: 200 calls)")] = None,
    store: StoreUrl = None,
) -> int:
    """Say which training pairs are wrong, and why.

    example: noisyir audit pairs.jsonl --corpus corpus.jsonl --out audit --apply
    """
    from noisyir.app.asking import whom_to_ask
    from noisyir.app.console import stdout_console
    from noisyir.app.label_audit import experiment_to_audit, refuse_to_overwrite
    from noisyir.experiments import load_runtime

    settings, machine = split_settings(overrides)
    settings, judge = whom_to_ask(settings, model=judge_model, url=judge_url, name=judge_name, budget=judge_budget)
    exp = experiment_to_audit(data, settings, corpus=corpus, model=model, sample=sample, judgements=judgements)
    opened = open_store(store)
    opened.check_writable()
    folder = Path(out or f"{exp.name}-audit")
    refuse_to_overwrite(exp, folder)
    runtime = load_runtime(machine)
    found = _audited(exp, opened, runtime)
    console = stdout_console()
    console.print(found.summary(error))
    for name in found.write(folder):
        console.print(f"{name:<23}{folder / name}")
    stopped = judge is not None and _asked(judge, found, folder, runtime)
    if apply:
        console.print(f"\n{found.apply(folder).summary()}")
    return int(stopped)


def _audited(exp: "Experiment", store: "Store", runtime: "Runtime") -> "Audited":
    """The audit, its progress on standard error."""
    from noisyir.app.console import observer_for
    from noisyir.app.label_audit import run_audit
    from noisyir.tracking import open_tracker

    tracker = open_tracker(experiment=exp, home=store.home, enabled=False)
    with observer_for(sys.stderr) as observer:
        return run_audit(exp, store=store, runtime=runtime, tracker=tracker, observer=observer)


def _asked(judge: "AskParams", found: "Audited", folder: Path, runtime: "Runtime") -> bool:
    """Ask a judge that is no person, and print what came of it; whether it stopped answering."""
    from noisyir.app.asking import ask
    from noisyir.app.console import questions_for, stdout_console

    with questions_for(sys.stderr) as progress:
        asked = ask(found, folder, judge, runtime, progress)
    stdout_console().print(f"\n{asked.summary()}", markup=False)
    return asked.spent.stopped is not None
