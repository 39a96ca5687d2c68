"""Whole commands: the exit code is not 0, one line is on stderr, and no traceback, whatever lies in home and store."""

import os
import random
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from noisyir.base.errors import NoisyirError
from noisyir.front.cli import main
from tests.chaos.malformed.trial import Make, Read, Trial
from tests.tiny import SETTINGS, write_beir


def trials(draw: random.Random) -> Iterator[Trial]:
    """Arguments that cannot be meant, tracking databases that are none, data that lacks what the plan needs."""
    for arguments, place in ARGUMENTS:
        yield Trial(f"noisyir {' '.join(arguments)[:60]}", _command(arguments), place)
    for name, make in DATABASES.items():
        for verb in ("run", "promote"):
            yield Trial(f"{verb} with a database {name}", _with_database(make, verb), "mlflow.db")
    for name, (change, place) in DATA.items():
        yield Trial(f"run with data {name}", _with_data(change), place)
    for name, change in STORES.items():
        yield Trial(f"a store {name}", _with_store(change), "store")


ARGUMENTS: Sequence[tuple[list[str], str]] = (
    (["run", "demmo"], "demmo"),
    (["run", "demo", "--to", "serch"], "serch"),
    (["run", "demo", "--only", "index", "--to", "index"], "--only"),
    (["run", "demo", "--wait", "soon"], "soon"),
    (["run", "demo", "train.epochs=many"], "train.epochs"),
    (["run", "demo", "--why"], "--why"),
    (["run", "demo", "--store", "ftpp://x/y"], "ftpp"),
    (["run", "demo", "--store", "/dev/null"], "/dev/null"),
    (["run", "demo", "score.measures=[BAD@x]", "--no-track"], "BAD@x"),
    (["run", "demo", "runtime.device=cuda:7", "--no-track"], "cuda:7"),
    (["run", "demo", "model.weights=/nowhere"], "/nowhere"),
    (["run", "demo", "model.weights=../../etc"], "../../etc"),
    (["run", "demo", "data={kind: pairs, path: /nowhere.jsonl}"], "/nowhere.jsonl"),
    (["run", "demo", "data={kind: beir, path: /proc}"], "/proc"),
    (["bench", "no_such_suite"], "no_such_suite"),
    (["bench", "noise", "--suite", "no_such_suite"], "no_such_suite"),
    (["bench", "noise", "--seeds", "0"], "--seeds"),
    (["bench", "noise", "--seeds", "many"], "--seeds"),
    (["status", "--hours", "-1"], "--hours"),
    (["status", "--hours", "nan"], "--hours"),
    (["status", "--hours", "1e300"], "--hours"),
    (["search", "nothing", "question"], "nothing"),
    (["search", "models:/x@", "question"], "models:/x@"),
    (["show", "nothing"], "nothing"),
    (["show", "nothing", "--trace"], "nothing"),
    (["export", "nothing", "--to", "x"], "nothing"),
    (["audit", "/nowhere.csv"], "/nowhere.csv"),
    (["promote", "nobody"], "nobody"),
    (["store", "gc", "--keep-runs", "few"], "--keep-runs"),
    (["frobnicate"], "frobnicate"),
)


def _command(arguments: Sequence[str]) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        os.environ["NOISYIR_HOME"] = str(folder / "home")
        os.environ.pop("MLFLOW_TRACKING_URI", None)
        return lambda: called(arguments)

    return make


def called(arguments: Sequence[str]) -> None:
    """Call the command line.  NoisyirError with the last line of stderr where it ends with another code than 0."""
    said = StringIO()
    with redirect_stderr(said), redirect_stdout(StringIO()):
        try:
            code = main(arguments)
        except SystemExit as ended:
            code = ended.code
    lines = [line for line in said.getvalue().splitlines() if line.startswith("noisyir: ")]
    if code == 0:
        return
    if "Traceback" in said.getvalue() or len(lines) != 1:
        raise AssertionError(said.getvalue())
    raise NoisyirError(lines[0])


def settings(folder: Path) -> list[str]:
    """Those of a run of seconds on a tiny collection."""
    return [*SETTINGS, f"data.path={folder / 'data'}", "methods=[dpr]"]


def _with_database(make_one: Callable[[Path, random.Random], object], verb: str) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        read = _command(["run", "demo", *settings(folder)] if verb == "run" else ["promote", "noisyir-retriever"])(
            folder, draw
        )
        write_beir(folder / "data")
        (folder / "home").mkdir()
        make_one(folder / "home" / "mlflow.db", draw)
        return read

    return make


def _tables(*statements: str) -> Callable[[Path, random.Random], None]:
    def make(path: Path, draw: random.Random) -> None:
        with closing(sqlite3.connect(path)) as database:
            for statement in statements:
                database.execute(statement)
            database.commit()

    return make


DATABASES: dict[str, Callable[[Path, random.Random], object]] = {
    "emptied": lambda path, draw: path.write_bytes(b""),
    "of random bytes": lambda path, draw: path.write_bytes(draw.randbytes(8192)),
    "of text": lambda path, draw: path.write_text("a backup\n" * 1000),
    "without tables": _tables("CREATE TABLE x (y)", "DROP TABLE x"),
    "of another program": _tables("CREATE TABLE notes (text)"),
    "that is a folder": lambda path, draw: path.mkdir(),
    "cut off": lambda path, draw: (
        _tables("CREATE TABLE alembic_version (x)", *(f"CREATE TABLE t{n} (a, b, c)" for n in range(80)))(path, draw),
        path.write_bytes(path.read_bytes()[:9000]),
    ),
}


def _with_data(change: Callable[[Path], object]) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        write_beir(folder / "data")
        change(folder / "data")
        return _command(["run", "demo", *settings(folder), "--no-track"])(folder, draw)

    return make


DATA: dict[str, tuple[Callable[[Path], object], str]] = {
    "without test queries": (lambda data: (data / "qrels" / "test.tsv").unlink(), "score.splits"),
    "without training pairs": (lambda data: (data / "qrels" / "train.tsv").unlink(), "training pairs"),
    "without qrels": (lambda data: [path.unlink() for path in (data / "qrels").iterdir()], "qrels"),
    "that may not be read": (lambda data: (data / "corpus.jsonl").write_bytes(b"\xff"), "corpus.jsonl"),
}


def _with_store(change: Callable[[Path], object]) -> Make:
    def make(folder: Path, draw: random.Random) -> Read:
        write_beir(folder / "data")
        change(folder)
        return _command(["run", "demo", *settings(folder), "--no-track", "--store", str(folder / "store")])(
            folder, draw
        )

    return make


def _file_called(name: str) -> Callable[[Path], object]:
    """A file where the store has a folder."""

    def make(folder: Path) -> None:
        (folder / "store").mkdir()
        (folder / "store" / name).write_text("x")

    return make


STORES: dict[str, Callable[[Path], object]] = {
    "that is a file": lambda folder: (folder / "store").write_text("x"),
    "that is a pipe": lambda folder: os.mkfifo(folder / "store"),
    **{f"of which {name} is a file": _file_called(name) for name in (".runs", ".locks", ".staging", ".work", "ingest")},
}
