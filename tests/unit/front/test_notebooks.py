"""The notebooks of examples/ run from their first cell to their last, as whoever opens them would run them."""

import re
import shutil
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[3] / "examples"
NOTEBOOKS = sorted(path.stem for path in EXAMPLES.glob("*.ipynb"))


@pytest.mark.slow
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs(name, tmp_path, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    place = {"metadata": {"path": str(tmp_path / "examples")}}
    NotebookClient(notebook, timeout=280, kernel_name="python3", resources=place).execute()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_shows_a_run_without_errors_or_places_of_a_machine(name):
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    shown = [one for cell in notebook.cells for one in cell.get("outputs", [])]
    assert len(shown) >= 3, "python -m bench.pictures --notebooks"
    assert {one["output_type"] for one in shown} <= {"stream", "display_data", "execute_result"}
    assert not re.search(r"/(home|root|tmp|work|Users)/", str(shown))


def test_there_are_three():
    assert len(list(EXAMPLES.glob("*.ipynb"))) == 3
