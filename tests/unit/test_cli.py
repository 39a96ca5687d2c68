"""The command's surface: help, completion, usage errors, exit codes, and what is loaded before a verb begins."""

import os
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import iter_modules

import pytest

from noisyir.base.errors import StoreError
from noisyir.front import cli, commands
from noisyir.front.commands import bench, protocol
from noisyir.front.commands import store as store_verbs
from noisyir.front.commands.store import verify
from noisyir.methods import experiments

VERBS = [module.name.replace("_", "-") for module in iter_modules(commands.__path__)]
SLOW = {"rich", "torch", "transformers", "numpy", "pyarrow", "pydantic", "mlflow", "prefect"}


@pytest.mark.parametrize("code", ["import noisyir", "from noisyir.front.cli import main; main(['--help'])"])
def test_nothing_that_takes_long_is_loaded_to_list_the_verbs(code: str):
    code += f"; import sys; print(sorted({SLOW!r} & set(sys.modules)), file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("given", [None, "active"])
def test_threads_that_wait_do_not_spin_unless_the_environment_says_so(given: str | None):
    environment = {name: value for name, value in os.environ.items() if name != "OMP_WAIT_POLICY"}
    code = "import noisyir.front.cli, os; print(os.environ['OMP_WAIT_POLICY'])"
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment | ({"OMP_WAIT_POLICY": given} if given else {}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == (given or "passive")


def test_the_list_of_verbs_is_the_list_of_files(capsys):
    assert cli.main(["--help"]) == 0
    told = capsys.readouterr().out
    listed = told.partition("Commands:\n")[2].partition("\n\n")[0]
    assert [line.split()[0] for line in listed.splitlines() if line[2] != " "] == VERBS
    assert "..." not in listed and "--install-completion" in told


BENCHES, PROTOCOL, STORE = (
    [f"{name} {module.name}" for module in iter_modules(folder.__path__)]
    for name, folder in (("bench", bench), ("protocol", protocol), ("store", store_verbs))
)
GROUPS = ("bench", "protocol", "store")
WITHOUT_STORE = ("check", "import", "schedule")  # files alone, or the workers' store


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in GROUPS] + BENCHES + PROTOCOL + STORE)
def test_the_help_of_each_verb_fits_a_screen_and_ends_with_an_example(verb: str, capsys):
    assert cli.main([*verb.split(), "--help"]) == 0
    told = capsys.readouterr().out
    assert cli.main([*verb.split(), "-h"]) == 0 and capsys.readouterr().out == told
    assert told.splitlines()[-1].startswith(f"  example: noisyir {verb}")
    assert ("--store URL" in told) == (verb not in WITHOUT_STORE) and "--debug" in told and "<str>" not in told
    assert len(told.splitlines()) <= {"serve": 49}.get(verb, 40)
    if "--help-kinds" in told:
        assert "trisampler" not in told
        assert cli.main([*verb.split(), "--help-kinds"]) == 0
        assert "trisampler" in capsys.readouterr().out


def test_the_command_alone_lists_its_verbs(capsys):
    assert cli.main([]) == 0
    told = capsys.readouterr().out
    assert all(f"\n  {verb} " in told for verb in VERBS) and "--wait TIME" in told


def test_a_folder_of_verbs_names_those_in_it(capsys):
    assert cli.main(["bench", "--help"]) == 0
    told = capsys.readouterr().out
    assert all(f"  {name.split()[1]}  " in told for name in BENCHES) and "example: noisyir bench" in told
    with pytest.raises(SystemExit) as ended:
        cli.main(["bench", "nois"])
    assert ended.value.code == 2 and "noisyir bench --help lists them." in capsys.readouterr().err


def test_brackets_are_printed_as_they_are(capsys):
    assert cli.main(["bench", "noise", "--help"]) == 0
    assert "methods=[dpr,npc]" in capsys.readouterr().out


def completed(*words: str) -> list[str]:
    """What a shell offers for the last word, by typer's protocol for bash."""
    asked = {"_NOISYIR_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(["noisyir", *words])}
    done = subprocess.run(
        [sys.executable, "-m", "noisyir.front.cli"],
        env={**asked, "COMP_CWORD": str(len(words)), "PATH": ""},
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.split()


def test_shells_complete_verbs_experiments_suites_and_options():
    assert completed("s") == ["schedule", "search", "serve", "show", "status", "store"]
    assert completed("run", "") == completed("search", "") == experiments.names()
    assert completed("run", "demo", "--engine", "p") == ["prefect"]
    assert "squad_hidden" in completed("bench", "noise", "--suite", "squad")
    assert completed("run", "--dr") == ["--dry-run"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serach", "x"], "Did you mean 'search'?"),
        (["run", "demo", "--dry-rum"], "(Possible options: --dry-run)"),
        (["run"], "Missing argument 'EXPERIMENT'"),
        (["search", "demo", "words", "-k", "many"], "'-k'"),
        (["run", "demo", "--why"], "--why goes with --dry-run"),
        (["promote", "--log", "--roll-back"], "exclude each other"),
        (["store", "gc", "demo"], "unexpected extra argument(s) (demo)"),
    ],
)
def test_wrong_usage_is_told_with_the_right_one_and_exit_code_2(arguments: list[str], said: str, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    usage, error = capsys.readouterr().err.splitlines()
    assert ended.value.code == 2
    assert usage.startswith("Usage: noisyir") and error.startswith("noisyir: ") and said in error


@pytest.mark.parametrize("old", cli.RENAMED)
def test_an_old_verb_names_the_new_one_which_can_be_typed(old: str, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([old, "demo"])
    (line,) = capsys.readouterr().err.splitlines()
    (typed,) = re.findall(rf"^noisyir: {old} is now: noisyir (.+)", line)
    assert ended.value.code == 2 and old not in VERBS
    assert cli.main([*typed.split(), "--help"]) == 0, "--help comes after all other words are known"
    assert cli.main([*typed.split(), "--store", str(tmp_path)]) in (0, 1), "of an empty store"


def fail(error: type[BaseException]):
    def run() -> int:
        """Fail."""
        raise error("as asked")

    return run


def test_faults_of_the_user_are_one_line_and_with_debug_a_traceback(monkeypatch, capsys):
    monkeypatch.setattr(verify, "run", fail(StoreError))
    assert cli.main(["store", "verify"]) == 1
    assert capsys.readouterr().err == "noisyir: as asked\n"
    with pytest.raises(StoreError):
        cli.main(["store", "verify", "--debug"])


def test_an_interrupted_command_says_how_to_go_on(monkeypatch, capsys):
    monkeypatch.setattr(verify, "run", fail(KeyboardInterrupt))
    assert cli.main(["store", "verify"]) == 130
    assert "the same command continues" in capsys.readouterr().err


def test_a_reader_who_leaves_is_no_error():
    program = "import sys; from noisyir.front.cli import main; sys.exit(main(['--help']))"
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.wait() == 0 and process.stderr.read() == b""
    process.stderr.close()


def test_settings_may_stand_behind_options(monkeypatch, tmp_path, capsys):
    arguments = [*"run demo --to ingest train.epochs=3 --dry-run train.oops=1 --store".split(), str(tmp_path)]
    assert cli.main(arguments) == 1
    assert "unknown key train.oops" in capsys.readouterr().err
