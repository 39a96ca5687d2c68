"""How deep a command's calls go until its equation, how much a light command loads, and how often a file is read."""

import importlib
import json
import pkgutil
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import noisyir
from noisyir import training
from noisyir.front.cli import main
from noisyir.training.losses import dpr
from tests.tiny import SETTINGS, tiny_data

DEEPEST = 15
LIBRARY = Path(noisyir.__file__).parent


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Settings of a small run, in a home of its own."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    return [*SETTINGS, *tiny_data(tmp_path / "beir"), "--no-track"]


def test_the_dpr_loss_lies_few_calls_below_the_command(tiny, monkeypatch):
    equation, frames = dpr.pair_nll, []

    def traced(*given):
        frames.extend(frame.name for frame in traceback.extract_stack() if frame.filename.startswith(str(LIBRARY)))
        sys.exit("seen")

    for module in pkgutil.iter_modules(training.__path__, "noisyir.training."):
        importlib.import_module(module.name)
    for module in list(sys.modules.values()):
        if getattr(module, "pair_nll", None) is equation:
            monkeypatch.setattr(module, "pair_nll", traced)
    with pytest.raises(SystemExit, match="seen"):
        main(["run", "demo", *tiny, "methods=[dpr]", "--to", "train_dpr"])
    assert frames[0] == "main" and "train_dpr" in frames and len(frames) <= DEEPEST, frames


SEARCHED = """
import sys
from noisyir.front.cli import main
main(sys.argv[1:])
print("LOADED", sum(name.split(".")[0] == "noisyir" for name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize(("verb", "most"), [(("audit", "nothere.csv"), 75), (("run", "typo.yaml"), 45)])
def test_what_a_mistyped_name_loads_is_little(verb, most):
    ended = subprocess.run([sys.executable, "-c", SEARCHED, *verb], capture_output=True, text=True, check=True)
    said, _, loaded = ended.stderr.partition("LOADED ")
    assert verb[1] in said and int(loaded) <= most


def test_a_search_loads_little(tiny):
    assert main(["run", "demo", *tiny, "methods=[dpr]", "train.epochs=1", "detectors={b: bm25_margin}"]) == 0
    search = ["search", "demo", "w1 w2", "--json"]
    ended = subprocess.run([sys.executable, "-c", SEARCHED, *search], capture_output=True, text=True, check=True)
    loaded = int(ended.stderr.split("LOADED ")[1])
    assert json.loads(ended.stdout) and loaded <= 90
