"""The `noisyir` command: argument parsing only.  What each verb does is in `noisyir/commands/`, one file each."""

import argparse
import os
import sys
from collections.abc import Sequence
from typing import TypeAlias

_Groups: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.  Exit code 0, 1 for the user's fault, 2 for usage, 130 when interrupted."""
    args = _parse(argv)
    from importlib import import_module

    from noisyir.engine.processes import launched
    from noisyir.errors import NoisyirError

    try:
        if (begun := launched()) and begun[0] > 0:
            return 0  # torchrun's first process does all, and begins those that train with it
        command = import_module(f"noisyir.commands.{args.command}")
        return int(command.run(args) or 0)
    except NoisyirError as error:
        if args.debug:
            raise
        print(f"noisyir: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("noisyir: interrupted; the same command continues where it stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left, as `| head` does
        return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    """Like parse_args, but settings may also stand behind options: `run demo --to search train.epochs=3`."""
    parser = _parser()
    args, rest = parser.parse_known_args(argv)
    if unknown := [text for text in rest if text.startswith("-") or "overrides" not in args]:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    if rest:
        args.overrides += rest
    return args


def _parser() -> argparse.ArgumentParser:
    from noisyir import __version__

    parser = argparse.ArgumentParser(
        prog="noisyir",
        description="Train dense retrievers on data whose labels are wrong, and say which labels are wrong.",
        epilog="Start with: noisyir run demo",
    )
    parser.add_argument("--version", action="version", version=f"noisyir {__version__}")
    groups = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    doing = (_run, _audit, _bench, _promote, _refresh, _search, _export, _gc)
    looking = (_status, _why, _ls, _show, _trace, _verify, _doctor)
    for add in (*doing, *looking):
        add(groups)
    return parser


def _add(groups: _Groups, name: str, summary: str, example: str) -> argparse.ArgumentParser:
    command = groups.add_parser(
        name,
        help=summary,
        description=summary[0].upper() + summary[1:] + ".",
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument(
        "--store", metavar="URL", help="folder or fsspec URL of the artifacts (default: $NOISYIR_HOME/store)"
    )
    command.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return command


def _positive(text: str) -> float:
    """A number above 0."""
    if not 0 < (value := float(text)) < float("inf"):
        raise ValueError
    return value


def _json(command: argparse.ArgumentParser) -> None:
    command.add_argument("--json", action="store_true", help="print one JSON object on stdout and nothing else there")


def _run(groups: _Groups) -> None:
    command = _add(groups, "run", "run an experiment", "noisyir run demo train.epochs=3 --to search")
    command.add_argument("experiment", metavar="EXPERIMENT", help="a name that ships with noisyir, or a .yaml file")
    command.add_argument(
        "overrides",
        nargs="*",
        metavar="KEY=VALUE",
        help="settings to change, such as train.epochs=3 or runtime.threads=2",
    )
    command.add_argument("--to", metavar="STAGE", help="stop after this stage")
    command.add_argument("--only", metavar="STAGE", help="run this stage alone, from artifacts that are there")
    command.add_argument("--refresh", metavar="STAGE", action="append", default=[], help="rebuild it (repeatable)")
    command.add_argument(
        "--dry-run", action="store_true", help="show what is cached, what would run, and what it costs"
    )
    command.add_argument(
        "--gpu-tflops",
        type=_positive,
        default=100.0,
        metavar="N",
        help="--dry-run: assume that a GPU does N * 10^12 operations a second (default 100, a third of an A100's 312)",
    )
    command.add_argument("--engine", choices=("local", "prefect"), default="local", help="who calls the stages")
    command.add_argument("--no-track", action="store_true", help="do not track and register with MLflow")
    _json(command)


def _audit(groups: _Groups) -> None:
    command = _add(
        groups,
        "audit",
        "say which training pairs are wrong, and why",
        "noisyir audit pairs.jsonl --corpus corpus.jsonl --out audit --apply",
    )
    command.add_argument("data", metavar="DATASET|PAIRS", help="an experiment, a data set's folder, or a file of pairs")
    command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings, such as detect.threshold=0.8")
    command.add_argument("--corpus", metavar="FILE", help="the documents, where a file of pairs only names them")
    command.add_argument("--out", metavar="DIR", help="where the files go (default: NAME-audit)")
    command.add_argument("--model", metavar="MODEL", help="judge by this model, not by small ones trained on the data")
    command.add_argument("--sample", type=int, metavar="N", help="write a sample of N pairs to judge by hand")
    command.add_argument("--error", type=float, metavar="E", help="say how many to judge for the noise rate within E")
    command.add_argument("--judgements", metavar="FILE", help="take verdicts by hand back, and judge all pairs anew")
    command.add_argument("--apply", action="store_true", help="write cleaned pairs, and a log of what was changed")


def _bench(groups: _Groups) -> None:
    command = _add(groups, "bench", "compare denoisers", "noisyir bench noise --suite pydocs --seeds 3")
    command.add_argument("kind", choices=("noise",), help="noise: wrong pairs put in on purpose")
    command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="settings, such as methods=[dpr,npc]")
    command.add_argument("--suite", default="pydocs", metavar="NAME", help="a suite, or a .yaml file (default pydocs)")
    command.add_argument("--seeds", type=int, metavar="N", help="seeds 0 to N - 1 instead of the suite's")
    command.add_argument("--jobs", type=int, metavar="N", help="steps at a time (default: one a core)")
    command.add_argument("--engine", choices=("local", "prefect"), default="local", help="who calls the stages")
    command.add_argument("--out", metavar="DIR", help="copy the page and its tables there")
    command.add_argument("--refresh", metavar="STAGE", action="append", default=[], help="rebuild it (repeatable)")
    command.add_argument("--dry-run", action="store_true", help="show what is cached and what would run")


def _why(groups: _Groups) -> None:
    command = _add(groups, "why", "say what each stage decided about a query or a pair", "noisyir why QUERY_ID DOC_ID")
    command.add_argument("query_id", metavar="QUERY_ID")
    command.add_argument("doc_id", nargs="?", metavar="DOC_ID")
    command.add_argument("--run", metavar="EXPERIMENT", help="of this experiment's newest run (default: the newest)")
    _json(command)


def _status(groups: _Groups) -> None:
    command = _add(
        groups, "status", "say what ran lately, what failed, and which model is champion", "noisyir status --hours 12"
    )
    command.add_argument("--hours", type=float, default=24.0, metavar="N", help="how far to look back (default 24)")
    _json(command)


def _ls(groups: _Groups) -> None:
    command = _add(groups, "ls", "list artifacts or runs", "noisyir ls warm_up")
    command.add_argument("stage", nargs="?", metavar="STAGE", help="only what this stage wrote")
    command.add_argument("--runs", action="store_true", help="list pipeline runs instead")
    _json(command)


def _show(groups: _Groups) -> None:
    command = _add(groups, "show", "show one build: settings, inputs, tables, first rows", "noisyir show ingest")
    command.add_argument("build", metavar="BUILD", help="a stage's name (its newest build), or the start of a key")
    command.add_argument("--rows", type=int, default=3, metavar="N", help="rows shown of each table (default 3)")
    _json(command)


def _verify(groups: _Groups) -> None:
    command = _add(groups, "verify", "check the digest of every stored file", "noisyir verify")
    command.add_argument("build", nargs="?", metavar="BUILD", help="only this build")


def _gc(groups: _Groups) -> None:
    command = _add(groups, "gc", "delete what no recent run and no registered model needs", "noisyir gc --keep-runs 3")
    command.add_argument("--keep-runs", type=int, default=5, metavar="N", help="runs whose artifacts stay (default 5)")
    command.add_argument("--dry-run", action="store_true", help="only say what would be deleted")


def _search(groups: _Groups) -> None:
    command = _add(groups, "search", "search with a trained model", 'noisyir search demo "parse an ISO date"')
    command.add_argument("model", metavar="MODEL", help="an experiment's name, a model's key, or models:/NAME@ALIAS")
    command.add_argument("query", metavar="QUERY")
    command.add_argument("-k", type=int, default=5, metavar="N", help="documents shown (default 5)")
    _json(command)


def _refresh(groups: _Groups) -> None:
    command = _add(
        groups,
        "refresh",
        "encode and index new documents for a trained model, and nothing else",
        "noisyir refresh demo new-documents.jsonl --remove gone.txt",
    )
    command.add_argument("model", metavar="MODEL", help="an experiment's name, a model's key, or models:/NAME@ALIAS")
    command.add_argument(
        "documents", nargs="?", metavar="DOCUMENTS", help="jsonl, csv, tsv or parquet; known ids get the new text"
    )
    command.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help="such as data.on_empty=exclude")
    command.add_argument("--remove", metavar="FILE", help="take documents away: one id a line")
    command.add_argument("--rebuild", action="store_true", help="build the index anew from all vectors, and train it")
    _json(command)


def _export(groups: _Groups) -> None:
    summary = "copy a model, or the pairs that a reader believes in, out of the store"
    command = _add(groups, "export", summary, "noisyir export demo --to my-model")
    command.add_argument("model", metavar="MODEL", help="an experiment's name, a build's key, or models:/NAME@ALIAS")
    command.add_argument(
        "--format", choices=("sentence-transformers", "pairs"), default="sentence-transformers",
        help="a retriever's folder, or, of a reader, each question with the passage of most confidence (jsonl)",
    )  # fmt: skip
    command.add_argument("--to", required=True, metavar="PATH", help="a folder or file that does not exist yet")


def _promote(groups: _Groups) -> None:
    command = _add(
        groups,
        "promote",
        "make a registered model the champion, if it is better by more than chance",
        "noisyir promote noisyir-retriever --min-gain 0.005",
    )
    command.add_argument(
        "model", nargs="?", default="noisyir-retriever", metavar="NAME",
        help="noisyir-retriever (the default), noisyir-ranker or noisyir-reader",
    )  # fmt: skip
    command.add_argument("--version", metavar="N", help="this version (default: the challenger, the newest)")
    command.add_argument("--measure", metavar="M", help="what is compared (default nDCG@10, of readers the first F1)")
    command.add_argument("--split", choices=("test", "dev", "train"), help="measured on it (default: test, else dev)")
    command.add_argument("--min-gain", type=float, metavar="X", help="the gain must be above X (default 0.01)")
    command.add_argument("--min-seeds", type=int, metavar="N", help="seeds that must be known (default 0)")
    what = command.add_mutually_exclusive_group()
    what.add_argument("--roll-back", action="store_true", help="make the champion before this one champion again")
    what.add_argument("--log", action="store_true", help="show all decisions, newest first, and decide nothing")
    _json(command)


def _trace(groups: _Groups) -> None:
    command = _add(groups, "trace", "show what an artifact was made from, down to the raw input", "noisyir trace demo")
    command.add_argument("build", metavar="MODEL|BUILD", help="an experiment's name, a stage, or the start of a key")
    _json(command)


def _doctor(groups: _Groups) -> None:
    command = _add(groups, "doctor", "say what this machine can run, and what is missing", "noisyir doctor")
    _json(command)


if __name__ == "__main__":
    sys.exit(main())
