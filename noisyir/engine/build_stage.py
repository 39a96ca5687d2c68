"""How a stage runs: check, read, call, check, publish; the same in Python, on the command line and under Prefect."""

import ctypes
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from noisyir.base.errors import DataError, MissingPackageError, NoisyirError, install_hint
from noisyir.engine.file_memory import own_reading
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.needs import measured
from noisyir.engine.outside_errors import in_our_words, is_from_outside
from noisyir.engine.provenance import git_commit, package_versions
from noisyir.engine.remote.leases import LeaseLostError
from noisyir.engine.runtime import Runtime, own_device
from noisyir.engine.stage import Inputs, Job, Observer, Spread, Step
from noisyir.engine.store import Store


@dataclass(frozen=True)
class Result:
    """The build that stands for a step, and whether it was in the store already."""

    meta: Meta
    cached: bool


def run_stage(
    step: Step,
    inputs: Inputs,
    refresh: bool = False,
    *,
    store: Store,
    runtime: Runtime,
    observer: Observer | None = None,
    spread: Spread | None = None,
) -> Result:
    """Run a stage: check, read, call, check, publish.

    A build of the step's key from inputs with the same digests is reused, unless `refresh`.  If two runs need one key,
    the second waits for the first.  If the stage raises, the store is unchanged and `work` is kept for a retry.

    Args:
        spread: The engine's way to distribute work that a stage spreads over processes.
    """
    observer = observer or Observer()
    store.fetched.be_source()
    if not refresh and (result := reuse(step, inputs, store, observer)):
        return result
    at_gpu = step.stage.pool == "gpu" and not (step.stage.spreads and spread)
    with store.locks.in_use(), store.locks.held(step.stage.name, step.key) as waited:
        if (not refresh or waited) and (result := reuse(step, inputs, store, observer)):
            return result
        observer.started(step)
        try:
            with own_device(runtime, store.home) if at_gpu else nullcontext(runtime) as machine:
                _check_raw(step, inputs)
                began = time.monotonic()
                with _staging(step, inputs, store) as folders, _errors_of(step):
                    job = Job(step, step.params, inputs, store, machine, observer, *folders, spread)
                    with measured(job.notes, machine):
                        step.stage.run(job)
                    meta = _publish(job, began)
        except BaseException as error:
            if isinstance(error, LeaseLostError) and (result := reuse(step, inputs, store, observer)):
                return result  # of who took over and was faster
            observer.failed(step, error)
            raise
        finally:
            _leave_the_process_as_it_was()
        observer.finished(step, meta, cached=False)
        return Result(meta, cached=False)


def _leave_the_process_as_it_was() -> None:
    """Return freed memory that Arrow and glibc hold, and let small numbers count again (`tune_for_training`)."""
    if torch := sys.modules.get("torch"):
        torch.set_flush_denormal(False)
    pa.default_memory_pool().release_unused()
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)


def reuse(step: Step, inputs: Inputs, store: Store, observer: Observer) -> Result | None:
    """Return the build of the step's key from inputs with the same digests, if there is one."""
    if found := store.builds.find(step.stage.name, step.key, recorded(inputs)):
        observer.finished(step, found, cached=True)
        return Result(found, cached=True)
    return None


def _publish(job: Job[Any], began: float) -> Meta:
    """Make a build of the files that the stage wrote."""
    step, stage = job.step, job.step.stage
    _share(job.staging)
    return job.store.builds.publish(
        job.staging,
        stage=stage.name,
        version=stage.version,
        key=step.key,
        params=step.params.model_dump(mode="json"),
        in_key=step.params.key_values(),
        seed=step.seed,
        inputs=recorded(job.inputs),
        artifacts=job.outputs,
        seconds=round(time.monotonic() - began, 3),
        notes=job.notes,
        git_commit=git_commit(),
        packages=package_versions(),
        checked=True,
    )


@contextmanager
def _errors_of(step: Step) -> Iterator[None]:
    """Turn errors of packages, files and networks into ours, with the step's name."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingPackageError(
            "engine.stage_needs_package", step=step.name, error=error.name, install_hint=install_hint("all")
        ) from error
    except Exception as error:
        if isinstance(error, NoisyirError) or not is_from_outside(error):
            raise
        ours = in_our_words(error)
        raise type(ours)(f"stage {step.name}: {ours}") from error


@contextmanager
def _staging(step: Step, inputs: Inputs, store: Store) -> Iterator[tuple[Path, Path]]:
    """The folders that a stage writes to and works in; the latter stays after a failure, for a retry."""
    staging = store.work.staging(step.stage.name, step.key)
    work = store.work.folder(step.stage.name, step.key, recorded(inputs))
    try:
        yield staging, work
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    store.work.remove(work)


def _share(folder: Path) -> None:
    """Give files the permissions that the umask allows: some libraries write theirs for this user only."""
    usual = folder.stat().st_mode & 0o666
    for path in folder.rglob("*"):
        if path.is_file() and path.stat().st_mode & 0o666 != usual:
            path.chmod(usual)


def _check_raw(step: Step, inputs: Inputs) -> None:
    """Check that raw inputs still have the digests in the key.

    Raises:
        DataError: If they have changed since, or differ on this machine.
    """
    with own_reading():  # what other processes found is enough to plan with, and not to use the bytes
        found = step.stage.digests(step.params)
    if wrong := [name for name in step.stage.raw if found.get(name) != inputs.get(name)]:
        raise DataError("engine.raw_input_not_run", step=step.name, wrong=" and ".join(wrong))


def recorded(inputs: Inputs) -> dict[str, Any]:
    """Return inputs as a build's meta records them."""

    def plain(value: str | Ref | Mapping[str, Ref]) -> Any:
        if isinstance(value, Ref):
            return asdict(value)
        return value if isinstance(value, str) else {label: asdict(ref) for label, ref in value.items()}

    return {name: plain(value) for name, value in inputs.items()}
