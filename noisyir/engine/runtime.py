"""The machine that a pipeline runs on; nothing here changes results."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Literal

from pydantic import Field, PositiveFloat, PositiveInt

from noisyir.base.settings import Params
from noisyir.engine.locks import held_one_of


class FanOut(Params):
    """Who makes shards of stages that map over them and, with several steps at once, whole steps."""

    engine: Literal["none", "ray"] = Field("none", description="none: the process that runs the stage")
    workers: PositiveInt = Field(2, description="of a cluster started here for the run; one that is there has its own")
    address: str | None = Field(None, description="of a cluster that is there; null: one is started on this machine")
    memory_gb: PositiveFloat | None = Field(None, description="that Ray sets aside for each worker; null: nothing")


class Runtime(Params):
    """Settings of the machine: they change results by rounding only, so they are in no key."""

    device: str = Field("auto", description="cpu, cuda, cuda:1, ...; auto takes a GPU when there is one")
    threads: PositiveInt | None = Field(None, description="CPU threads; null: all")
    batch_tokens: PositiveInt | Literal["auto"] | None = Field(
        None,
        description="tokens in one inference batch, padding included; auto: what fits into a GPU; null: 32768, and by "
        "transformers on a CPU 4096",
    )
    compile: bool = Field(False, description="have torch compile transformers for training; needs a compiler")
    checkpoint_seconds: PositiveFloat = Field(60.0, description="least time between two checkpoints of training")
    processes: PositiveInt = Field(1, description="that share each batch of training; of GPUs each takes its own")
    steps_at_once: PositiveInt = Field(1, description="steps side by side, in processes that share the threads")
    fan_out: FanOut = FanOut()
    peer_seconds: PositiveFloat = Field(600.0, description="longest that training processes wait for one another")
    disk_check: bool = Field(True, description="refuse a run that by its last builds does not fit on the store's disk")
    java_heap: str = Field("4g", pattern="^[0-9]+[kmgKMG]$", description="largest heap of the JVM that Lucene runs in")

    @property
    def cpu_threads(self) -> int:
        """Return the number of CPU threads to use: as set, or one a core."""
        return self.threads or os.cpu_count() or 1


def default_home() -> Path:
    """Return `$NOISYIR_HOME`, or `.noisyir` in the current folder."""
    return Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()


@contextmanager
def own_device(runtime: Runtime, home: Path) -> Iterator[Runtime]:
    """Yield settings with a GPU that only this stage uses, once one is free; unchanged if no GPU is meant.

    auto and cuda take the first free GPU, cuda:1 that one, and several `processes` the first n.
    """
    kind, _, number = runtime.device.partition(":")
    names = _gpus() if kind in ("auto", "cuda") else []
    if not names:
        yield runtime
    elif runtime.processes > 1 or number:
        wanted = slice(int(number), int(number) + 1) if number else slice(runtime.processes)
        with ExitStack() as stack:
            # in order, so that two who want several do not wait for each other; one that is not there fails later
            for name in names[wanted]:
                stack.enter_context(free_device(home, [name]))
            yield runtime
    else:
        with free_device(home, names) as index:
            yield runtime.model_copy(update={"device": f"cuda:{index}"})


@contextmanager
def free_device(home: Path, names: Sequence[str]) -> Iterator[int]:
    """Hold the first free device of these, waiting for one; yields its index."""
    with held_one_of([home / "devices" / f"{socket.gethostname()}-{name}" for name in names]) as index:
        yield index


def _gpus() -> list[str]:
    """Return the GPUs that torch sees, by names that are the same in all processes of this machine."""
    import torch

    return device_names(torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def device_names(count: int, visible: str | None) -> list[str]:
    """Return names of the first `count` devices: as CUDA_VISIBLE_DEVICES names them, or their numbers."""
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return [f"gpu-{name}" for name in (names or [str(number) for number in range(count)])[:count]]
