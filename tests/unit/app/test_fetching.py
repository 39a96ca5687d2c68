"""Models and data sets in the store: brought once, found by name wherever they are not, and checked on their way."""

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from noisyir.app.audit_data import experiment_to_audit
from noisyir.app.fetching import fetch, source_of
from noisyir.app.retention import unneeded
from noisyir.base.errors import DataError, StoreError
from noisyir.base.settings import Location, Params, places_of
from noisyir.engine.meta import META
from noisyir.engine.remote.fetched import here, located
from noisyir.engine.store import Store
from noisyir.front import cli
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.methods.plans.left_out import filled_in
from noisyir.methods.plans.planning import pipeline_of
from noisyir.models.settings import InitModelParams
from tests.refusals import refuses


class Data(Params):
    path: Location = None


class Inner(Params):
    first: Data = Data()
    more: tuple[Data, ...] = ()
    named: dict[str, Data] = Field({})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = tmp_path / "given"
    (found / "part").mkdir(parents=True)
    (found / "a.txt").write_text("a")
    (found / "part" / "b.txt").write_text("bb")
    (found / ".hidden").write_text("not for others")
    return found


def test_a_folder_is_found_by_its_name_where_it_is_not(store: Store, folder: Path, monkeypatch, tmp_path: Path):
    found = fetch(store, source_of(str(folder)), str(folder), "data/mine")
    assert found.size == 3 and {*found.files} == {"a.txt", "part/b.txt"} and not found.single
    monkeypatch.chdir(tmp_path)
    with store.fetched.as_source():
        copy = Path(here("data/mine"))
        assert (copy / "part" / "b.txt").read_text() == "bb" and here("data/mine") == str(copy)
        assert here("data/other") == "data/other"
        (tmp_path / "data" / "mine").mkdir(parents=True)
        assert here("data/mine") == "data/mine"  # what is on this machine is taken


def test_a_fetched_name_is_settled_as_the_path_that_it_came_from(store: Store, tmp_path: Path, monkeypatch):
    rows = [{"query": f"how {n}", "document": f"text {n}", "split": ("train", "dev", "test")[n % 3], "weight": 0.5}
            for n in range(60)]  # fmt: skip
    path = tmp_path / "x" / "pairs.jsonl"
    path.parent.mkdir()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    fetch(store, source_of(str(path)), str(path), "mine.jsonl")
    monkeypatch.chdir(tmp_path)
    with store.fetched.as_source():
        given, named = (
            experiments.from_settings({"name": "g", "data": {"kind": "pairs", "path": place}}, [])
            for place in (str(path), "mine.jsonl")
        )
        given, named = filled_in(given), filled_in(named)
        keys = [{step.name: step.key for step in pipeline_of(exp).steps} for exp in (given, named)]
        audited = [experiment_to_audit(place) for place in (str(path), "mine.jsonl")]
    assert named.chosen == given.chosen and named.train == given.train and named.data.hold_out is None
    assert "given_weights" in keys[0] and keys[0].keys() == keys[1].keys()
    assert [name for name in keys[0] if keys[0][name] != keys[1][name]] == ["report"]  # whose page names the data
    assert [exp.data.path for exp in audited] == [str(path), "mine.jsonl"]
    with store.fetched.as_source():
        *before, audit = zip(*([step.key for step in audit_pairs(exp).steps] for exp in audited), strict=True)
    assert all(one == other for one, other in before) and audit[0] != audit[1]  # whose page names the file


def test_a_file_from_s3_is_brought_once_and_checked(bucket: str, tmp_path: Path):
    import fsspec

    fsspec.filesystem("s3").pipe_file(f"{bucket}-given/pairs.jsonl", b"{}\n")
    place = f"{bucket}-given/pairs.jsonl"
    one, two = (Store(bucket, home=tmp_path / name) for name in ("one", "two"))
    found = fetch(one, source_of(place), place)
    assert found.single and found.files["pairs.jsonl"][0] == 3
    with two.fetched.as_source():
        assert Path(here(place)).read_bytes() == b"{}\n" and Path(here(place)).name == "pairs.jsonl"
    three = Store(bucket, home=tmp_path / "three")
    three.fs.pipe_file(f"{three.root}/{found.ref.path}/pairs.jsonl", b"[]\n")
    with three.fetched.as_source(), pytest.raises(StoreError, match=f"fetch it again: {found.command}"):
        here(place)
    assert fetch(one, source_of(place), place) == found
    with three.fetched.as_source():
        assert Path(here(place)).read_bytes() == b"{}\n"


def test_gc_keeps_what_a_name_means_and_no_other(store: Store, folder: Path):
    older = fetch(store, source_of(str(folder)), str(folder), "mine")
    (folder / "a.txt").write_text("another")
    newer, other = (fetch(store, source_of(str(folder)), str(folder), name) for name in ("mine", "other"))
    assert store.fetched.all() == [newer, other]
    found = unneeded(store, keep_runs=0, host="here")
    assert [meta.ref("files") for meta, _ in found.values()] == [older.ref]
    store.fetched.forget("mine")
    assert store.fetched.all() == [other]


def test_every_place_in_settings_is_seen_and_moved():
    given = Inner(first=Data(path="a"), more=(Data(path="b"), Data()), named={"x": Data(path="c")})
    assert [*places_of(given)] == [("first.path", "a"), ("more.0.path", "b"), ("named.x.path", "c")]
    assert located(given) is given
    assert [*places_of(InitModelParams(weights="some/name"))] == [("weights", "some/name")]


@pytest.mark.parametrize(
    ("place", "said"), [("no such thing!", "is neither a file"), ("file:///nowhere/at/all", "there is no file")]
)
def test_what_is_not_there_is_said_in_one_line(place: str, said: str):
    with pytest.raises(DataError, match=said):
        source_of(place)


def test_the_command_brings_lists_and_forgets(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    store = ["--store", str(tmp_path / "store")]

    def typed(*words: Any) -> str:
        assert cli.main(["fetch", *map(str, words), *store]) == 0
        return capsys.readouterr().out

    assert typed(folder, "--dry-run") == "" and "nothing was fetched" in typed()
    assert "data/mine" in typed(folder, "--as", "data/mine") and "data/mine" in typed()
    assert "is gone" in typed("data/mine", "--forget") and "nothing was fetched" in typed()
    assert cli.main(["fetch", "data/mine", "--forget", *store]) == 1
    assert "has nothing called data/mine" in capsys.readouterr().err


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("damaged", ["a.txt", META])
def test_damage_is_found_removed_and_cured_by_the_advised_command(
    store: Store, folder: Path, damaged: str, capsys, monkeypatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    folder = folder.rename(tmp_path / "two words")
    arguments = ["fetch", str(folder), "--as", "mine", "--store", store.url]
    assert cli.main(arguments) == 0
    found = store.fetched.find("mine")
    assert found
    build = Path(store.root, found.ref.path).parent
    flip(build / (META if damaged == META else f"files/{damaged}"))
    assert cli.main(["store", "verify", "--store", store.url]) == 1
    assert "noisyir store verify --repair" in capsys.readouterr().err
    assert cli.main(["store", "verify", "--repair", "--store", store.url]) == 0
    said = capsys.readouterr().out
    if damaged != META:
        (cure,) = [line.partition("noisyir ")[2] for line in said.splitlines() if line.startswith("fetch it again")]
        assert shlex.split(cure) == [*arguments[:4], "--again"]
    assert cli.main(arguments) == 0
    assert cli.main(["store", "verify", "--store", store.url]) == 0
    fresh = Store(store.url, home=store.home)
    with fresh.fetched.as_source():
        assert Path(here("mine"), "a.txt").read_text() == "a"


def test_again_mends_what_is_damaged(store: Store, folder: Path):
    arguments = ["fetch", str(folder), "--as", "mine", "--store", store.url]
    assert cli.main(arguments) == 0
    found = store.fetched.find("mine")
    assert found
    flip(Path(store.root, found.ref.path, "a.txt"))
    again = Store(store.url, home=store.home)
    with again.fetched.as_source(), pytest.raises(StoreError, match=r"fetch it again: noisyir fetch .* --as mine"):
        here("mine")
    assert cli.main([*arguments, "--again"]) == 0 and cli.main(["store", "verify", "--store", store.url]) == 0
    assert again.fetched.find("mine") == found


def test_a_name_that_is_taken_by_another_source_is_refused(store: Store, folder: Path, capsys):
    arguments = ["--as", "mine", "--store", store.url]
    assert cli.main(["fetch", str(folder), *arguments]) == 0
    assert cli.main(["fetch", "s3://nowhere/at-all", *arguments]) == 1
    assert f"mine is {folder}" in capsys.readouterr().err
    assert cli.main(["fetch", str(folder / "part"), *arguments, "--again"]) == 0
    found = store.fetched.find("mine")
    assert found and {*found.files} == {"b.txt"}


def test_another_revision_is_known_although_its_bytes_are_the_same(store: Store, folder: Path):
    source = source_of(str(folder))
    first = fetch(store, source, "a/b", "mine")
    source.revision = "abc"
    second = fetch(store, source, "a/b", "mine")
    assert store.fetched.all() == [second] and (first.revision, second.revision) == (None, "abc")
    assert second.command == "noisyir fetch a/b --as mine --again --revision abc --dataset"
    (folder / "model.safetensors").write_bytes(b"")
    model = fetch(store, source_of(str(folder)), "a/b")
    assert replace(model, revision="abc").command == "noisyir fetch a/b --as a/b --again --revision abc"


@pytest.mark.parametrize("place", ["given", "given/pipe"])
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, store: Store, place: str):
    os.mkfifo(folder / "pipe")
    with refuses(DataError, "data.special_file"):
        fetch(store, source_of(str(folder.parent / place)), "x")
    (folder / "pipe").unlink()
    assert fetch(store, source_of(str(folder)), "x").size == 3


def test_a_name_that_is_no_unicode_is_refused_in_a_line(folder: Path, store: Store, capsys):
    assert cli.main(["fetch", str(folder), "--as", "a\udc80", "--store", str(store.root)]) == 1
    assert "did not expect" not in (said := capsys.readouterr().err) and "rename it, or write another" in said
    assert store.fetched.all() == []
