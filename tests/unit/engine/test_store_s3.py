"""The same store code against a real S3 protocol server on loopback."""

import random
from contextvars import copy_context
from datetime import timedelta
from functools import partial
from pathlib import Path
from threading import Event
from urllib.parse import parse_qs

import pytest

from noisyir.engine.outside_errors import in_our_words
from noisyir.engine.remote.copies import SECONDS
from noisyir.engine.store import Store
from tests.s3_server import s3_server

from .test_store import cached, run, two_steps

RECORD = {
    "experiment": "x", "status": "done", "began": "2026-01-01T00:00:00+00:00", "seconds": 1.0, "steps": {}, "facts": {},
}  # fmt: skip


def test_builds_on_s3_are_found_read_copied_verified_and_removed(bucket: str, tmp_path: Path):
    store = Store(bucket, home=tmp_path / "one")
    store.check_writable()
    results = run(two_steps(), store)
    assert cached(results) == {"make": False, "upper": False}

    elsewhere = Store(bucket, home=tmp_path / "two")  # another machine: nothing local is shared
    assert cached(run(two_steps(), elsewhere)) == {"make": True, "upper": True}
    queries = results["make"].meta.ref("queries")
    batches = list(elsewhere.builds.batches(queries, ["text"], rows=2))
    assert [batch.num_rows for batch in batches] == [2, 1]
    model = results["upper"].meta.ref("model")
    assert (elsewhere.builds.folder(model) / "weights.txt").read_text().startswith("TEXT Q0")
    assert [elsewhere.builds.verify(meta) for meta in elsewhere.builds.all()] == [{}, {}]

    elsewhere.runs.record("r1", RECORD)
    assert elsewhere.runs.all() == [RECORD]
    elsewhere.builds.remove(results["upper"].meta)
    assert [meta.stage for meta in elsewhere.builds.all()] == ["make"]


def test_a_store_that_was_asked_before_sees_what_another_process_publishes(bucket: str, tmp_path: Path):
    import s3fs

    parent = Store(bucket, home=tmp_path / "parent")
    key = two_steps().steps[0].key
    assert parent.builds.of_key("make", key) == [] and parent.runs.all() == []
    s3fs.S3FileSystem.clear_instance_cache()  # a worker's own instance, which tells the parent's nothing
    worker = Store(bucket, home=tmp_path / "worker")
    assert worker.fs is not parent.fs
    made = run(two_steps(), worker)["make"].meta
    worker.runs.record("r1", RECORD)
    assert parent.builds.of_key("make", key) == [made] and parent.runs.all() == [RECORD]
    worker.builds.remove(made)
    assert parent.builds.of_key("make", key) == worker.builds.of_key("make", key) == []


def test_another_machine_goes_on_with_the_work_that_was_left_last(bucket: str, tmp_path: Path):
    one, two = Store(bucket, home=tmp_path / "one"), Store(bucket, home=tmp_path / "two")

    def leave(store: Store, text: str) -> Path:
        work = store.work.folder("train", "k1", {})
        (work / "fold0").mkdir(exist_ok=True)
        (work / "fold0" / "checkpoint").write_text(text)
        store.work.keep(work, work / "fold0" / "checkpoint")
        return work

    def found(store: Store) -> str:
        return (store.work.folder("train", "k1", {}) / "fold0" / "checkpoint").read_text()

    work = leave(one, "step 1")
    assert found(two) == "step 1"
    (work / "fold0" / "checkpoint").write_text("step 2, not yet in the store")
    assert found(one) == "step 2, not yet in the store"
    leave(two, "step 3")
    assert found(one) == "step 3"
    assert one.work.remove_leftovers({"k1"}) == [] and found(two) == "step 3"
    assert len(one.work.remove_leftovers()) == 2  # here and in the store
    assert not one.fs.exists(f"{one.root}/.work/{work.name}")
    leave(two, "step 4")
    two.work.remove(work)
    assert not one.fs.exists(f"{one.root}/.work/{work.name}")


def test_a_server_that_falls_silent_is_asked_eight_times_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked, go_on = [], Event()

    def before(inside):
        def between(about, start):
            if about["REQUEST_METHOD"] == "PUT" and about["PATH_INFO"].endswith("/late"):
                asked.append(about["PATH_INFO"])
                go_on.wait()
            return inside(about, start)

        return between

    monkeypatch.setenv(SECONDS, "0.5")
    monkeypatch.setattr(random, "random", lambda: 0.0)  # by which botocore draws how long it waits between
    with s3_server(before):
        store = Store("s3://bucket/silent", home=tmp_path)
        with pytest.raises(Exception, match="timeout") as caught:
            store.fs.pipe_file(f"{store.root}/late", b"x")
        go_on.set()
    assert 1 <= len(asked) <= 8
    assert "check its address, the network" in str(in_our_words(caught.value))


@pytest.mark.parametrize(("asked", "folder"), [("orphans", "make"), ("all_builds", "make"), ("runs", ".runs")])
def test_a_listing_that_fails_is_no_empty_folder(tmp_path: Path, asked: str, folder: str):
    """Else gc would take whole builds for orphans, or not see what needs others."""
    refused: list[str] = []

    def refuses_one_listing(inside):
        def answer(about, start):
            query = parse_qs(about.get("QUERY_STRING", ""))
            if refused and query.get("prefix", [""])[0].endswith(refused[0]):
                refused.clear()
                start("403 Forbidden", [("Content-Type", "application/xml")])
                return [b"<Error><Code>AccessDenied</Code><Message>injected</Message></Error>"]
            return inside(about, start)

        return answer

    with s3_server(before=refuses_one_listing):
        store = Store("s3://bucket/listed", home=tmp_path)
        copy_context().run(run, two_steps(), store)  # a store that goes with this block is nobody's source of weights
        store.runs.record("r1", RECORD)
        orphans = partial(store.builds.orphans, timedelta(seconds=-1))
        ask = {"orphans": orphans, "all_builds": store.builds.all, "runs": store.runs.all}[asked]
        as_it_is = ask()
        refused.append(f"listed/{folder}/")
        with pytest.raises(OSError, match="injected"):
            ask()
        assert not refused and ask() == as_it_is
