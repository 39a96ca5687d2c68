"""A worker with an empty home, an empty cache and the store's URL runs a transformer experiment, after `fetch`."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hub_server import COMMIT, serving
from tests.tiny import SETTINGS, write_beir
from tests.tiny_models import tiny_bert

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1500)]
MODEL = "org/tiny-bert"


def noisyir(home: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    home.mkdir(exist_ok=True)
    own = {
        "HOME": str(home),
        "NOISYIR_HOME": str(home / "noisyir"),
        "HF_HOME": str(home / "hf"),
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "noisyir.front.cli", *words], env={**os.environ, **own, **more}, capture_output=True,
        text=True, cwd=home,
    )  # fmt: skip


def test_what_one_machine_fetched_another_trains_from(bucket: str, tmp_path: Path):
    pytest.importorskip("torch")
    bert, data = tiny_bert(tmp_path / "bert"), write_beir(tmp_path / "beir")
    (bert / "pytorch_model.bin").write_bytes(b"never fetched")
    run = [
        "run", "demo", *SETTINGS, "data.path=data/beir", "model.backbone=transformer", f"model.weights={MODEL}",
        "methods=[dpr]", "model.query_max_len=16", "model.passage_max_len=32", "runtime.device=cpu", "--no-track",
        "--store", bucket,
    ]  # fmt: skip
    with serving(models={MODEL: bert}) as hub:
        address, asked = hub.url, hub.sent
        before = noisyir(tmp_path / "worker", *run, "--dry-run", HF_ENDPOINT=address)
        assert f"noisyir fetch {MODEL}" in before.stdout and "noisyir fetch data/beir" in before.stdout, before.stderr
        assert not asked  # nothing is downloaded without being told
        found = noisyir(tmp_path / "one", "fetch", MODEL, "--store", bucket, HF_ENDPOINT=address)
        assert found.returncode == 0 and COMMIT in found.stderr, found.stderr
        assert "model.safetensors" in asked and "pytorch_model.bin" not in asked
        count = len(asked)
        again = noisyir(tmp_path / "two", "fetch", MODEL, "--store", bucket, HF_ENDPOINT=address)
        assert again.returncode == 0 and len(asked) == count
        missing = noisyir(tmp_path / "one", "fetch", "org/none", "--store", bucket, HF_ENDPOINT=address)
        assert missing.returncode == 1 and missing.stderr.count("\n") == 1 and "Traceback" not in missing.stderr
    assert noisyir(tmp_path / "one", "fetch", str(data), "--as", "data/beir", "--store", bucket).returncode == 0
    done = noisyir(tmp_path / "worker", *run, HF_HUB_OFFLINE="1")
    assert done.returncode == 0, done.stderr
    assert not [*(tmp_path / "worker" / "hf").rglob("*.safetensors")]
    cached = noisyir(tmp_path / "other", *run, HF_HUB_OFFLINE="1")
    assert cached.returncode == 0 and "0 run" in cached.stdout, cached.stdout + cached.stderr
