"""The command that adds an extra fits the way in which noisyir was installed."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from noisyir.base.errors import install_hint


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A function: noisyir as installed from `origin`, told by its direct_url.json (None: from an index)."""

    def install(origin: dict | None) -> None:
        folder = tmp_path / "site" / "noisyir-9.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: noisyir\nVersion: 9\n")
        if origin:
            (folder / "direct_url.json").write_text(json.dumps(origin))
        monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])

    return install


def test_a_checkout_is_named_by_its_path_whatever_is_in_it(installed, tmp_path):
    checkout = tmp_path / "my check's out"
    checkout.mkdir()
    installed({"url": checkout.as_uri(), "dir_info": {"editable": True}})
    assert shlex.split(install_hint("judge")) == ["pip", "install", "-e", f"{checkout}[judge]"]


def test_a_copied_folder_and_a_wheel_are_not_edited(installed, tmp_path):
    wheel = tmp_path / "noisyir-9-py3-none-any.whl"
    wheel.touch()
    installed({"url": wheel.as_uri(), "archive_info": {}})
    assert shlex.split(install_hint("all")) == ["pip", "install", f"{wheel}[all]"]


@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (None, "noisyir[s3]"),
        ({"url": "file:///no/such/noisyir.whl", "archive_info": {}}, "noisyir[s3]"),
        (
            {"url": "https://host/noisyir.git", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            "noisyir[s3] @ git+https://host/noisyir.git",
        ),
    ],
)
def test_what_an_index_or_git_brought_is_asked_for_there(installed, origin, requirement):
    installed(origin)
    assert shlex.split(install_hint("s3")) == ["pip", "install", requirement]


def test_no_message_gives_a_hint_that_fits_one_installation_only():
    sources = Path(__file__).parents[2] / "noisyir"
    assert not [path for path in sources.rglob("*.py") if 'install "noisyir[' in path.read_text().replace("'", '"')]
