"""A model folder holds weights and settings; Python that lies with them is never run, and nobody is asked."""

import io
import json
import shutil

import pytest

from tests.tiny_models import tiny_bert

CODE = """
import os
os.mkdir(os.path.join(os.environ["MARKS"], "ran"))
from transformers import BertConfig
class C(BertConfig):
    model_type = "evil"
"""


@pytest.mark.parametrize("setting", ["model.weights", "ranker.init.weights"])
def test_a_folder_cannot_run_its_own_python(noisyir, setting, tmp_path, monkeypatch):
    folder = tmp_path / "model"
    shutil.copytree(tiny_bert(tmp_path / "bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "evil", "auto_map": {"AutoConfig": "evil.C"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "evil.py").write_text(CODE)
    monkeypatch.setenv("MARKS", str(tmp_path))
    stage = "init_model" if setting.startswith("model") else "init_ranker"
    arguments = "run demo --no-track model.backbone=transformer methods=[ar2] mine.per_query=9 mine.run=dense --only"
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    code, out, err = noisyir(*arguments.split(), stage, f"{setting}={folder}")
    assert code == 1 and "run the custom code" not in out + err and "trust_remote_code" not in out + err
    assert f"{folder} brings code of its own (auto_map in its config.json)" in err
    assert stage not in out + err, "refused before work"
    assert not (tmp_path / "ran").exists()
