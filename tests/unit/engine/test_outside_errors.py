"""Errors of other libraries, raised by them here, become one line that says what to do; tracebacks are kept."""

import errno
import json
import sqlite3
from pathlib import Path

import pytest

from noisyir.base.errors import ConfigError, DataError, NoisyirError, StoreError
from noisyir.engine.outside_errors import in_our_words, is_from_outside
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.tiny import SETTINGS, write_beir


def of_sqlite() -> None:
    sqlite3.connect(":memory:").execute("SELECT nothing FROM nowhere")


def of_safetensors() -> None:
    from safetensors.torch import load

    load(b"no safetensors")


def of_pyarrow() -> None:
    import pyarrow as pa

    pa.array(["a"]).cast(pa.int32())


def of_sqlalchemy() -> None:
    from sqlalchemy import create_engine, text

    with create_engine("sqlite://").connect() as connection:
        connection.execute(text("SELECT secret FROM nowhere"))


def of_a_full_disk() -> None:
    with Path("/dev/full").open("w") as file:
        file.write("x")


def of_safetensors_on_a_full_disk() -> None:
    try:
        of_a_full_disk()
    except OSError as error:
        raise RuntimeError("the model could not be saved") from error


def of_botocore() -> None:
    from botocore.exceptions import EndpointConnectionError

    raise EndpointConnectionError(endpoint_url="http://ann:s3cret@127.0.0.1:9")


@pytest.mark.parametrize(
    ("fails", "kind", "says"),
    [
        (of_sqlite, ConfigError, "put a backup of it back"),
        (of_sqlalchemy, ConfigError, "put a backup of it back"),
        (of_safetensors, DataError, "get the model again"),
        (of_pyarrow, StoreError, "noisyir store verify"),
        (of_a_full_disk, StoreError, "the disk is full"),
        (of_safetensors_on_a_full_disk, StoreError, "free space on it"),
        (of_botocore, StoreError, "check its address, the network and the keys"),
    ],
)
def test_an_error_of_a_library_is_one_line(fails, kind: type[NoisyirError], says: str):
    with pytest.raises(Exception) as caught:
        fails()
    assert is_from_outside(caught.value)
    ours = in_our_words(caught.value)
    assert type(ours) is kind and says in str(ours)
    assert "\n" not in str(ours) and "SELECT" not in str(ours) and "s3cret" not in str(ours) and len(str(ours)) < 600


def test_an_error_of_nobody_known_is_not_taken_for_one():
    assert not is_from_outside(KeyError("x"))
    assert is_from_outside(OSError(errno.ENOENT, "no such file"))


def test_a_failed_run_keeps_its_traceback_and_the_command_goes_on_afterwards(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    write_beir(tmp_path / "data")
    command = ["run", "demo", *SETTINGS, f"data.path={tmp_path / 'data'}", "--to", "ingest", "--no-track"]
    lines = (tmp_path / "data" / "queries.jsonl").read_text()
    (tmp_path / "data" / "queries.jsonl").write_text(lines + '{"_id": "bad", "text": 3}\n')
    assert main(command) == 1
    [said] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("noisyir: ")]
    store = Store(tmp_path / "home" / "store", home=tmp_path / "home")
    [record] = store.runs.all()
    log = Path(record["facts"]["log"])
    assert f"(traceback in {log})" in said and "queries.jsonl line" in said
    assert record["status"] == "failed" and record["failed_in"] == "ingest"
    for text in (log.read_text(), record["facts"]["traceback"]):
        assert "Traceback (most recent call last)" in text and "text_of" in text
    with pytest.raises(DataError):
        main([*command, "--debug"])
    (tmp_path / "data" / "queries.jsonl").write_text(lines)
    assert main(command) == 0


def test_status_passes_over_records_of_another_shape(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    runs = tmp_path / "store" / ".runs"
    runs.mkdir(parents=True)
    for number, value in enumerate([[], 3, {}, {"steps": []}, {"began": "yesterday", "steps": {}}, None]):
        (runs / f"{number}.json").write_text(json.dumps(value))
    assert main(["status"]) == 0
    assert "Traceback" not in capsys.readouterr().err
