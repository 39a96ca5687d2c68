"""Damage is noticed before it is used, and cured by what the messages advise."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from noisyir.cli import main
from noisyir.engine import integrity
from noisyir.engine.builds import META, Meta
from noisyir.engine.store import Store
from noisyir.errors import StoreError
from tests.run_records import run_record
from tests.unit.engine.test_store import cached, run, two_steps


def files_of(store: Store) -> dict[str, bytes]:
    """Every artifact's bytes by stage, key, artifact and file."""
    found = {}
    for meta in store.all_builds():
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
    assert [meta.build for meta in store.all_builds()] == sorted(result.meta.build for result in first.values())
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
    with pytest.raises(StoreError, match=r"damaged artifact queries.*Run what made it again"):
        store.parts(made.ref("queries"))
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}  # which is what was advised
    assert files_of(store) == whole


def test_a_file_is_read_for_its_digest_once_in_a_process(store: Store, monkeypatch):
    made = run(two_steps(), store)["make"].meta
    another_process(monkeypatch)
    read = []
    monkeypatch.setattr(integrity, "sha256_file", lambda handle: read.append(handle.name) or integrity_digest(handle))
    for _ in range(3):
        store.parts(made.ref("queries"))
    assert len(read) == 1
    assert run(two_steps(), store)["upper"].cached and len(read) == 1  # by what other processes have left


integrity_digest = integrity.sha256_file


def test_what_was_made_from_unchecked_damage_goes_with_it(store: Store, monkeypatch, capsys):
    results = run(two_steps(), store)
    whole = files_of(store)
    unchecked(store, results["upper"].meta)
    damage(artifact_files(store)[0], np.random.default_rng(1))
    another_process(monkeypatch)
    assert main(["verify", "--store", store.root]) == 1
    said = capsys.readouterr().err
    assert "make/" in said and "was made from make/" in said and "noisyir verify --repair" in said
    assert main(["verify", "--repair", "--store", store.root]) == 0
    assert store.all_builds() == []
    run(two_steps(), store)
    assert main(["verify", "--store", store.root]) == 0
    assert files_of(store) == whole


def unchecked(store: Store, meta: Meta) -> None:
    """As a build of before inputs were checked."""
    (Path(store.root) / meta.folder / META).write_text(replace(meta, checked=False).to_json())


def test_what_checked_its_inputs_stays_when_they_are_removed_and_is_found_again(store: Store, monkeypatch):
    results = run(two_steps(), store)
    damage(artifact_files(store)[0], np.random.default_rng(2))
    another_process(monkeypatch)
    assert main(["verify", "--repair", "--store", store.root]) == 0
    assert [meta.stage for meta in store.all_builds()] == ["upper"]
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}
    (_, behind), *_ = results["upper"].meta.input_refs()
    assert store.meta(behind).artifacts["queries"].digest == behind.digest  # its old build is gone, its twin stands in


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1, "artifacts": []}'])
def test_a_damaged_meta_breaks_nothing_and_is_removed_by_repair(store: Store, capsys, text: str):
    meta = run(two_steps(), store)["make"].meta
    (Path(store.root) / meta.folder / META).write_text(text)
    assert [found.stage for found in store.all_builds()] == ["upper"]
    for verb in (["ls"], ["gc", "--dry-run"]):
        assert main([*verb, "--store", store.root]) == 0
    assert main(["verify", "--store", store.root]) == 1
    assert meta.folder in capsys.readouterr().err
    assert main(["verify", "--repair", "--store", store.root]) == 0
    assert cached(run(two_steps(), store)) == {"make": False, "upper": True}
    assert main(["verify", "--store", store.root]) == 0


@pytest.mark.parametrize("name", ["a[b]c", "st*r", "what?", "a::b", "with space"])
def test_a_root_of_any_name_is_cached(tmp_path: Path, name: str):
    store = Store(tmp_path / name, home=tmp_path / "home")
    run(two_steps(), store)
    assert all(cached(run(two_steps(), Store(tmp_path / name, home=tmp_path / "home"))).values())
    store.record_run("r", run_record())
    assert store.runs() == [run_record()]


def test_names_go_on_when_the_clock_goes_back(store: Store, monkeypatch):
    from datetime import UTC, datetime

    from noisyir.engine.records import stamp

    now = datetime(2026, 5, 1, tzinfo=UTC)
    later = stamp(now, "")
    assert stamp(datetime(2026, 4, 29, tzinfo=UTC), later) > later
    store.record_run(f"{later}-demo", run_record())
    assert store.run_id("demo", datetime(2026, 4, 29, tzinfo=UTC)) > f"{later}-demo"


def test_gc_waits_for_whoever_uses_the_store_and_gives_up_in_one_line(store: Store, capsys):
    run(two_steps(), store)
    with store.in_use():
        assert main(["gc", "--store", store.root]) == 1
        assert "gave up" in capsys.readouterr().err
    assert len(store.all_builds()) == 2
    assert main(["gc", "--store", store.root]) == 0
    assert store.all_builds() == []
