"""The page "add your own": its examples, installed as a package beside noisyir's wheel, appear and run."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.tiny import tiny_data

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "extending.md"
TRAINED = ["train.epochs=1", "train.batch_size=8", "bm25_index.engine=bm25s", "score.splits=[dev]"]


# Answers each line, the words of a command, with its exit code, standard output and standard error.
ANSWERS = """
import json, sys
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from noisyir.front.cli import main

for line in sys.stdin:
    with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
        try:
            code = main(json.loads(line))
        except SystemExit as ended:
            code = ended.code
    print(json.dumps([code, out.getvalue(), err.getvalue()]), flush=True)
"""


def examples() -> dict[str, str]:
    """File name to text of each block of the page that begins with its name."""
    blocks = re.findall(r"^```\w+\n# (\S+)\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    return {name: text.lstrip("\n") for name, text in blocks}


def test_each_example_is_short():
    assert len(examples()) == 7
    assert all(len(text.splitlines()) <= 36 for name, text in examples().items() if name.endswith(".py"))


@pytest.fixture(scope="module")
def noisyir(tmp_path_factory):
    """`noisyir(arguments)` in an environment of its own: this one's packages, noisyir's wheel, and the examples."""
    folder = tmp_path_factory.mktemp("extras")
    for name, text in examples().items():
        path = folder / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for source in (ROOT, folder / "source"):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder / "wheels")]
        subprocess.run(build, cwd=source, check=True, capture_output=True)
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python*/site-packages")
    # the checkout itself is not among them: what makes it importable is another .pth, which only counts where it lies
    (packages / "these.pth").write_text(sysconfig.get_paths()["purelib"])
    for wheel in (folder / "wheels").glob("*.whl"):
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(packages)], check=True)
    data, weights = (setting.split("=")[1] for setting in tiny_data(folder / "beir"))

    def call(*arguments: str) -> str:
        process.stdin.write(f"{json.dumps(arguments)}\n")
        process.stdin.flush()
        code, out, err = json.loads(process.stdout.readline())
        assert code == 0, err
        return out

    call.data = f"data={{kind: beir, path: {data}}}"
    call.weights = f"model.weights={weights}"
    call.packages = packages
    command = [folder / "venv" / "bin" / "python", "-c", ANSWERS]
    given = {"cwd": folder, "env": {**os.environ, "NOISYIR_HOME": str(folder / "home")}, "text": True}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **given) as process:
        yield call


def test_they_appear_in_the_help_of_an_installed_noisyir(noisyir):
    said = " ".join(noisyir("run", "--help-kinds").split())
    for kind in ("window", "missing_words", "clean_first", "cds_sharp"):
        assert kind in said
    assert (noisyir.packages / "noisyir" / "front" / "cli.py").exists()


def test_they_run_and_stand_in_the_report(noisyir):
    settings = [noisyir.data, noisyir.weights, *TRAINED, "noise.rate=0.3", "mine.per_query=1", "train.hard_negatives=1",
                "mine.sampler=window", "mine.sampler.centre=2", "detectors={words: missing_words}",
                "methods=[dpr, {kind: clean_first, epochs: 2}]", "audit={}"]  # fmt: skip
    done = json.loads(noisyir("run", "demo", "--no-track", "--json", *settings))
    assert {"dpr", "clean_first"} <= {row["system"] for row in done["comparison"]}
    assert "clean_first" in Path(done["report"]).read_text()
    shown = json.loads(noisyir("show", "mine", "--json"))
    assert shown["in_key"]["sampler"] == {"kind": "window/1", "centre": 2.0}
    scored = json.loads(noisyir("show", "score_pairs", "--json"))
    assert scored["in_key"] == {"kind": "missing_words/1"}
    page = next((noisyir.packages.parents[3] / "home" / "store").glob("audit/*/*/audit_files/audit.html")).read_text()
    assert "missing_words" in page


def test_they_stand_in_the_bench(noisyir):
    settings = [*(f"experiment.{text}" for text in (noisyir.data, noisyir.weights, *TRAINED)),
                "experiment.encode.splits=[dev]", "experiment.detectors={words: missing_words}", "noise=[{rate: 0.3}]",
                "methods=[dpr, clean_first]", "table.baseline=dpr", "table.reference=null"]  # fmt: skip
    said = noisyir("bench", "noise", "--seeds", "1", "--jobs", "1", "--out", "bench", *settings)
    assert "clean_first" in said


def test_a_stage_of_ones_own_is_planned_runs_is_cached_and_is_switched_off(noisyir):
    settings = ["run", "demo", noisyir.data, "--to", "corrupt", "--no-track"]
    prepared = [*settings, "prepare.long_queries.words=4"]
    assert "long_queries" in noisyir(*prepared, "--dry-run")
    steps = {step["name"]: step for step in json.loads(noisyir(*prepared, "--json"))["steps"]}
    assert steps["long_queries"]["rows"]["pairs"] == 0 and steps["corrupt"]["rows"]["noisy_pairs"] == 0
    again = json.loads(noisyir(*prepared, "--json"))
    assert again["run"] == 0 and {step["name"] for step in again["steps"]} == steps.keys()
    shown = json.loads(noisyir("show", "long_queries", "--json"))
    assert shown["in_key"] == {"kind": "long_queries/1", "words": 4}
    assert "long_queries" not in noisyir(*prepared, "prepare.long_queries=null", "--dry-run")


def test_a_reader_of_ones_own_is_planned(noisyir):
    plan = noisyir("run", "squad_cds_small", "--dry-run", "data.path=nowhere", "reader.methods=[ds_all, cds_sharp]",
                   "reader.ensemble=[]")  # fmt: skip
    assert "train_reader@cds_sharp" in plan


def test_a_verb_of_ones_own_is_listed_and_runs(noisyir):
    assert "extras" in noisyir("--help")
    assert noisyir("extras").split() == ["long_queries"]
