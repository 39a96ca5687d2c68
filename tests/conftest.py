"""Fixtures that every test may use: a store of its own, and one stage run for real on small tables."""

import gc
import hashlib
import os
import random
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import hypothesis
import pyarrow as pa
import pytest

from noisyir.base.artifact import Artifact
from noisyir.base.settings import Params
from noisyir.engine.build_stage import run_stage
from noisyir.engine.locks import held
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.plan import Plan
from noisyir.engine.provenance import files_digest
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.registry.backend import make_database
from tests.channel import Told, channel
from tests.s3_server import s3_server
from tests.tiny import tiny_data

# A deadline would time the first call's imports.  Examples are the same each time; `make test-slow` draws fresh ones,
# and twice as many.
hypothesis.settings.register_profile("fixed", deadline=None, derandomize=True, max_examples=50)
hypothesis.settings.register_profile("fresh", deadline=None, print_blob=True)
hypothesis.settings.load_profile("fixed")

# As `make test` sets it, so that sums are rounded alike without make; torch reads it when it is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Most of what is imported and collected stays: to look for garbage among it would take a tenth of the time.
gc.disable()

Given = pa.Table | Path
Outputs = dict[str, pa.Table | Path]


def pytest_addoption(parser: pytest.Parser) -> None:
    """An order in which no test may rest on another one's traces; and records of stories."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="draw an order of files, and of the tests in each")
    parser.addoption("--record", action="store_true", help="write benchmarks/growing_file.json")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of a file together, so that what they share is still made once."""
    if (seed := config.getoption("--shuffle")) is not None:
        draw = random.Random(seed)
        place = {path: draw.random() for path in dict.fromkeys(item.path for item in items)}
        items.sort(key=lambda item: (place[item.path], draw.random()))


def pytest_collection_finish() -> None:
    """From here on garbage is looked for, but not in what was collected."""
    gc.freeze()
    gc.enable()


class NoParams(Params):
    """A stage without settings."""


@pytest.fixture(autouse=True)
def same_torch_each_time() -> None:
    """Whatever ran before a test, torch draws and adds up alike in it."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        torch.default_generator.manual_seed(0)
        torch.set_flush_denormal(False)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store in the test's own folder."""
    return Store(tmp_path / "store", home=tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The user's folder; a module whose tests share one has a `home` in its place."""
    return tmp_path / "home"


@pytest.fixture(scope="session")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny collection, with the model of its words in `words`; tests only read it."""
    folder = tmp_path_factory.mktemp("beir")
    tiny_data(folder)
    return folder


@pytest.fixture(scope="session")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT of two layers; tests only read it."""
    from tests.tiny_models import tiny_bert  # which loads torch

    return tiny_bert(tmp_path_factory.mktemp("bert"))


@pytest.fixture(scope="session")
def ready(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """`ready(package, make)`: a database of the package, made once for each version, for migrations take seconds."""
    try:
        folder = request.config.cache.mkdir("databases")  # type: ignore[union-attr]
    except (AttributeError, OSError):  # there is no cache
        folder = tmp_path_factory.mktemp("databases")
    if not os.access(folder, os.W_OK):  # another user's
        folder = tmp_path_factory.mktemp("databases")

    def found(package: str, make: Callable[[Path], object]) -> Path:
        path = folder / f"{package}-{version(package)}.db"
        if not path.exists():
            with held(folder / ".made"):
                if not path.exists():
                    arriving = path.with_suffix(".arriving")
                    arriving.unlink(missing_ok=True)  # of a session that was killed
                    make(arriving)
                    arriving.replace(path)
        return path

    return found


@pytest.fixture(scope="session")
def migrated(ready: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose MLflow database is ready."""
    home = tmp_path_factory.mktemp("migrated")
    shutil.copy(ready("mlflow", make_database), home / "mlflow.db")
    return home


@pytest.fixture
def tracked_home(migrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The test's own folder as the user's, with such a database."""
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    return shutil.copytree(migrated, tmp_path, dirs_exist_ok=True)


@pytest.fixture
def noisyir(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """`noisyir("search", ...)` in this process: (exit code, stdout, stderr)."""
    monkeypatch.setenv("NOISYIR_HOME", str(home))

    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return run


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transformer that encodes one of 500 documents in 10 ms, and reads a pair in 20 ms when it trains."""
    from noisyir.app import affordable

    timed = affordable.TimedDocuments(0.01, 0.02, "CPU", 500)
    monkeypatch.setattr(affordable, "time_documents", lambda data: timed)
    monkeypatch.setattr(affordable, "quickest", lambda device: ("torch", "fp32"))


@pytest.fixture
def webhook() -> Iterator[Told]:
    """An address that is posted to, and its messages."""
    with channel() as told:
        yield told


@pytest.fixture(scope="session")
def s3() -> Iterator[dict[str, str]]:
    """The environment of a server that speaks S3's protocol."""
    with s3_server() as environment:
        yield environment


@pytest.fixture
def bucket(s3: dict[str, str], tmp_path: Path) -> str:
    """The URL of an empty store on S3; the environment leads to its server."""
    return f"s3://bucket/{tmp_path.name}"


@pytest.fixture
def run_stage_on(store: Store) -> Callable[..., Outputs]:
    """`run_stage_on(stage, params, tables, seed=0, runtime=...)`, in the test's store: see `run_alone`."""
    return partial(run_alone, store)


@pytest.fixture(scope="module")
def run_stage_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Outputs]:
    """The same, in a store that a module's tests share: for outputs that they only read."""
    home = tmp_path_factory.mktemp("shared")
    return partial(run_alone, Store(home / "store", home=home))


def run_alone(
    store: Store,
    stage: Stage,
    params: Params,
    tables: Mapping[str, Given | Mapping[str, Given]],
    *,
    seed: int = 0,
    runtime: Runtime | None = None,
) -> Outputs:
    """Outputs of a stage by artifact name, tables as tables.

    `tables` maps the stage's input names to a table, a folder, or {label: table or folder}.
    """
    plan = Plan(seed)
    inputs = {name: _given(plan, stage, name, value) for name, value in tables.items()}
    plan.add(stage, params, **inputs)
    metas: dict[str, Meta] = {}
    for step in plan.steps:
        refs = _references(step, metas)
        metas[step.name] = run_stage(step, refs, store=store, runtime=runtime or Runtime()).meta
    written = stage.outputs(params).items()
    return {name: _read(store, metas[stage.name].ref(name), artifact) for name, artifact in written}


def _given(plan: Plan, stage: Stage, name: str, value: Given | Mapping[str, Given]) -> Any:
    """Plan a source stage that publishes `value` as the artifact that `stage` reads under `name`."""
    artifact = stage.reads[name].artifact
    if isinstance(value, Mapping):
        return {label: _source(plan, f"given_{name}_{label}", artifact, item) for label, item in value.items()}
    return _source(plan, f"given_{name}", artifact, value)


def _source(plan: Plan, name: str, artifact: Artifact, value: Given) -> Any:
    def publish(job: Job[NoParams]) -> None:
        if isinstance(value, Path):
            shutil.copytree(value, job.new_folder(artifact.name), dirs_exist_ok=True)
        else:
            job.write(artifact.name, value)

    digest = _digest(value)
    source = Stage(name, 1, NoParams, {}, {artifact.name: artifact}, publish, raw={"content": lambda _: digest})
    return plan.add(source, NoParams())[artifact.name]


def _digest(value: Given) -> str:
    if isinstance(value, Path):
        return files_digest(value, [path for path in value.rglob("*") if path.is_file()])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, value.schema) as stream:
        stream.write_table(value)
    return hashlib.sha256(sink.getvalue()).hexdigest()


def _references(step: Step, metas: dict[str, Meta]) -> dict[str, Any]:
    def reference(value: Any) -> str | Ref | dict[str, Ref]:
        if isinstance(value, Mapping):
            return {label: reference(item) for label, item in value.items()}
        return value if isinstance(value, str) else metas[value.step].ref(value.artifact)

    return {name: reference(value) for name, value in step.inputs.items()}


def _read(store: Store, ref: Ref, artifact: Artifact) -> pa.Table | Path:
    if not artifact.columns:
        return store.builds.folder(ref)
    return store.builds.table(ref, list(artifact.columns))
