"""The `noisyir` command: each verb is a file in `noisyir/front/commands/`, or a folder of them, loaded on demand.

Other packages add verbs by entry points.
"""

import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from importlib.metadata import entry_points
from io import TextIOWrapper
from pkgutil import iter_modules
from types import ModuleType
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from noisyir import __version__
from noisyir.base.errors import NoisyirError
from noisyir.front import commands

# Read when torch and faiss are first imported.  By default their threads busy-wait, which on a shared machine takes
# several times the CPU time and duration of a training.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

GROUP = "noisyir.commands"
_EPILOG = """Start with: noisyir audit FILE, or noisyir run demo

Most verbs also take: --store URL, a folder or fsspec URL of artifacts (default: $NOISYIR_STORE or $NOISYIR_HOME/store);
--wait TIME, how long to wait for what another process holds, such as 10m; --debug, which shows the traceback of an
error; and those with settings --help-kinds, which lists the kinds of methods, samplers, detectors and formats."""
RENAMED = {
    "gc": "store gc", "judge-check": "audit ANSWERS --judge-check JUDGEMENTS", "ls": "status --builds",
    "open": "show NAME --page", "recommend": "init PAIRS --dry-run",
    "trace": "show NAME --trace", "verify": "store verify", "why": "show --query ID",
}  # fmt: skip
"""Removed verbs and their replacements."""
_COMMON = ("store", "debug", "wait", "help_kinds", "help")  # options of most verbs, shown by `noisyir --help`
_EXAMPLE = "\n\nexample: "  # begins the last paragraph of each verb's docstring


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Returns:
        0: success; 1: failure; 3: a gate is not passed; 130: interrupted.

    Raises:
        SystemExit: With code 2, if the usage is wrong.
    """
    from noisyir.base.command_line import typed_words

    _show_every_text()
    debug: set[str] = set()  # filled by --debug before the verb runs
    arguments = list(sys.argv[1:] if argv is None else argv)
    typed = typed_words.set(tuple(arguments))
    try:
        group = _group()
        if "_NOISYIR_COMPLETE" in os.environ:
            group.main(prog_name="noisyir")  # prints shell completions and exits
        with group.make_context("noisyir", arguments or ["--help"], obj={"debug": debug}) as context:
            code = group.invoke(context)
            sys.stdout.flush()  # detects a closed pipe here
        return int(code or 0)
    except typer.Exit as ended:  # --help, --version
        return ended.exit_code
    except typer.TyperException as error:
        _refuse(error)
    except KeyboardInterrupt:
        _say("interrupted; the same command continues where it stopped")
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # closed pipe, as with `| head`
        return 0
    except Exception as error:
        if debug:
            raise
        _say(_in_one_line(error))
        return 1
    finally:
        typed_words.reset(typed)


def _show_every_text() -> None:
    """Print a replacement for a character that the terminal cannot show, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


def _say(text: str) -> None:
    """Print a line on standard error, wrapped between words on a terminal."""
    if not sys.stderr.isatty():
        print(f"noisyir: {text}", file=sys.stderr)
        return
    from rich.console import Console

    from noisyir.app.console import print_text

    print_text(Console(stderr=True, highlight=False, emoji=False, soft_wrap=True), f"noisyir: {text}")


def _in_one_line(error: Exception) -> str:
    """Format the error with its remedy and, for runs and unexpected errors, the path of the traceback."""
    from noisyir.engine.outside_errors import in_our_words, is_from_outside, keep_traceback, kept_at
    from noisyir.engine.runtime import default_home

    if not isinstance(error, NoisyirError) and not is_from_outside(error) and not kept_at(error):
        keep_traceback(default_home(), f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{os.getpid()}", error)
    path = kept_at(error)
    return f"{in_our_words(error)}" + (f" (traceback in {path})" if path else "")


def _refuse(error: typer.TyperException) -> NoReturn:
    """Print the command's usage and the argument error."""
    if context := getattr(error, "ctx", None):
        print(context.get_usage(), file=sys.stderr)
    said = error.format_message().replace("Value error, ", "")
    path = context.command_path if context else "noisyir"
    where = f" {path} --help lists them." if said.startswith("No such command") else ""
    _say(f"{said}{where}")
    raise SystemExit(error.exit_code)


def _group() -> TyperGroup:
    app = typer.Typer(rich_markup_mode=None, subcommand_metavar="COMMAND")
    names = {"help_option_names": ["-h", "--help"], "max_content_width": 120}
    app.callback(context_settings=names, epilog=_EPILOG)(_before_each_verb)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    group.commands = _Verbs(commands)  # type: ignore[assignment]  # only read
    return group


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"noisyir {__version__}")
        raise typer.Exit


def _before_each_verb(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_print_version, help="show the version")] = False,
) -> None:
    """Train dense retrievers on data with wrong labels, and find the wrong ones."""
    from noisyir.engine.remote.torchrun import end_with_agent, launched

    if (begun := launched()) is None:
        return
    end_with_agent()
    if begun.local_rank == 0 and begun.node > 0:
        from noisyir.app.torchrun_worker import follow

        follow(begun)
    if begun.rank > 0:
        raise typer.Exit  # torchrun's first process does everything and starts the training workers
    if begun.several_machines:
        context.call_on_close(begun.end)


class _Verbs(Mapping[str, TyperCommand | TyperGroup]):
    """Commands from the files of a folder, created on access; subfolders become command groups."""

    def __init__(self, folder: ModuleType) -> None:
        self.folder = folder

    def __iter__(self) -> Iterator[str]:
        yield from (module.name.replace("_", "-") for module in iter_modules(self.folder.__path__))
        if self.folder is commands:
            yield from entry_points(group=GROUP).names

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        if (own := name.replace("-", "_")) in [module.name for module in iter_modules(self.folder.__path__)]:
            module = import_module(f"{self.folder.__name__}.{own}")
        elif name in list(self):
            from noisyir.base.variants import entries

            (module,) = entries(GROUP, name)
        elif self.folder is commands and name in RENAMED:
            _say(f"{name} is now: noisyir {RENAMED[name]}")
            raise SystemExit(2)
        else:
            raise KeyError(name)
        if hasattr(module, "__path__"):
            return _verbs_of(module, name)
        verb = _command(module.run, name=name, **_about(module.run))
        declared = {param.name for param in verb.params}
        added = [*(_command(_with_kinds).params if "overrides" in declared else ()), *_command(_every_verb).params]
        verb.params += [param for param in added if param.name not in declared]
        return verb


def _verbs_of(folder: ModuleType, name: str) -> TyperGroup:
    app = typer.Typer(name=name, rich_markup_mode=None, subcommand_metavar="WHAT", add_completion=False)
    about: dict[str, Any] = _about(folder)
    app.callback(**about)(lambda: None)
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    group.commands = _Verbs(folder)  # type: ignore[assignment]  # only read
    return group


def _about(documented: Any) -> dict[str, str]:
    """Return a verb's help from its docstring."""
    text, _, example = (inspect.getdoc(documented) or "").partition(_EXAMPLE)
    return {"help": text, "short_help": _as_clause(text), "epilog": f"\b\nexample: {example}"}


def _as_clause(text: str) -> str:
    """Format a docstring's first line for the list of verbs."""
    first = text.splitlines()[0].removesuffix(".")
    return first[0].lower() + first[1:]


def _command(action: Any, **about: Any) -> TyperCommand:
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=_Command, **about)(action)
    command = get_command(app)
    assert isinstance(command, TyperCommand)
    return command


class _Command(TyperCommand):
    """Command with help that names arguments as in the usage line, without Python types.

    If the verb takes settings, --help-kinds also lists the available kinds, including kinds from installed packages.
    """

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Write the kinds, then the example."""
        if ctx.obj.get("kinds"):
            from noisyir.base.variants import kinds_in
            from noisyir.methods.plans.experiment import Experiment

            with formatter.section("Settings that are of one kind of several"):
                formatter.write_dl([(name, ", ".join(kinds)) for name, kinds in kinds_in(Experiment).items()])
        super().format_epilog(ctx, formatter)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        for heading, kind in (("Arguments", "argument"), ("Options", "option")):
            rows = [
                (param.metavar, param.help) if kind == "argument" else param.get_help_record(ctx)  # type: ignore[attr-defined]
                for param in self.get_params(ctx)
                if param.param_type_name == kind and param.name not in _COMMON
            ]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)
        common: list[Any] = [param for param in self.get_params(ctx) if param.name in _COMMON]
        formatter.write_paragraph()
        typed = [" ".join(filter(None, [one.opts[-1], "" if one.is_flag else one.metavar])) for one in common]
        formatter.write_text(f"Also (noisyir --help): {', '.join(typed)}")


def _show_kinds(ctx: typer.Context, asked: bool) -> None:
    if asked:
        ctx.obj["kinds"] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


def _with_kinds(
    help_kinds: Annotated[
        bool,
        typer.Option("--help-kinds", expose_value=False, is_eager=True, callback=_show_kinds, help="show kinds, too"),
    ] = False,
) -> None:
    """Add the option for verbs that take settings."""


def _remember(ctx: typer.Context, asked: bool) -> None:
    if asked:
        ctx.obj["debug"].add("--debug")


def _patience(given: str | None) -> str | None:
    if given is not None:
        from noisyir.base.durations import seconds_of
        from noisyir.engine.locks import WAIT

        seconds_of(given)
        os.environ[WAIT] = given
    return given


def _every_verb(
    debug: Annotated[
        bool, typer.Option("--debug", expose_value=False, callback=_remember, help="show the traceback of an error")
    ] = False,
    wait: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            expose_value=False,
            callback=_patience,
            help="how long to wait for what another process holds, such as 10m",
        ),
    ] = None,
) -> None:
    """Options common to all verbs."""


if __name__ == "__main__":
    sys.exit(main())
