"""A heap of Java that Lucene fills: the setting that helps is named, with its value, and typing it helps."""

import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tiny import SETTINGS, tiny_data

ADVISED = re.compile(r"runtime\.java_heap=24m is too little: in a new process, set (runtime\.java_heap=\w+), or .*")


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A collection of so many words that their index fills a heap of 24 MB and fits into one of 48."""
    folder, draw = tmp_path_factory.mktemp("many_words") / "beir", random.Random(1)
    data = tiny_data(folder)
    with (folder / "corpus.jsonl").open("a") as file:
        for number in range(2000):
            text = " ".join(f"w{draw.randrange(10**6)}" for _ in range(200))
            file.write(json.dumps({"_id": f"more{number}", "title": "", "text": text}) + "\n")
    return (*SETTINGS, *data, "bm25_index.engine=pyserini")


def run(home: Path, *settings: str) -> "subprocess.CompletedProcess[str]":
    """Index the collection in a process of its own: a process starts one JVM, which keeps its heap."""
    command = [sys.executable, "-m", "noisyir.front.cli", "run", "demo", *settings, "--to", "bm25_index", "--no-track"]
    where = os.environ | {"NOISYIR_HOME": str(home)}
    return subprocess.run(command, env=where, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.slow
def test_a_full_heap_names_the_setting_that_helps(settings: tuple[str, ...], tmp_path: Path):
    refused = run(tmp_path, *settings, "runtime.java_heap=24m")
    advised = ADVISED.search(" ".join(refused.stderr.split()))
    assert refused.returncode == 1 and advised, refused.stderr
    done = run(tmp_path, *settings, advised[1])
    assert done.returncode == 0, done.stderr
