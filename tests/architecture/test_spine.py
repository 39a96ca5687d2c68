"""How deep a command's calls go until its equation, how much a light command loads, and how often a file is read."""

import json
import subprocess
import sys

import pytest

from tests.tiny import SETTINGS, tiny_data

DEEPEST = 20
TRACED = """
import importlib, pkgutil, sys, traceback
import noisyir.losses.dpr as dpr
from noisyir import training

equation = dpr.pair_nll

def traced(*given):
    frames = [frame for frame in traceback.extract_stack()[:-1] if "/noisyir/" in frame.filename]
    sys.exit("DEPTH " + " ".join(frame.name for frame in frames) + " pair_nll")

for module in pkgutil.iter_modules(training.__path__, "noisyir.training."):
    importlib.import_module(module.name)
for module in list(sys.modules.values()):
    if getattr(module, "pair_nll", None) is equation:
        module.pair_nll = traced
from noisyir.cli import main
main(sys.argv[1:])
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Settings of a small run, in a home of its own."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    return [*SETTINGS, *tiny_data(tmp_path / "beir"), "--no-track"]


def test_the_dpr_loss_lies_few_calls_below_the_command(tiny):
    arguments = ["run", "demo", *tiny, "methods=[dpr]", "--to", "train_dpr"]
    ended = subprocess.run([sys.executable, "-c", TRACED, *arguments], capture_output=True, text=True)
    assert "DEPTH" in ended.stderr, ended.stderr
    (line,) = [line for line in ended.stderr.splitlines() if line.startswith("DEPTH")]
    frames = line.split()[1:]
    assert frames[0] == "main" and "train_dpr" in frames and len(frames) <= DEEPEST, frames


SEARCHED = """
import sys
from noisyir.cli import main
main(sys.argv[1:])
print("LOADED", sum(name.split(".")[0] == "noisyir" for name in sys.modules), file=sys.stderr)
"""


def test_a_search_loads_little(tiny):
    done = subprocess.run([sys.executable, "-m", "noisyir.cli", "run", "demo", *tiny, "methods=[dpr]"])
    assert done.returncode == 0
    search = ["search", "demo", "w1 w2", "--json"]
    ended = subprocess.run([sys.executable, "-c", SEARCHED, *search], capture_output=True, text=True, check=True)
    loaded = int(ended.stderr.split("LOADED ")[1])
    assert json.loads(ended.stdout) and loaded <= 90
