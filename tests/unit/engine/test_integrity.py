"""Damage is noticed before it is used, and cured by what the messages advise."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import CDLL, c_uint32
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from noisyir.base.errors import StoreError
from noisyir.engine import builds, integrity
from noisyir.engine.meta import META, Meta
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.refusals import refuses
from tests.run_records import run_record
from tests.unit.engine.test_store import cached, run, two_steps


def files_of(store: Store) -> dict[str, bytes]:
    """Every artifact's bytes by stage, key, artifact and file."""
    found = {}
    for meta in store.builds.all():
        for artifact, contents in meta.artifacts.items():
            for name in contents.files:
                path = Path(store.root) / meta.ref(artifact).path / name
                found[f"{meta.stage}/{meta.key}/{artifact}/{name}"] = path.read_bytes()
    return found


def damage(path: Path, rng: np.random.Generator) -> None:
    """Flip a byte or cut the file, at random."""
    data = bytearray(path.read_bytes())
    at = int(rng.integers(len(data)))
    if rng.random() < 0.5:
        data[at] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
    else:
        path.write_bytes(data[:at])


def another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integrity, "_read_here", {})


def artifact_files(store: Store) -> list[Path]:
    return [path for path in sorted(Path(store.root).glob("*/*/*/*/*")) if path.is_file()]


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_build_is_passed_over_and_built_anew_in_place(store: Store, monkeypatch, seed: int):
    first = run(two_steps(), store)
    whole, rng = files_of(store), np.random.default_rng(seed)
    hit = artifact_files(store)[seed % 2]
    damage(hit, rng)
    another_process(monkeypatch)
    again = run(two_steps(), store)
    assert cached(again)[hit.relative_to(store.root).parts[0]] is False
    assert files_of(store) == whole
    assert [meta.build for meta in store.builds.all()] == sorted(result.meta.build for result in first.values())
    assert all(cached(run(two_steps(), store)).values())


def test_bits_that_rot_under_an_unchanged_time_are_found_when_the_file_is_opened(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    whole, part = files_of(store), artifact_files(store)[0]
    times, data = part.stat(), bytearray(part.read_bytes())
    data[-20] ^= 4
    with part.open("r+b") as handle:
        handle.write(data)
    os.utime(part, ns=(times.st_atime_ns, times.st_mtime_ns))
    another_process(monkeypatch)
    with refuses(StoreError, "engine.damaged_artifact_run_experiment", artifact="queries"):
        store.builds.parts(made.ref("queries"))
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}  # which is what was advised
    assert files_of(store) == whole


def test_a_file_is_read_for_its_digest_once_in_a_process(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    another_process(monkeypatch)
    read = []
    monkeypatch.setattr(integrity, "sha256_file", lambda handle: read.append(handle.name) or integrity_digest(handle))
    for _ in range(3):
        store.builds.parts(made.ref("queries"))
    assert len(read) == 1
    assert run(two_steps(), store)["upper"].cached and len(read) == 1  # by what other processes have left


integrity_digest = integrity.sha256_file


def test_what_was_made_from_unchecked_damage_goes_with_it(store: Store, monkeypatch, capsys):
    results = run(two_steps(), store)
    whole = files_of(store)
    unchecked(store, results["upper"].meta)
    damage(artifact_files(store)[0], np.random.default_rng(1))
    another_process(monkeypatch)
    assert main(["store", "verify", "--store", store.root]) == 1
    said = capsys.readouterr().err
    assert "make/" in said and "rests on make/" in said and "noisyir store verify --repair" in said
    assert main(["store", "verify", "--repair", "--store", store.root]) == 0
    assert store.builds.all() == []
    run(two_steps(), store)
    assert main(["store", "verify", "--store", store.root]) == 0
    assert files_of(store) == whole


def unchecked(store: Store, meta: Meta) -> None:
    """As a build of before inputs were checked."""
    (Path(store.root) / meta.folder / META).write_text(replace(meta, checked=False).to_json())


def test_what_checked_its_inputs_stays_when_they_are_removed_and_is_found_again(store: Store, monkeypatch):
    results = run(two_steps(), store)
    damage(artifact_files(store)[0], np.random.default_rng(2))
    another_process(monkeypatch)
    assert main(["store", "verify", "--repair", "--store", store.root]) == 0
    assert [meta.stage for meta in store.builds.all()] == ["upper"]
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}
    (_, behind), *_ = results["upper"].meta.input_refs()
    assert (
        store.builds.meta(behind).artifacts["queries"].digest == behind.digest
    )  # its old build is gone, its twin stands in


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1, "artifacts": []}'])
def test_a_damaged_meta_breaks_nothing_and_is_removed_by_repair(store: Store, capsys, text: str):
    meta = run(two_steps(), store)["make"].meta
    (Path(store.root) / meta.folder / META).write_text(text)
    assert [found.stage for found in store.builds.all()] == ["upper"]
    for verb in (["status", "--builds"], ["store", "gc", "--dry-run"]):
        assert main([*verb, "--store", store.root]) == 0
    assert main(["store", "verify", "--store", store.root]) == 1
    assert meta.folder in capsys.readouterr().err
    assert main(["store", "verify", "--repair", "--store", store.root]) == 0
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}
    assert main(["store", "verify", "--store", store.root]) == 0


@pytest.mark.parametrize("name", ["a[b]c", "st*r", "what?", "a::b", "with space"])
def test_a_root_of_any_name_is_cached(tmp_path: Path, name: str):
    store = Store(tmp_path / name, home=tmp_path / "home")
    run(two_steps(), store)
    assert all(cached(run(two_steps(), Store(tmp_path / name, home=tmp_path / "home"))).values())
    store.runs.record("r", run_record())
    assert store.runs.all() == [run_record()]


def test_names_go_on_when_the_clock_goes_back(store: Store, monkeypatch):
    from noisyir.engine.records import stamp

    now = datetime(2026, 5, 1, tzinfo=UTC)
    later = stamp(now, "")
    assert stamp(datetime(2026, 4, 29, tzinfo=UTC), later) > later
    store.runs.record(f"{later}-demo", run_record())
    assert store.runs.new_id("demo", datetime(2026, 4, 29, tzinfo=UTC)) > f"{later}-demo"


def test_gc_waits_for_whoever_uses_the_store_and_gives_up_in_one_line(store: Store, capsys):
    run(two_steps(), store)
    with store.locks.in_use():
        assert main(["store", "gc", "--store", store.root]) == 1
        assert "gave up" in capsys.readouterr().err
    assert len(store.builds.all()) == 2
    assert main(["store", "gc", "--store", store.root]) == 0
    assert store.builds.all() == []


def test_a_byte_of_a_builds_account_is_no_more_trusted_than_one_of_its_data(store: Store, monkeypatch):
    """It stays JSON, names the same files and digests, and says something else."""
    meta = run(two_steps(), store)["make"].meta
    whole, path = files_of(store), Path(store.root) / meta.folder / META
    path.write_text(path.read_text().replace(f'"created": "{meta.created[:3]}', '"created": "1999'))
    assert store.builds.of_key("make", meta.key) == [] and list(store.builds.damaged()) == [meta.folder]
    another_process(monkeypatch)
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}
    assert files_of(store) == whole and store.builds.damaged() == {}
    assert [found.build for found in store.builds.of_key("make", meta.key)] == [meta.build]  # by which runs know it


def test_what_repair_removed_comes_again_under_its_name(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    damage(artifact_files(store)[0], np.random.default_rng(3))
    another_process(monkeypatch)
    assert main(["store", "verify", "--repair", "--store", store.root]) == 0
    assert store.builds.of_key("make", made.key) == []
    assert store.builds.orphans(timedelta(seconds=-1)) == []  # its name waits, and gc lets it
    assert run(two_steps(), store)["make"].meta.build == made.build


def test_a_newer_build_is_not_displaced_by_a_name_that_waits(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    store.builds.remove_folder(made.folder, keep_name=True)
    again = run(two_steps(), store)["make"].meta
    newer = replace(again, build=f"{again.build[:20]}9-000000000000", inputs={"raw": "other"})
    store.builds.remove_folder(again.folder, keep_name=True)
    folder = Path(store.root) / newer.folder
    folder.mkdir()
    (folder / META).write_text(newer.to_json())
    third = run(two_steps(), store)["make"].meta
    assert third.build > newer.build


def test_a_damaged_record_is_told_of_set_aside_and_keeps_gc_from_deleting(store: Store, capsys):
    run(two_steps(), store)
    store.runs.record("r1", run_record())
    path = Path(store.root) / ".runs" / "r1.json"
    path.write_text(path.read_text().replace("done", "gone", 1))
    assert main(["store", "gc", "--store", store.root]) == 1
    said = capsys.readouterr().err
    assert ".runs/r1.json" in said and "noisyir store verify --repair" in said and len(store.builds.all()) == 2
    assert main(["store", "verify", "--store", store.root]) == 1
    assert main(["store", "verify", "--repair", "--store", store.root]) == 0
    assert store.runs.all() == [] and Path(f"{path}.damaged").exists()
    assert main(["store", "gc", "--store", store.root]) == 0 and store.builds.all() == []


def test_names_of_builds_sort_behind_those_of_their_inputs_when_the_clock_goes_back(store: Store, monkeypatch):
    class Earlier(datetime):
        turns = iter(range(10))

        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 5, 20 - next(cls.turns), tzinfo=UTC)  # a day earlier each time

    monkeypatch.setattr(builds, "datetime", Earlier)
    made = run(two_steps(), store)
    assert [meta.stage for meta in store.builds.all()] == ["make", "upper"]
    assert made["upper"].meta.created < made["make"].meta.created


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_what_this_user_may_not_read_is_no_empty_store(store: Store, capsys, depth: int):
    meta = run(two_steps(), store)["make"].meta
    closed = Path(store.root).joinpath(*Path(meta.folder).parts[:depth])
    closed.chmod(0)
    with as_any_user():
        for words in (["store", "verify"], ["store", "gc", "--dry-run"], ["store", "gc"]):
            assert main([*words, "--store", store.root]) == 1
            said = "".join(capsys.readouterr())
            assert "cannot read the store" in said and said.count("\n") == 1
        closed.chmod(0o755)
        assert main(["store", "verify", "--store", store.root]) == 0
    assert "all as written" in "".join(capsys.readouterr())


@contextmanager
def as_any_user() -> Iterator[None]:
    """Modes hold for this thread even where it is root's, who goes on to own what is root's: Python, for one."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root may read all here")
    libc, version_3, this_thread = CDLL(None), 0x20080522, 0
    header, held = (c_uint32 * 2)(version_3, this_thread), (c_uint32 * 6)()
    assert libc.capget(header, held) == 0
    ignores_modes = 1 << 1 | 1 << 2  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, of those in effect
    bound = type(held)(held[0] & ~ignores_modes, *held[1:])
    assert libc.capset(header, bound) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0
