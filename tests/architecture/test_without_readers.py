"""Readers are a room of their own: without it, all else works."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.sources import ROOT
from tests.tiny import SETTINGS, write_beir


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The checkout without the folder."""
    folder = tmp_path_factory.mktemp("copy") / "checkout"
    left_out = shutil.ignore_patterns(".*", "readers", "benchmarks", "docs", "bench")
    shutil.copytree(ROOT, folder, ignore=left_out, symlinks=True)
    assert not (folder / "noisyir" / "readers").exists()
    return folder


@pytest.fixture
def python(copy, tmp_path):
    """`python(arguments)` in the copy; what it printed."""

    def call(*arguments: str) -> str:
        places = os.pathsep.join([str(copy), *sys.path])  # its own files first, and the packages wherever they are
        home = {"NOISYIR_HOME": str(tmp_path / "home"), "PYTHONPATH": places, "PATH": "/usr/bin:/bin"}
        done = subprocess.run([sys.executable, *arguments], cwd=copy, env=home, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr
        return done.stdout

    return call


@pytest.mark.slow
def test_the_rest_keeps_its_shape(python):
    shapes = "a_room or circle or downwards or one_writer or truth or two_classes"
    said = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/architecture", "-k", shapes)
    assert " passed" in said


def test_help_dry_run_and_audit_work(python, tmp_path):
    rows = [{"query": f"w{n} w{n + 1}", "text": f"w{n} x{n % 7}"} for n in range(120)]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    verbs = [
        ["run", "demo", *SETTINGS, f"data.path={write_beir(tmp_path)}", "--dry-run", "--json"],
        ["audit", str(file), "detectors={b: bm25_margin}"],
        ["--help"],
    ]
    said = python("-c", f"from noisyir.front.cli import main\nfor verb in {verbs}:\n    assert not main(verb)")
    assert "train_dpr" in said and "audit.html" in said and "\n  audit" in said
