"""The notebooks of examples/ run from their first cell to their last, as whoever opens them would run them."""

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
    assert not [cell for cell in notebook.cells if cell.get("outputs")], "outputs are not kept in the repository"
    place = {"metadata": {"path": str(tmp_path / "examples")}}
    NotebookClient(notebook, timeout=280, kernel_name="python3", resources=place).execute()


def test_there_are_three():
    assert len(list(EXAMPLES.glob("*.ipynb"))) == 3
