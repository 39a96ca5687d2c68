"""Whose turn it is at a GPU: one stage at a time on each, whatever started it."""

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO

from noisyir.config import Runtime

log = logging.getLogger("noisyir")

_ASK_AGAIN_SECONDS = 0.5


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
        wanted = [int(number)] if number else range(runtime.processes)
        with ExitStack() as stack:
            for index in wanted:  # in order, so that two who want several do not wait for each other
                stack.enter_context(free_device(home, names[index : index + 1]))
            yield runtime
    else:
        with free_device(home, names) as index:
            yield runtime.model_copy(update={"device": f"cuda:{index}"})


@contextmanager
def free_device(home: Path, names: Sequence[str]) -> Iterator[int]:
    """Hold the first of these devices that nobody holds, waiting for one; yields its place among them.

    flock on a file in `home` for each: the kernel frees it however the holder dies.  No devices: 0, and none is held.
    """
    folder = home / "devices"
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        files = [stack.enter_context((folder / f"{socket.gethostname()}-{name}").open("a")) for name in names]
        told = False
        while (index := _first_locked(files)) is None:
            if not told:
                log.info("waiting for a GPU: others are at work on %s", ", ".join(names))
            told = True
            time.sleep(_ASK_AGAIN_SECONDS)
        yield index


def _first_locked(files: Sequence[IO[str]]) -> int | None:
    """Lock the first file that can be; its place, or None.  0 for no files."""
    import fcntl

    for index, file in enumerate(files):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            continue
        return index
    return None if files else 0


def _gpus() -> list[str]:
    """The GPUs that torch sees here, by names that other processes of this machine know them by, too."""
    import torch

    return device_names(torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES"))


def device_names(count: int, visible: str | None) -> list[str]:
    """Names of the first `count` devices: what CUDA_VISIBLE_DEVICES calls them, or their numbers."""
    names = [name.strip() for name in (visible or "").split(",") if name.strip()]
    return [f"gpu-{name}" for name in (names or [str(number) for number in range(count)])[:count]]
