"""A tracking database that is damaged or was emptied is told of, and what the message advises helps."""

import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from noisyir.base.errors import ConfigError
from noisyir.registry import backend
from noisyir.registry.backend import check_embedded, connect, exclusive
from tests.refusals import refuses


@pytest.fixture(scope="module")
def sound(tmp_path_factory, migrated: Path) -> bytes:
    home = shutil.copytree(migrated, tmp_path_factory.mktemp("sound") / "home")
    connect(home).experiment_id("kept")
    assert [path.name for path in home.glob("mlflow.db*")] == ["mlflow.db"]
    return (home / "mlflow.db").read_bytes()


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda data: b"", "is empty"),
        (lambda data: data[: len(data) // 2], "is damaged"),
        (lambda data: data[:8192] + b"\xff" * 65536 + data[73728:], "is damaged"),
        (lambda data: b"text " * 9999, "is damaged"),
    ],
)
def test_a_damaged_database_is_refused_and_the_advice_helps(tmp_path: Path, sound: bytes, damage, says: str):
    database = tmp_path / "mlflow.db"
    database.write_bytes(damage(sound))
    for opens in (check_embedded, connect):
        with pytest.raises(ConfigError, match=says) as caught:
            opens(tmp_path)
        assert "\n" not in str(caught.value)
    [advised] = re.findall(r"with: (mv .*?);", str(caught.value))
    subprocess.run(shlex.split(advised), check=True)
    assert connect(tmp_path).client.get_experiment_by_name("kept") is None
    database.write_bytes(sound)  # or the backup
    assert connect(tmp_path).client.get_experiment_by_name("kept") is not None


def test_a_sound_database_and_none_are_fine(tmp_path: Path, sound: bytes):
    check_embedded(tmp_path)
    (tmp_path / "mlflow.db").write_bytes(sound)
    check_embedded(tmp_path)


def test_a_database_that_is_there_opens_while_a_run_registers(tmp_path: Path, sound: bytes, monkeypatch):
    monkeypatch.setenv("NOISYIR_WAIT", "1s")  # whoever waits for the lock fails
    (tmp_path / "mlflow.db").write_bytes(sound)
    with exclusive(tmp_path):
        assert connect(tmp_path).client.get_experiment_by_name("kept") is not None


def test_a_server_that_never_answers_is_given_up(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(backend, "ANSWER_SECONDS", "1")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{silent.getsockname()[1]}")
        with ThreadPoolExecutor(2) as threads:
            both = [threads.submit(connect, tmp_path)]
            time.sleep(0.5)
            both.append(threads.submit(connect, tmp_path))  # while the first one waits
        for one in both:
            with refuses(ConfigError, "registry.cannot_open_mlflow"):
                one.result()
            assert "KeyError" not in str(one.exception())
    assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ
