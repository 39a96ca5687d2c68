"""An export is there whole or not at all, and may be asked for again."""

from types import SimpleNamespace

import pytest

from noisyir.app import exports
from noisyir.base.errors import StoreError
from tests.refusals import refuses


def exporter(fault=None):
    """A format of a folder with two files, between which the disk is full, or the process is ended."""

    def export(store, name, target, licence):
        target.mkdir()
        (target / "weights").write_text("all")
        if fault:
            raise fault
        (target / "modules.json").write_text("[]")
        return f'{target}\nload("{target}")'

    return SimpleNamespace(SUFFIX="", export=export)


@pytest.mark.parametrize("fault", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_what_was_cut_off_is_not_there_and_the_same_command_works(tmp_path, monkeypatch, fault):
    target = tmp_path / "new" / "model"
    monkeypatch.setattr(exports, "_module", lambda kind: exporter(fault))
    with pytest.raises(StoreError if isinstance(fault, OSError) else KeyboardInterrupt):
        exports.export(None, "demo", "any", str(target), None)
    assert list(target.parent.iterdir()) == []
    monkeypatch.setattr(exports, "_module", lambda kind: exporter())
    said, there = exports.export(None, "demo", "any", str(target), None)
    assert there == target and said == f'{target}\nload("{target}")'
    assert sorted(path.name for path in target.iterdir()) == ["modules.json", "weights"]
    assert list(target.parent.iterdir()) == [target]
    with refuses(StoreError, "app.target_exists"):
        exports.export(None, "demo", "any", str(target), None)
