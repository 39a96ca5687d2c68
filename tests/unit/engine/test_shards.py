"""Stages that are maps over shards: in the store, found again after a death, damaged ones made anew."""

import pyarrow as pa
import pytest

from noisyir.base.artifact import Artifact
from noisyir.base.errors import StoreError
from noisyir.engine.build_stage import run_stage
from noisyir.engine.plan import Plan
from noisyir.engine.remote.shards import Shards
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer, Stage
from noisyir.engine.store import Store
from tests.conftest import NoParams
from tests.refusals import refuses

SQUARES = Artifact("squares", 1, {"number": pa.int64(), "square": pa.int64()}, key=("number",))
ASKED: list[int] = []


def squares(job):
    with job.writer("squares") as out:
        for part in job.spread(some_squares, {f"squares-{n}": n for n in range(5)}, total=10, unit="numbers"):
            out.adopt(part)


def some_squares(job, numbers):
    for number in numbers:
        ASKED.append(number)
        if number == DIES_AT:
            raise KeyboardInterrupt
        found = [2 * number, 2 * number + 1]
        yield pa.table({"number": found, "square": [n * n for n in found]})


DIES_AT: int | None = None
STAGE = Stage("square", 1, NoParams, {}, {"squares": SQUARES}, squares)


class Told(Observer):
    def __init__(self):
        self.done = []

    def progress(self, step, done, total, unit):
        self.done.append((done, total, unit))


@pytest.fixture(params=["folder", "s3"])
def stores(request, tmp_path):
    """Two machines' stores: one folder, or one place on S3 with a home each."""
    url = str(tmp_path / "store") if request.param == "folder" else request.getfixturevalue("bucket")
    return [Store(url, home=tmp_path / name) for name in ("one", "two")]


def run(store, monkeypatch, dies_at=None, observer=None):
    monkeypatch.setattr("tests.unit.engine.test_shards.DIES_AT", dies_at)
    ASKED.clear()
    plan = Plan(0)
    plan.add(STAGE, NoParams())
    (step,) = plan.steps
    return run_stage(step, {}, store=store, runtime=Runtime(), observer=observer or Told()).meta


def work(store):
    return sorted(path for path in store.fs.find(f"{store.root}/.work") if path.endswith(".parquet"))


def test_a_run_that_died_goes_on_elsewhere_with_the_shards_that_are_in_the_store(stores, monkeypatch):
    one, two = stores
    with pytest.raises(KeyboardInterrupt):
        run(one, monkeypatch, dies_at=3)
    assert [path.rpartition("/")[2][:9] for path in work(one)] == ["squares-0", "squares-1", "squares-2"]
    told = Told()
    meta = run(two, monkeypatch, observer=told)
    assert ASKED == [3, 4]
    assert told.done == [(8, 10, "numbers"), (10, 10, "numbers")]
    assert meta.artifacts["squares"].rows == 10
    assert work(two) == []
    plain = Store(two.home / "plain", home=two.home)
    assert run(plain, monkeypatch).artifacts == meta.artifacts


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: data[:9] + b"!" + data[10:]])
def test_a_damaged_shard_is_made_anew(stores, monkeypatch, damage, caplog):
    one, two = stores
    with pytest.raises(KeyboardInterrupt):
        run(one, monkeypatch, dies_at=4)
    path = work(one)[1]
    one.fs.pipe_file(path, damage(one.fs.cat_file(path)))
    run(two, monkeypatch)
    assert ASKED == [1, 4]
    assert "is made again" in caplog.text


def test_a_shard_that_rots_before_it_is_read_is_an_error(store):
    shards = Shards(store, store.work.named("square-k"), keeps=True)
    made = shards.save("squares-0", pa.table({"number": [1]}))
    path = shards.fetch(made.file)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with refuses(StoreError, "engine.shard_gone_damaged_run"):
        shards.fetch(made.file)
    assert shards.there(["squares-0"]) == {}


def test_shards_that_nobody_goes_on_with_are_leftovers(stores, monkeypatch):
    one, two = stores
    with pytest.raises(KeyboardInterrupt):
        run(one, monkeypatch, dies_at=2)
    (key,) = {path.rpartition("/")[0].rpartition("/")[2].split("-")[1] for path in work(one)}
    two.work.remove_leftovers(needed=[key])
    assert len(work(one)) == 2
    with two.locks.held("square", key):
        assert two.locks.is_held("square", key)
    assert two.work.remove_leftovers()
    assert work(one) == []
