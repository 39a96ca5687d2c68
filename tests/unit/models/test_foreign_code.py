"""A model folder holds weights and settings; Python that lies with them is never run, and nobody is asked."""

import json
import shutil
import subprocess
import sys

import pytest

from tests.tiny_models import tiny_bert

CODE = """
import os
os.mkdir(os.path.join(os.environ["MARKS"], "ran"))
from transformers import BertConfig
class C(BertConfig):
    model_type = "evil"
"""
INIT = "import sys; from noisyir.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.mark.parametrize("setting", ["model.weights", "ranker.init.weights"])
def test_a_folder_cannot_run_its_own_python(setting, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_bert(tmp_path / "bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(CODE)
    monkeypatch.setenv("MARKS", str(tmp_path))
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    stage = "init_model" if setting.startswith("model") else "init_ranker"
    arguments = "run demo --no-track model.backbone=transformer methods=[ar2] mine.per_query=9 mine.run=dense --only"
    ended = subprocess.run(
        [sys.executable, "-c", INIT, *arguments.split(), stage, f"{setting}={folder}"],
        input="y\ny\n",
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 1 and "run the custom code" not in ended.stdout + ended.stderr
    assert str(folder) in ended.stderr
    assert not (tmp_path / "ran").exists()
