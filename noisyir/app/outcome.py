"""Terminal summary of a finished run: tables, warnings and next commands; nothing is computed here."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from rich.console import Console

from noisyir.app.console import print_text, results_table, stdout_console
from noisyir.app.own_data import doubt_of, recommended, said_of_data, too_small
from noisyir.app.runs import Outcome
from noisyir.app.systems import BEST, against_export, first_searchable
from noisyir.base.command_line import typed_words
from noisyir.engine.remote.fetched import located
from noisyir.engine.store import Store
from noisyir.evaluation.pages.advice import best_lines, missed
from noisyir.evaluation.pages.detection import detection_rows, flag_warnings
from noisyir.evaluation.pages.report import conclusion, verdicts
from noisyir.evaluation.pages.settings import PublishedParams
from noisyir.evaluation.pages.summary import published_rows, summary_rows, trial_rows
from noisyir.evaluation.recommendation import Recommendation
from noisyir.evaluation.significance import SEEDS_OF_A_CLAIM
from noisyir.methods.plans.experiment import Experiment

_WITH_INTERVALS = 110  # columns; narrower terminals show only the first interval
_UNDER = "\n            "  # a label
_GAINS = "weighs suspicious pairs down, which gains if wrong pairs have documents of other subjects"
_MORE = f"{SEEDS_OF_A_CLAIM} seeds make it a claim: type this with each other seed, then compare"
_REFUSED = ": not registered, see the warning; to register it:"


def print_outcome(outcome: Outcome, store: Store, exp: Experiment, *, verbose: bool = False) -> None:
    """Print the best system and its caveats, the result table, file locations, and suggested commands.

    Args:
        verbose: Also print the number of steps.
    """
    console = stdout_console()
    if verbose or not console.is_terminal:
        console.print(f"\n{outcome.executed} run, {outcome.cached} cached")
    best = recommended(outcome, store, exp)
    _print_conclusion(console, best, outcome, store, exp)
    if doubt := doubt_of(outcome, store, exp):
        print_text(console, f"\nWARNING     {doubt}")
    _print_tables(console, outcome, store, exp.claims)
    console.print()
    for name, said in said_of_data(outcome, exp).items():
        print_text(console, f"{name:<11} {said}")
    for page, artifact in {"report": "report", "audit": "audit_files"}.items():
        if artifact in outcome.kept:
            console.print(f"{page:<11} {store.builds.folder(outcome.kept[artifact]) / f'{page}.html'}")
    for name, value in outcome.facts.items():
        if name == "mlflow_run" and console.is_terminal and not verbose:
            continue  # an id for programs
        registers = f"{_REFUSED} {_typed(exp, '--force')}" if name == "refused" else ""
        print_text(console, f"{name:<11} {value}{registers}")
    _print_next(console, best, outcome, store, exp)


def _print_conclusion(
    console: Console, best: Recommendation | None, outcome: Outcome, store: Store, exp: Experiment
) -> None:
    """Print the best system with its gain, and the difference between the last method and another one."""
    if best is not None:
        print_text(console, f"\nbest        {_UNDER.join(best_lines(best))}")
        if small := too_small(outcome, len(best.groups)):
            print_text(console, f"too small   {small}")
        if best.missed:
            print_text(console, f"missed      {missed(best)}")
            typed = typed_words.get()
            name = next((word for word in typed if Path(word).is_file()), exp.name)
            words = [name, *(word for word in typed if word.startswith("data.")), "--split", best.told_on]
            print_text(console, f"            {shlex.join(['noisyir', 'audit', *words])}")
    rows = _kept(store, outcome, "comparison").to_pylist() if "comparison" in outcome.kept else []
    if rows and (tested := verdicts(rows, exp.report)):
        said, last = conclusion(None, tested), tested[-1]
        if last["verdict"].startswith("suggests"):
            names = [f"{outcome.experiment}:{last[of]}" for of in ("baseline", "system")]
            said += [_MORE, _typed(exp, f"seed={exp.seed + 1}"), shlex.join(["noisyir", "compare", *names])]
        print_text(console, f"compared    {_UNDER.join(said)}")


def _typed(exp: Experiment, *more: str) -> str:
    """The command that was typed, with more words."""
    return shlex.join(["noisyir", *(typed_words.get() or ("run", exp.name)), *more])


def _print_next(console: Console, best: Recommendation | None, outcome: Outcome, store: Store, exp: Experiment) -> None:
    asked = outcome.experiment if best is None or best.best == exp.kept else f"{outcome.experiment}:{best.best}"
    name, commands = shlex.quote(outcome.experiment), list[str]()
    if "index" in outcome.kept and (able := first_searchable(store, [asked, f"{outcome.experiment}:{BEST}"])):
        commands.append(f"noisyir search {shlex.quote(able)} 'your question'")
    if "model" in outcome.kept and against_export(store, outcome.experiment) is None:
        commands.append(f"noisyir export {name} --to my-model")
    if "report" in outcome.kept:
        commands.append(f"noisyir show {name} --page")
    for head, command in zip(["\nnext", *["    "] * 2], commands, strict=False):
        console.print(f"{head}        {command}", markup=False)
    if {"model", "comparison"} <= outcome.kept.keys() and _could_weigh(exp):
        methods = ", ".join([*(method.kind for method in exp.methods), "reweight"])
        again = _typed(exp, f"methods=[{methods}]", "detect.assume=best")
        print_text(console, f"\nnot tried   {again}\n            {_GAINS}")


def _could_weigh(exp: Experiment) -> bool:
    """Whether only plain training of a transformer was tried on data of unknown quality."""
    plain = {method.kind for method in exp.methods} <= {"static", "dpr"}
    return plain and exp.model.backbone == "transformer" and not exp.claims and not located(exp.data).has_weights


def _print_tables(console: Console, outcome: Outcome, store: Store, published: Sequence[PublishedParams]) -> None:
    """Print results with warnings, wrong-pair detection quality, and the trials behind a model's choice."""
    if "comparison" in outcome.kept:
        console.print()
        comparison = _kept(store, outcome, "comparison")
        rows = summary_rows(comparison)
        if console.is_terminal and console.width < _WITH_INTERVALS:
            rows = [row[:2] + [cell.partition(" [")[0] for cell in row[2:]] for row in rows]
        console.print(results_table(rows))
        if rows := published_rows(comparison, published):
            console.print("\npublished and measured")
            console.print(results_table(rows))
    if "detection" in outcome.kept:
        detection = _kept(store, outcome, "detection")
        if rows := detection_rows(detection):
            console.print("\nwrong pairs found")
            console.print(results_table(rows))
        for warning in flag_warnings(detection):
            print_text(console, f"\nwarning     {warning}")
    if "trials" in outcome.kept:
        console.print()
        console.print(results_table(trial_rows(_kept(store, outcome, "trials"))))


def _kept(store: Store, outcome: Outcome, name: str) -> pa.Table:
    return store.builds.table(outcome.kept[name])
