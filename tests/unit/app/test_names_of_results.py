"""Two sources never share a result without a refusal, whatever is in their names, and no screen ends the work."""

from pathlib import Path

import pytest

from noisyir.app.audit_data import experiment_to_audit, named_after
from noisyir.app.audit_folder import refuse_to_overwrite
from noisyir.base.errors import ConfigError, StoreError
from noisyir.data.containers import write_rows
from noisyir.data.formats.pairs import Pairs
from noisyir.methods.experiments import from_settings
from tests.refusals import refuses

ROWS = [{"query": f"what is {n}", "document": f"{n} is a number"} for n in range(3)]


@pytest.mark.parametrize(
    ("name", "named"),
    [("pairs.v1.csv", "pairs.v1"), ("pairs.v2.csv.gz", "pairs.v2"), ("a.jsonl", "a"), ("run10:30.csv", "run10-30"),
     ("data/x.nl", "x"), ("beir.v2", "beir.v2"), (".csv", ".csv")],
)  # fmt: skip
def test_results_are_named_by_the_whole_name_of_a_file(name, named):
    assert named_after(name) == named


@pytest.mark.parametrize("name", ["run10:30.parquet", "a#b?.parquet", "x%20y.csv", "s3:x.jsonl"])
def test_a_name_is_never_taken_for_an_address(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    write_rows(Path(name), iter(ROWS))
    assert [one.query for one, _ in Pairs(path=name).open().right_pairs()] == [row["query"] for row in ROWS]


def test_a_name_that_separates_experiment_and_system_is_refused():
    with pytest.raises(ConfigError, match="name: 'a:b' cannot be a part of a file's name"):
        from_settings({"name": "a:b", "data": {"kind": "pairs", "path": "x.csv"}}, [])


def test_an_audit_is_not_replaced_by_one_of_other_data(noisyir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("x.csv", "x.jsonl"):
        write_rows(Path(name), iter(ROWS))
    quick = ("detectors={b: bm25_margin}", "bm25_index.engine=bm25s")
    assert noisyir("audit", "x.csv", *quick)[0] == 0 and noisyir("audit", "x.csv", *quick)[0] == 0
    code, _, err = noisyir("audit", "x.jsonl", *quick)
    assert code == 1 and "x-audit holds results of x.csv" in err
    code, _, err = noisyir("audit", "x.jsonl", *quick, "--out", "other")  # as advised
    assert code == 0 and Path("other/audit.csv").exists(), err


def test_a_folder_that_cannot_be_written_is_told_before_the_first_stage(tmp_path, monkeypatch):
    write_rows(tmp_path / "x.csv", iter(ROWS))

    def full(**given):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("noisyir.app.audit_folder.TemporaryFile", full)  # as root may write anywhere
    with refuses(StoreError, "app.cannot_write_folder"):
        refuse_to_overwrite(experiment_to_audit(str(tmp_path / "x.csv")), tmp_path / "there")


def test_texts_that_a_terminal_cannot_show_end_no_work(tmp_path):
    import subprocess
    import sys

    rows = [{"query": "где чайник?", "document": "Чайник :x: на кухне."}, {"query": "где дверь?", "document": "Дверь."}]
    write_rows(tmp_path / "ru.csv", iter(rows))
    environment = {"PYTHONIOENCODING": "ascii", "NOISYIR_HOME": str(tmp_path / "home"), "PATH": "/usr/bin:/bin"}
    command = "import sys; from noisyir.front.cli import main; sys.exit(main(['check', 'ru.csv']))"
    done = subprocess.run(
        [sys.executable, "-c", command], cwd=tmp_path, env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0 and b"not Unicode" not in done.stderr, done.stderr
