"""Processes that train one model together: their shares of a batch and all messages between them.

All build the same batches and hold the same weights.  Each embeds its share of the texts; vectors are gathered, so
that each sees the whole batch's loss; gradients of weights are summed.  By the chain rule the sum is the gradient
that one process would have.  Without torch's default process group a process is alone and nothing is sent.
"""

import os
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float, Int
from torch import Tensor, distributed, nn
from torch._C._distributed_c10d import FileStore

from noisyir.base.errors import ConfigError, NoisyirError
from noisyir.engine.processes import PeerLostError
from noisyir.engine.remote.torchrun import launched
from noisyir.models.bi_encoder import choose_device
from noisyir.models.text_tokenizer import Tokens
from noisyir.training.batches import Rows

_NONE, _DENSE = -2, -1  # kinds of gradients; a sparse one's kind is its number of rows


@dataclass(frozen=True)
class World:
    """The processes that train one model, and the rank of this one."""

    rank: int = 0
    size: int = 1

    @property
    def alone(self) -> bool:
        """Whether there is only one process."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """Whether this process writes the outputs."""
        return self.rank == 0

    @property
    def stream(self) -> tuple[int, ...]:
        """Addition to a seed that gives each process its own dropout; empty for one process."""
        return () if self.alone else (self.size, self.rank)

    def divide(self, lengths: npt.NDArray[np.integer]) -> "Division":
        """Deal things out by length, longest first, so that all processes get similar shares."""
        if self.alone:
            return Division(self, (np.arange(len(lengths)),))
        order = np.argsort(-lengths, kind="stable")
        return Division(self, tuple(order[rank :: self.size] for rank in range(self.size)))

    def total(self, *values: float) -> list[float]:
        """Sum values over all processes, in float64."""
        if self.alone:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64, device=self._device)
        with _peers():
            distributed.all_reduce(summed)
        return summed.tolist()

    def share_file(self, path: Path) -> None:
        """Copy the first process's file, or its absence, to all processes: machines share no disk."""
        begun = launched()
        if self.alone or begun is None or not begun.several_machines:
            return
        own = np.fromfile(path, np.uint8) if self.leads and path.exists() else np.empty(0, np.uint8)
        (size,) = self.total(len(own))
        content = torch.from_numpy(own) if self.leads else torch.empty(int(size), dtype=torch.uint8)
        content = content.to(self._device)
        with _peers():
            distributed.broadcast(content, 0)
        if self.leads:
            return
        path.unlink(missing_ok=True)
        if size:
            content.cpu().numpy().tofile(path)

    def sum_gradients(self, weights: Iterable[nn.Parameter]) -> None:
        """Sum the gradients of all processes into each weight, bit-identical everywhere.

        A process without a gradient adds nothing; a sparse sum holds each row once, ascending.
        """
        if self.alone:
            return
        weights = list(weights)
        kinds = self._kinds(weights)
        dense = [weight for weight, kind in zip(weights, kinds.amax(dim=0).tolist(), strict=True) if kind == _DENSE]
        for weight in dense:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad.contiguous()
        with _peers():  # at once, and each in its own memory: a common buffer would cost another copy of the model
            for work in [distributed.all_reduce(weight.grad, async_op=True) for weight in dense]:
                work.wait()
        for weight, counts in zip(weights, kinds.T.tolist(), strict=True):
            if max(counts) >= 0:
                weight.grad = self._sum_rows(weight, [max(count, 0) for count in counts])

    def check_agreement(self, weights: Iterable[Tensor]) -> None:
        """Refuse, with a NoisyirError, weights that differ between processes."""
        if self.alone:
            return
        own = torch.stack([weight.detach().double().sum() for weight in weights])
        if any(not torch.equal(own, other) for other in self._gathered(own)):
            raise NoisyirError("training.weights_drifted")

    @property
    def _device(self) -> torch.device:
        """Device of sent tensors: NCCL sends from GPUs only."""
        nccl = distributed.get_backend() == "nccl"
        return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    def _kinds(self, weights: list[nn.Parameter]) -> Int[Tensor, "rank weight"]:
        """Return each process's kind of gradient: none, dense, or its number of rows."""
        own = []
        for weight in weights:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
                own.append(weight.grad.values().shape[0])
            else:
                own.append(_NONE if weight.grad is None else _DENSE)
        return torch.stack(self._gathered(torch.tensor(own, device=weights[0].device)))

    def _sum_rows(self, weight: nn.Parameter, counts: list[int]) -> Tensor:
        """Sum sparse gradients process by process: the order of a sum decides its bits."""
        rows = torch.zeros(max(counts), dtype=torch.int64, device=weight.device)
        values = weight.new_zeros(max(counts), *weight.shape[1:])
        if weight.grad is not None:
            rows[: counts[self.rank]] = weight.grad.indices()[0]
            values[: counts[self.rank]] = weight.grad.values()
        all_rows = [found[:count] for found, count in zip(self._gathered(rows), counts, strict=True)]
        all_values = [found[:count] for found, count in zip(self._gathered(values), counts, strict=True)]
        distinct = torch.unique(torch.cat(all_rows))
        total = weight.new_zeros(len(distinct), *weight.shape[1:])
        for found, value in zip(all_rows, all_values, strict=True):
            total.index_add_(0, torch.searchsorted(distinct, found), value)
        return torch.sparse_coo_tensor(distinct[None], total, weight.shape, is_coalesced=True, check_invariants=False)

    def _gathered(self, own: Tensor) -> list[Tensor]:
        """Return every process's tensor of the same shape, by rank."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        with _peers():
            distributed.all_gather(found, own.contiguous())
        return found


@dataclass(frozen=True)
class Division:
    """A division of things among processes: process r owns those at `rows[r]`."""

    world: World
    rows: tuple[Rows, ...]

    @property
    def own(self) -> Rows:
        """Rows of this process."""
        return self.rows[self.world.rank]

    def tokens(self, tokens: Tokens) -> Tokens:
        """Select the texts of this process."""
        return tokens if self.world.alone else tokens.take(self.own)

    def part(self, whole: Float[Tensor, "all ..."]) -> Float[Tensor, "own ..."]:
        """Select the rows of this process."""
        return whole if self.world.alone else whole[torch.from_numpy(self.own).to(whole.device)]

    def gather(self, own: Float[Tensor, "own ..."]) -> Float[Tensor, "all ..."]:
        """Gather all processes' rows in place, without a graph."""
        own = own.detach()
        if self.world.alone:
            return own
        padded = own.new_zeros(max(map(len, self.rows)), *own.shape[1:])
        padded[: len(own)] = own
        whole = own.new_empty(sum(map(len, self.rows)), *own.shape[1:])
        for rows, found in zip(self.rows, self.world._gathered(padded), strict=True):
            whole[torch.from_numpy(rows).to(own.device)] = found[: len(rows)]
        return whole


def world() -> World:
    """Return the processes of torch's default group, or a world of one."""
    if distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    return World()


@contextmanager
def joined(here: World, device: str, meeting: Path | str, seconds: float) -> Iterator[None]:
    """Join the process group: NCCL with GPUs, else gloo.

    `meeting` is the rendezvous file of one machine or the rendezvous name of several; peers wait at most `seconds`.
    """
    gpu = torch.device(device).type == "cuda"
    if gpu:
        torch.cuda.set_device(torch.device(device))
    begun = launched()
    if begun and isinstance(meeting, str):
        found = begun.meeting(meeting)
    else:
        found = FileStore(str(meeting), here.size)
        loopback = next((name for _, name in socket.if_nameindex() if name.startswith("lo")), "lo")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", loopback)  # never leaves this machine
    with _peers():
        distributed.init_process_group(
            "nccl" if gpu else "gloo", store=found, rank=here.rank, world_size=here.size,
            timeout=timedelta(seconds=seconds),
        )  # fmt: skip
    yield
    distributed.destroy_process_group()  # not after an error: it may wait for peers and hide the error


def device_of(local_rank: int, here: int, setting: str) -> str:
    """Return the device of one of this machine's `here` processes: a GPU each, or the shared CPU.

    Raises:
        ConfigError: If there are too few GPUs or the device cannot be shared.
    """
    device = choose_device(setting)
    if device == "cpu":
        return device
    if device != "cuda":
        raise ConfigError("training.device_not_shared", device=setting)
    if here > (gpus := torch.cuda.device_count()):
        raise ConfigError("training.too_few_gpus", processes=here, gpus=gpus)
    return f"cuda:{local_rank}"


@contextmanager
def _peers() -> Iterator[None]:
    """Turn the backend's error about a lost process into `PeerLostError`."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise PeerLostError("training.lost_peers", error=str(error).splitlines()[0]) from error
