"""Setting up an environment with empty caches: what `make demo` installs by uv, and the development set by pip.

Both take their pins from uv.lock and their packages from the index that pip is configured for.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.speed.row import Line, Row, Taken, Work
from bench.speed.turns import ROOT

_FILES = ("Makefile", "pyproject.toml", "uv.lock", "README.md", "LICENSE")
_FOLDERS = ("infra", "noisyir")
_BY_PIP = """{python} -m venv .venv
{uv} export --quiet --frozen --extra dev --no-emit-project --no-emit-package torch --output-file locked.txt
.venv/bin/python -m pip install --quiet --no-deps --requirement locked.txt
.venv/bin/python -m pip install --quiet {torch}
.venv/bin/python -m pip install --quiet --no-deps --editable ."""


class Install(Row):
    lines = (
        Line(
            "install of `make demo`", "noisyir", "pip", "the development set by pip, as before", at_least=3, waits=True
        ),
    )
    turns = 1
    reads_texts = False
    takes_minutes = True

    def noisyir(self, work: Work) -> Taken:
        return _installed(work, ["make", ".venv/.demo", f"PYTHON={sys.executable}"])

    def pip(self, work: Work) -> Taken:
        (torch,) = (line.split("?=")[1].strip() for line in _makefile() if line.startswith("TORCH ?="))
        by_pip = _BY_PIP.format(python=sys.executable, uv=ROOT / ".venv" / "bin" / "uv", torch=torch)
        return _installed(work, ["sh", "-ec", by_pip])


def _makefile() -> list[str]:
    return (ROOT / "Makefile").read_text().splitlines()


def _installed(work: Work, command: list[str]) -> Taken:
    """Run the command in a copy of the checkout, its caches empty."""
    with tempfile.TemporaryDirectory(dir=work.folder) as name:
        folder = Path(name)
        for file in _FILES:
            shutil.copy(ROOT / file, folder)
        for inner in _FOLDERS:
            shutil.copytree(ROOT / inner, folder / inner, ignore=shutil.ignore_patterns("__pycache__"))
        caches = {"PIP_CACHE_DIR": str(folder / "pip"), "UV_CACHE_DIR": str(folder / "uv"), "PYTHONPATH": name}
        began, cpu = time.perf_counter(), _of_children()
        done = subprocess.run(command, cwd=folder, env=os.environ | caches, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr[-2000:])
        return {"seconds": time.perf_counter() - began, "cpu_seconds": _of_children() - cpu, "items": 1}


def _of_children() -> float:
    times = os.times()
    return times.children_user + times.children_system
