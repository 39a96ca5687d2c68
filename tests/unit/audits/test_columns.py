"""A column of the audit is one declaration and its computation: schema, page, audit.csv and docs have it from there."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from noisyir.audits.columns import COLUMNS, ROW
from tests.tiny import write_beir

ROOT = Path(__file__).parents[3]
ADDED = """

def _letters(pairs: pa.Table) -> pa.Array:
    import pyarrow.compute as pc

    return pc.utf8_length(pairs["query"])


COLUMNS = (*COLUMNS, AuditColumn("letters", I32, "letters of the query", heading="letters", on_page=True,
                                 compute=_letters))
"""


MEANING_OF_ROW = (
    "the first row of the file with the pair: its line, or its row in Parquet, from 1; null in data of several files"
)


def test_the_documentation_has_the_declared_columns():
    meanings = [(column.name, column.meaning) for column in COLUMNS]
    meanings.insert(2, (ROW, MEANING_OF_ROW))
    table = ["| column | meaning |", "|---|---|", *(f"| `{name}` | {said} |" for name, said in meanings)]
    assert "\n".join(table) in (ROOT / "docs" / "reference" / "audit_files.md").read_text()


def test_a_column_that_is_added_in_one_place_is_everywhere(tmp_path: Path):
    shutil.copytree(ROOT / "noisyir", tmp_path / "noisyir", ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / "noisyir" / "audits" / "columns.py"
    head, border, rest = file.read_text().partition("\nAUDIT = Artifact(")
    file.write_text(head + ADDED + border + rest)
    data = write_beir(tmp_path / "beir")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from noisyir.front.cli import main\nsys.exit(main(sys.argv[1:]))"
    )
    settings = ("detectors={x: bm25_margin}", "bm25_index.engine=bm25s")
    audit = ["audit", str(data), *settings, "--out", str(tmp_path / "out")]
    environment = {
        **os.environ,
        "NOISYIR_HOME": str(tmp_path / "home"),
        "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", code, *audit], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "out" / "audit.html").read_text()
    rows = json.loads(re.search(r'<script type="application/json"[^>]*>(.*?)</script>', page, re.DOTALL)[1])["rows"]
    with (tmp_path / "out" / "audit.csv").open(encoding="utf-8-sig") as file:
        table = list(csv.DictReader(file))
    assert 'data-key="letters"' in page and rows["letters"] == [len(query) for query in rows["query"]]
    assert [int(row["letters"]) for row in table] == [len(row["query"]) for row in table]
