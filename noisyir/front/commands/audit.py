"""`noisyir audit`: find wrong training pairs with reasons and, on request, write a cleaned copy."""

import sys
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from noisyir.base.errors import ConfigError
from noisyir.front.commands import (
    NOT_PASSED,
    CorpusFile,
    DocumentColumn,
    Json,
    QueryColumn,
    StoreUrl,
    Verbose,
    argument,
    experiment_names,
    flag,
    open_store,
    option,
    print_json,
    split_settings,
    with_columns,
)

if TYPE_CHECKING:
    from noisyir.app.after_audit import JudgingOptions
    from noisyir.app.label_audit import Audited, Gate
    from noisyir.audits.model_judges.settings import AskParams
    from noisyir.engine.runtime import Runtime
    from noisyir.engine.store import Store
    from noisyir.methods.plans.experiment import Experiment


_HEADING = 12  # columns

_Data: TypeAlias = Annotated[
    str, argument("DATASET|PAIRS", "an experiment, a data set's folder, or a file of pairs", experiment_names)
]
_Budget: TypeAlias = Annotated[str | None, option("TIME", "how long a transformer may read, such as 5m")]
_Judgements: TypeAlias = Annotated[
    list[str] | None, option("FILE", "use people's verdicts, also on pools (repeatable)")
]
_FailOver: TypeAlias = Annotated[float | None, option("E", "exit code 3 if more than the share E may be wrong")]
_Assume: TypeAlias = Annotated[str | None, option("KIND", "assume wrong pairs are random, near, lexical, source")]
_Split: TypeAlias = Annotated[
    Literal["train", "dev", "test"] | None, option("SPLIT", "audit the judgements of dev or test (default: train)")
]
_JudgeCheck: TypeAlias = Annotated[str | None, option("FILE", "test a model's judging: PAIRS are its answers")]
_Apply: TypeAlias = Annotated[bool, flag("--apply", "write pairs with weights, relabelled ones, and a log")]


def run(
    data: _Data,
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as detect.threshold=0.8")] = None,
    corpus: CorpusFile = None,
    query: QueryColumn = None,
    document: DocumentColumn = None,
    out: Annotated[str | None, option("DIR", "where the files go (default: NAME-audit)")] = None,
    model: Annotated[str | None, option("MODEL", "judge by this model instead of the packaged one")] = None,
    sample: Annotated[int | None, option("N", "write a sample of N pairs to judge by hand")] = None,
    budget: _Budget = None,
    error: Annotated[float | None, option("E", "print how many to judge to know the rate within E")] = None,
    judgements: _Judgements = None,
    refit: Annotated[bool, flag("--refit", "learn from all verdicts, also on pairs you chose")] = False,
    by_hand: Annotated[bool, flag("--judge", "judge pairs on a local page")] = False,
    standalone: Annotated[bool, flag("--standalone", "write judge.html, to judge without noisyir")] = False,
    judge_as: Annotated[str | None, option("NAME", "with --judge: who you are (default: login name)", "--as")] = None,
    keep_wrong_below: Annotated[float | None, option("E", "write the pairs to keep with at most E wrong")] = None,
    assume: _Assume = None,
    fail_over: _FailOver = None,
    split: _Split = None,
    as_json: Json = False,
    judge_model: Annotated[str | None, option("MODEL", "ask a sequence classifier, by folder or name")] = None,
    judge_url: Annotated[str | None, option("URL", "ask an endpoint of the chat protocol: texts go there")] = None,
    judge_name: Annotated[str | None, option("NAME", "the model's name at --judge-url")] = None,
    judge_budget: Annotated[str | None, option("N", "most calls, or tokens (default: 200 calls)")] = None,
    judge_check: _JudgeCheck = None,
    apply: _Apply = False,
    drop: Annotated[bool, flag("--drop", "with --apply: leave wrong pairs out")] = False,
    force: Annotated[bool, flag("--force", "with --apply: also by few judged pairs, or --assume")] = False,
    verbose: Verbose = False,
    store: StoreUrl = None,
) -> int:
    """List the most suspicious training pairs, and why.

    example: noisyir audit pairs.jsonl --corpus corpus.jsonl --judgements sample.csv --out audit --apply
    """
    if judge_check:
        return _check_judge(data, judge_check, error, as_json=as_json)
    from noisyir.app.audit_data import experiment_to_audit, whom_to_ask

    settings, machine = split_settings(with_columns(overrides, query, document))
    settings, judge = whom_to_ask(settings, model=judge_model, url=judge_url, name=judge_name, budget=judge_budget)
    named = {"corpus": corpus, "model": model, "budget": budget, "assume": assume, "split": split}
    exp = experiment_to_audit(data, settings, **named, sample=sample, judgements=judgements or (), refit=refit)
    from noisyir.app.after_audit import AuditArguments, JudgingOptions  # slow: a mistyped name does not need it

    command = AuditArguments(data, overrides or (), corpus, out, model, budget, assume, store, split, query, document)
    options = JudgingOptions(command, judgements or (), by_hand, judge_as, keep_wrong_below, standalone)
    return _audit(exp, machine, judge, _Clean(apply, drop, force), options, _Output(as_json, verbose, error, fail_over))


def _check_judge(answers: str, judgements: str, within: float | None, *, as_json: bool) -> int:
    """Print how well a model judges compared with people; NOT_PASSED if the rate is not known to within --error."""
    from noisyir.app.console import stdout_console
    from noisyir.audits.model_judges.judge_quality import check_files

    found = check_files(answers, judgements, within)
    if as_json:
        print_json(found.for_machines())
    else:
        console = stdout_console()
        for heading, text in found.summary():
            indent = " " * (_HEADING + len(text) - len(text.lstrip()))
            begin = f"{heading:<{_HEADING}}" + indent[_HEADING:]
            filled = textwrap.fill(text.lstrip(), console.width, initial_indent=begin, subsequent_indent=indent)
            console.print(filled, markup=False)
    return NOT_PASSED if within is not None and not found.is_good_enough else 0


def _audit(
    exp: "Experiment",
    machine: Sequence[str],
    judge: "AskParams | None",
    applying: "_Clean",
    options: "JudgingOptions",
    output: "_Output",
) -> int:
    """Audit, write, judge, apply, and handle the remaining options.

    Returns:
        The exit code; 1 if a judge stopped answering.
    """
    from noisyir.app.audit_folder import refuse_to_overwrite
    from noisyir.app.label_audit import Gate
    from noisyir.app.label_cleaning import refuse_held_out
    from noisyir.methods.experiments import load_runtime

    if output.as_json and (judge or options.judge):
        raise ConfigError("front.json_and_judging")
    options.refuse_unwritten(exp.name)
    gate = None if output.fail_over is None else Gate(exp, output.fail_over)
    runtime, folder = load_runtime(machine), Path(options.command.out or f"{exp.name}-audit")
    opened = open_store(options.command.store)
    if applying:
        applying.check(exp, folder)
    opened.check_writable()
    refuse_to_overwrite(exp, folder)
    if options.wrong is not None:
        refuse_held_out(exp, "--keep-wrong-below")
    began = time.monotonic()
    found = _audited(exp, opened, runtime, verbose=output.verbose)
    took = time.monotonic() - began if sys.stdout.isatty() else None  # piped output must be reproducible
    try:
        if applying:
            applying.check_size(found)
        names = found.write(folder)  # before anything is printed, which may fail
    finally:
        output.say(found.summary(output.error, took, examples=not (options.judge or applying)), **found.for_machines())
    files = "\n".join(f"{name:<15} {folder / name}" for name in names)
    output.say(f"\n{files}", files=[str(folder / name) for name in names])
    stopped = judge is not None and _asked(judge, found, folder, runtime)
    if applying:
        said = applying.apply(found, folder)
        output.say(said, applied=said.split("\n"))
    if said := options.run(found, folder):
        output.say(said, kept=said.split("\n"))
    if not (options.judge or options.standalone or applying) and (step := options.next_step(found, folder)):
        output.say(f"\n{'next':<15} {step}")
    return output.ended(found, gate) or int(stopped)


@dataclass
class _Output:
    """Output of the command: text as it arrives, or one object at the end.

    Attributes:
        error: Print the number of pairs to judge for the noise rate to be known to within this error.
        fail_over: Share of wrong pairs that the final gate allows.
    """

    as_json: bool
    verbose: bool
    error: float | None
    fail_over: float | None
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the error before any work."""
        if self.error is not None:
            from noisyir.detection.rate import pairs_to_judge

            pairs_to_judge(0.5, self.error)

    def say(self, text: str, **facts: Any) -> None:
        """Print the text, or collect the facts."""
        self.facts |= facts
        if not self.as_json:
            _say(text)

    def ended(self, found: "Audited", gate: "Gate | None") -> int:
        """Print the gate's result, and the facts if requested; return the exit code."""
        if gate:
            self.say(gate.told(found), over=gate.is_over(found))
        if self.as_json:
            print_json(self.facts)
        return NOT_PASSED if gate and gate.is_over(found) else 0


@dataclass(frozen=True)
class _Clean:
    """Options for applying the audit."""

    asked: bool
    drop: bool
    force: bool

    def __post_init__(self) -> None:
        """Check that --drop is not given alone."""
        if self.drop and not self.asked:
            raise ConfigError("front.drop_without_apply")

    def __bool__(self) -> bool:
        return self.asked

    def check(self, exp: "Experiment", folder: Path) -> None:
        """Check, before any work, that the audit can be applied."""
        from noisyir.app.label_cleaning import refuse_unjudged
        from noisyir.audits.apply import log_of, refuse_existing

        refuse_unjudged(exp, force=self.force)
        refuse_existing(log_of(folder, exp.name))

    def check_size(self, found: "Audited") -> None:
        """Refuse to change more pairs than the rate allows."""
        from noisyir.app.label_cleaning import refuse_too_much

        refuse_too_much(found, drop=self.drop, force=self.force)

    def apply(self, found: "Audited", folder: Path) -> str:
        from noisyir.app.label_cleaning import how_to_measure

        applied = found.apply(folder, drop=self.drop)
        return f"\n{applied.summary()}\n{how_to_measure(found, applied)}".rstrip()


def _audited(exp: "Experiment", store: "Store", runtime: "Runtime", *, verbose: bool) -> "Audited":
    from noisyir.app.console import observer_for
    from noisyir.app.label_audit import run_audit
    from noisyir.app.runs import Execution

    with observer_for(sys.stderr, verbose=verbose, phases=False) as observer:
        return run_audit(exp, Execution(store=store, runtime=runtime, observer=observer))


def _asked(judge: "AskParams", found: "Audited", folder: Path, runtime: "Runtime") -> bool:
    """Query a non-human judge and print the result; return whether it stopped answering."""
    from noisyir.app.console import questions_for
    from noisyir.app.model_judge import ask

    with questions_for(sys.stderr) as progress:
        asked = ask(found, folder, judge, runtime, progress)
    _say(f"\n{asked.summary()}")
    return asked.spent.stopped is not None


def _say(text: str) -> None:
    from noisyir.app.console import print_text, stdout_console

    print_text(stdout_console(), text)
