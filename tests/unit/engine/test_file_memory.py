"""What was found out about files serves until they change, and no longer."""

import json
import os
from pathlib import Path

import pytest

from noisyir.app.own_data import experiment_for
from noisyir.app.runs import Execution, run_experiment
from noisyir.data.formats.pairs import open_pairs
from noisyir.data.row_files import RowFile
from noisyir.engine import file_memory
from noisyir.engine.file_memory import own_reading, remembered
from noisyir.engine.plan import Choice
from noisyir.engine.provenance import files_digest
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment

ROWS = 1060


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def settled(monkeypatch) -> None:
    """Files that were just written are taken for old ones."""
    monkeypatch.setattr(file_memory, "SETTLED", 0.0)


@pytest.fixture
def file(tmp_path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(b"as it was")
    return path


def another_process(monkeypatch) -> None:
    monkeypatch.setattr(file_memory, "_found_here", {})


def read(file: Path, about: str = "bytes") -> tuple[str, bool]:
    """The content, and whether the file was read for it."""
    reads = []
    return remembered([file], about, lambda: reads.append(1) or file.read_text()), bool(reads)


def test_an_unchanged_file_is_read_once_whatever_process_asks(home, settled, file, monkeypatch):
    assert read(file) == ("as it was", True) and read(file) == ("as it was", False)
    assert read(file, "something else") == ("as it was", True)
    another_process(monkeypatch)
    assert read(file) == ("as it was", False)


@pytest.mark.usefixtures("home", "settled")
@pytest.mark.parametrize("keeps_time", [False, True])
def test_a_changed_file_is_read_again_even_of_the_same_size_and_time(file, keeps_time):
    read(file)
    times = file.stat()
    file.write_bytes(b"as it is.")
    if keeps_time:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert read(file) == ("as it is.", True)


@pytest.mark.usefixtures("home")
def test_a_file_that_has_just_changed_may_change_again_under_the_same_time(file):
    assert read(file) == read(file) == ("as it was", True)


@pytest.mark.usefixtures("home", "settled")
def test_what_other_processes_found_is_not_enough_to_use_the_bytes(file, monkeypatch):
    read(file)
    with own_reading():
        assert read(file) == ("as it was", False)
        another_process(monkeypatch)
        assert read(file) == ("as it was", True)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"found": 1}', "[1, 2, 3]"])
def test_a_damaged_record_is_passed_over(home, settled, file, monkeypatch, text):
    read(file)
    (record,) = (home / "files").iterdir()
    record.write_text(text)
    another_process(monkeypatch)
    assert read(file) == ("as it was", True) and json.loads(record.read_text())[1] == "as it was"


@pytest.mark.usefixtures("settled")
def test_no_home_is_made_for_it(tmp_path, monkeypatch, file):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "none"))
    read(file)
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("home", "settled")
def test_a_missing_file_is_left_to_who_reads_it(tmp_path):
    with pytest.raises(FileNotFoundError):
        files_digest(tmp_path, [tmp_path / "none"])


@pytest.fixture
def pairs(tmp_path) -> Path:
    path = tmp_path / "pairs.csv"
    rows = (f"how to do {n},first take {n} and then {n + 1} of them" for n in range(ROWS))
    path.write_text("\n".join(["query,document", *rows]), encoding="utf-8")
    return path


@pytest.mark.usefixtures("home", "settled")
def test_an_unchanged_file_of_pairs_is_looked_into_once(pairs, monkeypatch):
    opened = []
    monkeypatch.setattr("noisyir.data.formats.pairs.open_pairs", lambda *given: opened.append(1) or open_pairs(*given))
    data = planned(pairs).data
    assert not (data.has_weights or data.has_negatives) and data.digest() and data.summary().pairs == ROWS
    assert data.open() is data.open() and len(opened) == 1
    pairs.write_text("query,document,weight\nhow,so,1\n", encoding="utf-8")
    assert data.has_weights and len(opened) == 2


def planned(pairs: Path) -> Experiment:
    return experiment_for(str(pairs), overrides=["bm25_index.engine=bm25s", "methods=[dpr]", "train.epochs=1"])


def test_a_row_is_read_three_times_before_the_loss_and_its_bytes_are_hashed_once(home, settled, pairs, monkeypatch):
    rows, hashed = [], []
    as_it_is = RowFile.rows
    monkeypatch.setattr(
        RowFile, "rows", lambda *given: (rows.append(number) or (number, row) for number, row in as_it_is(*given))
    )

    def counted(files, about, find):
        return remembered(files, about, lambda: (hashed.append(files) or find()) if pairs in files else find())

    monkeypatch.setattr("noisyir.engine.provenance.remembered", counted)
    exp = planned(pairs)
    run = Execution(Store(home / "store", home=home), Runtime(threads=1))
    run_experiment(exp, Choice(to="train_dpr"), run)
    assert hashed == [[pairs]]
    behind = range(1002, ROWS + 2)  # the glances at first rows that tell format, lists and labels
    assert {rows.count(number) for number in behind} == {3}  # counted, marked, ingested
    rows.clear()
    assert planned(pairs) == exp and not {*rows} & {*behind}
    assert hashed == [[pairs]]
