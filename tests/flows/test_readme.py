"""README's commands, typed one after the other in an empty folder with a csv of one's own."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from examples.python_docs import python_docs
from tests.judging_client import address_in, answer_pairs
from tests.unit.test_site import ROOT, typed

NOISYIR = Path(sys.executable).with_name("noisyir")
VERDICTS = ["clean"] * 9 + ["wrong", "clean"] * 8  # of 25 pairs, a third of them wrong
REFUSED = "not exported without --force: "  # a small file's model need not be better: README says so


@pytest.mark.slow
def test_readme_is_typed_from_its_first_command_to_its_last(tmp_path):
    pairs, _ = python_docs(400, wrong=0.3)
    with (tmp_path / "pairs.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("question", "answer"), *((pair["query"], pair["document"]) for pair in pairs)])
    before = (tmp_path / "pairs.csv").read_bytes()
    commands = [words for words in typed(ROOT / "README.md") if words[1] != "schedule"]  # which wants servers
    assert [words[1] for words in commands] == ["audit", "audit", "audit", "init", "run", "search", "export"]
    elsewhere = {"NOISYIR_HOME": str(tmp_path / "home"), "BROWSER": "true", "DISPLAY": "", "OMP_NUM_THREADS": "1"}
    for words in commands:
        with (tmp_path / "said").open("w") as said:
            command = subprocess.Popen(
                [NOISYIR, *words[1:]], cwd=tmp_path, env=os.environ | elsewhere, stdout=said, stderr=said,
            )  # fmt: skip
            if "--judge" in words:
                assert answer_pairs(address_in(tmp_path / "said"), VERDICTS) == len(VERDICTS)
            code = command.wait()
        told = (tmp_path / "said").read_text()
        assert code == 0 or (words[1] == "export" and REFUSED in told), (words, told)
    assert (tmp_path / "pairs.csv").read_bytes() == before
    with (tmp_path / "pairs-audit" / "pairs.cleaned.csv").open(encoding="utf-8-sig") as file:
        assert {"question", "answer", "weight"} <= set(next(csv.reader(file)))
    assert (tmp_path / "pairs-audit" / "audit.html").stat().st_size > 10_000
