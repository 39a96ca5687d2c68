"""Whose turn it is at a GPU: one stage at a time on each, whatever started it."""

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from noisyir.engine.locks import held_one_of
from noisyir.engine.runtime import Runtime


@contextmanager
def own_device(runtime: Runtime, home: Path) -> Iterator[Runtime]:
    """The settings with a GPU that is this stage's alone, once one is free; as they are where no GPU is meant.

    auto and cuda take the first GPU that is free, cuda:1 that one, and several `processes` the first so many.
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
    """Hold the first of these devices that nobody holds, waiting for one; yields its place among them."""
    with held_one_of([home / "devices" / f"{socket.gethostname()}-{name}" for name in names]) as index:
        yield index


def _gpus() -> list[str]:
    """The GPUs that torch sees here, by names that other processes of this machine know them by, too."""
    import torch

    return device_names(torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def device_names(count: int, visible: str | None) -> list[str]:
    """Names of the first `count` devices: what CUDA_VISIBLE_DEVICES calls them, or their numbers."""
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return [f"gpu-{name}" for name in (names or [str(number) for number in range(count)])[:count]]
