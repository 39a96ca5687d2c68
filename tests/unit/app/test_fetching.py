"""Models and data sets in the store: brought once, found by name wherever they are not, and checked on their way."""

import json
import os
import shlex
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field

from noisyir.app.fetching import fetch, source_of
from noisyir.app.label_audit import experiment_to_audit
from noisyir.base.errors import DataError, StoreError
from noisyir.base.settings import Location, Params, places_of
from noisyir.engine.remote.fetched import FetchedSet, here, located
from noisyir.engine.store import Store
from noisyir.front import cli
from noisyir.methods import experiments
from noisyir.methods.plans.left_out import filled_in
from noisyir.methods.plans.planning import pipeline_of
from noisyir.methods.plans.retrievers import audit_pairs
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
    three.fs.pipe_file(three.fetched._file(found.files["pairs.jsonl"][1]), b"[]\n")
    with three.fetched.as_source(), refuses(StoreError, "engine.other_bytes_were_fetched"):
        here(place)
    fetch(one, source_of(place), place)
    assert len(one.fs.find(f"{one.root}/.fetched/files")) == 1


def test_what_two_sets_share_stays_until_both_are_forgotten(store: Store, folder: Path):
    for name in ("one", "two"):
        fetch(store, source_of(str(folder)), str(folder), name)
    files = Path(store.root) / ".fetched" / "files"
    store.fetched.forget("one")
    assert [one.name for one in store.fetched.all()] == ["two"] and len([*files.iterdir()]) == 2
    store.fetched.forget("two")
    assert not [*files.iterdir()]


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
    assert "has nothing of the name data/mine" in capsys.readouterr().err


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_a_damaged_copy_is_made_again_and_shares_no_bytes_with_the_store(store: Store, folder: Path):
    found = fetch(store, source_of(str(folder)), str(folder), "mine")
    with store.fetched.as_source():
        copy = Path(here("mine"))
    flip(copy / "a.txt")
    (copy / "planted.json").write_text("{}")
    again = Store(store.url, home=store.home)
    with again.fetched.as_source():
        assert Path(here("mine"), "a.txt").read_text() == "a" and not (copy / "planted.json").exists()
    assert again.fetched.damaged() == ({}, [])
    assert found == again.fetched.find("mine")


@pytest.mark.parametrize("damaged", ["bytes", "copy", "name"])
def test_damage_is_found_removed_and_cured_by_the_advised_command(
    store: Store, folder: Path, damaged: str, capsys, monkeypatch, tmp_path: Path
):
    monkeypatch.chdir(tmp_path)
    folder = folder.rename(tmp_path / "two words")
    assert cli.main(["fetch", str(folder), "--as", "mine", "--store", store.url]) == 0
    found = store.fetched.find("mine")
    assert found
    with store.fetched.as_source():
        copy = Path(here("mine"))
    place = {"bytes": Path(store.fetched._file(found.files["a.txt"][1])), "copy": copy / "a.txt",
             "name": Path(store.fetched._name_file("mine"))}[damaged]  # fmt: skip
    flip(place)
    assert cli.main(["verify", "--store", store.url]) == 1
    assert "noisyir verify --repair" in capsys.readouterr().err
    assert cli.main(["verify", "--repair", "--store", store.url]) == 0
    said = capsys.readouterr().out
    if damaged == "bytes":
        (cure,) = [line.partition("noisyir ")[2] for line in said.splitlines() if line.startswith("fetch it again")]
        assert cli.main([*shlex.split(cure), "--store", store.url]) == 0
    elif damaged == "name":
        assert cli.main(["fetch", str(folder), "--as", "mine", "--store", store.url]) == 0
    assert cli.main(["verify", "--store", store.url]) == 0
    fresh = Store(store.url, home=store.home)
    with fresh.fetched.as_source():
        assert Path(here("mine"), "a.txt").read_text() == "a"


def test_again_brings_all_even_where_the_name_is_damaged(store: Store, folder: Path):
    arguments = ["fetch", str(folder), "--as", "mine", "--store", store.url]
    assert cli.main(arguments) == 0
    found = store.fetched.find("mine")
    assert found
    flip(Path(store.fetched._file(found.files["a.txt"][1])))
    flip(Path(store.fetched._name_file("mine")))
    assert cli.main([*arguments, "--again"]) == 0 and cli.main(["verify", "--store", store.url]) == 0


def test_a_name_that_is_taken_by_another_source_is_refused(store: Store, folder: Path, capsys):
    arguments = ["--as", "mine", "--store", store.url]
    assert cli.main(["fetch", str(folder), *arguments]) == 0
    assert cli.main(["fetch", "s3://nowhere/at-all", *arguments]) == 1
    assert f"mine is {folder}" in capsys.readouterr().err
    assert cli.main(["fetch", str(folder / "part"), *arguments, "--again"]) == 0
    found = store.fetched.find("mine")
    assert found and {*found.files} == {"b.txt"}


def test_a_file_that_changes_on_its_way_is_stored_under_the_digest_of_what_was_stored(
    store: Store, tmp_path: Path, monkeypatch
):
    import shutil

    file, copyfile = tmp_path / "growing.txt", shutil.copyfile
    file.write_text("before")

    def meanwhile(source, target):
        Path(source).write_text("meanwhile")
        return copyfile(source, target)

    monkeypatch.setattr(shutil, "copyfile", meanwhile)
    size, digest = store.fetched.add_file(file)
    assert size == 9 and store.fetched._digest_at(store.fetched._file(digest)) == digest


def test_the_command_of_a_set_of_the_hub_names_its_commit_and_kind(store: Store):
    given = {"name": "mine", "source": "a/b", "revision": "abc", "fetched": "", "single": False}
    model = FetchedSet(**given, files={"model.safetensors": (1, "")})
    assert model.command == "noisyir fetch a/b --as mine --again --revision abc"
    assert FetchedSet(**given, files={"pairs.csv": (1, "")}).command.endswith("--revision abc --dataset")


def test_what_is_left_of_a_copy_that_was_cut_off_is_read(store: Store, folder: Path):
    found = fetch(store, source_of(str(folder)), str(folder), "mine")
    left = store.fetched._copy(found)
    left = left.with_name(f"{left.name}.arriving")
    left.mkdir(parents=True)
    (left / "a.txt").write_text("x")
    with store.fetched.as_source():
        assert Path(here("mine"), "a.txt").read_text() == "a"


@pytest.mark.parametrize("place", ["given", "given/pipe"])
def test_a_pipe_is_refused_and_not_waited_for(folder: Path, store: Store, place: str):
    os.mkfifo(folder / "pipe")
    with refuses(DataError, "data.folder_pipe_device_name"):
        fetch(store, source_of(str(folder.parent / place)), "x")
    (folder / "pipe").unlink()
    assert fetch(store, source_of(str(folder)), "x").size == 3


def test_a_name_that_is_no_unicode_is_refused_in_a_line(folder: Path, store: Store, capsys):
    assert cli.main(["fetch", str(folder), "--as", "a\udc80", "--store", str(store.root)]) == 1
    assert "did not expect" not in (said := capsys.readouterr().err) and "rename it, or write another" in said
    assert store.fetched.all() == []
