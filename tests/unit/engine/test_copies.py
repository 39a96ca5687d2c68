"""Copies of what lies in an object store: fetched once, checked, kept while they are used, and bounded."""

import hashlib
import os

import pytest

from noisyir.base.errors import ConfigError
from noisyir.engine.remote.copies import GIGABYTES, Copies
from tests.refusals import refuses


class Source:
    """Files by name, and how often each was asked for."""

    def __init__(self, **files):
        self.files, self.asked = files, []

    def fetch(self, name, to):
        self.asked.append(name)
        to.write_bytes(self.files[name])

    def named(self, name):
        data = self.files[name]
        return {name: (len(data), hashlib.sha256(data).hexdigest())}


def use(copies, source, name):
    with copies.using(name, source.named(name), source.fetch) as folder:
        return (folder / name).read_bytes()


def test_a_file_is_fetched_once_and_again_where_its_copy_is_damaged(tmp_path):
    source = Source(a=b"some bytes")
    assert use(Copies(tmp_path), source, "a") == use(Copies(tmp_path), source, "a") == b"some bytes"
    assert source.asked == ["a"]
    (tmp_path / "a" / "a").write_bytes(b"other bytes")
    assert use(Copies(tmp_path), source, "a") == b"some bytes"
    assert source.asked == ["a", "a"]


def test_what_was_not_used_for_longest_makes_room_and_what_is_in_use_stays(tmp_path, monkeypatch):
    monkeypatch.setenv(GIGABYTES, "25e-9")
    source, copies = Source(a=b"0" * 10, b=b"1" * 10, c=b"2" * 10, d=b"3" * 10), Copies(tmp_path)
    for age, name in enumerate("ab"):
        use(copies, source, name)
        os.utime(tmp_path / name, (age, age))
    with copies.using("a", source.named("a"), source.fetch):
        os.utime(tmp_path / "a", (0, 0))
        use(copies, source, "c")
        assert {path.name for path in tmp_path.glob("?")} == {"a", "c"}
        os.utime(tmp_path / "a", (0, 0))
    use(copies, source, "d")
    assert {path.name for path in tmp_path.glob("?")} == {"c", "d"}


def test_two_may_use_a_copy_at_once_and_one_that_fails_to_come_leaves_nothing(tmp_path):
    source = Source(a=b"x")
    with Copies(tmp_path).using("a", source.named("a"), source.fetch):
        assert use(Copies(tmp_path), source, "a") == b"x"

    def fails(name, to):
        to.write_bytes(b"half")
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"), Copies(tmp_path).using("b", source.named("a"), fails):
        pass
    assert not (tmp_path / "b").exists()


def test_a_bound_that_is_no_number_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv(GIGABYTES, "much")
    source = Source(a=b"x")
    with refuses(ConfigError, "engine.not_number_gigabytes", gigabytes="NOISYIR_CACHE_GB", given="much"):
        use(Copies(tmp_path), source, "a")
