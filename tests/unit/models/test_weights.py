"""What a `weights` setting means, and its digest."""

import shutil
import subprocess
import sys

import pytest

from noisyir.base.errors import DataError
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import check_minilm, locate_weights, weights_digest
from tests.refusals import refuses


def digest(weights):
    return weights_digest(InitModelParams(weights=str(weights)))


def test_a_folders_digest_follows_its_content_not_its_place(bert, tmp_path):
    shutil.copytree(bert, tmp_path / "copy")
    assert digest(bert) == digest(tmp_path / "copy")
    (tmp_path / "copy" / "config.json").write_text("{}")
    assert digest(bert) != digest(tmp_path / "copy")


def test_the_packaged_model_is_the_published_one():
    check_minilm(locate_weights("minilm"))
    assert digest("minilm").endswith("53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db")


def test_other_packaged_weights_are_refused(bert):
    with refuses(DataError, "models.changed_minilm"):
        check_minilm(bert)


def test_a_digest_needs_no_torch():
    code = (
        "import sys; from noisyir.models.settings import InitModelParams\n"
        "from noisyir.models.weights import weights_digest; "
        "weights_digest(InitModelParams()); "
        "print({'torch', 'transformers', 'sentence_transformers'} & set(sys.modules))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "set()"


def test_what_is_not_a_model_is_refused_before_any_stage_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text("{}")
    for weights, message in [
        (tmp_path / "file", "is a file, not a model folder"),
        (tmp_path / "empty", "is not a model: it has neither modules.json nor config.json"),
        (tmp_path / "bare", "is not a model: it holds no .safetensors file"),
        (tmp_path / "absent", "is not a model: there is no such folder"),
        ("nobody/nothing", "noisyir fetch nobody/nothing"),
    ]:
        with pytest.raises(DataError, match=message):
            digest(weights)
