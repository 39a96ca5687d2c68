"""Several processes that take each step together: who embeds what, and every word that passes between them.

All of them build the same batches and hold the same weights.  Each embeds its share of a batch's texts; vectors are
gathered, so that each sees the loss of the whole batch; gradients of weights are summed.  The sum is the gradient that
one process would have, whatever the loss: the chain rule in two parts, as in gradient caching.  Without torch's
default process group a process is alone, and all of this is nothing.
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

_NONE, _DENSE = -2, -1  # of a gradient, where a sparse one has a number of rows


@dataclass(frozen=True)
class World:
    """The processes that train one model, and which of them this one is."""

    rank: int = 0
    size: int = 1

    @property
    def alone(self) -> bool:
        """Whether there is one process only."""
        return self.size == 1

    @property
    def leads(self) -> bool:
        """Whether this process writes what there is to write."""
        return self.rank == 0

    @property
    def stream(self) -> tuple[int, ...]:
        """Addition to a seed, so that each process draws its own dropout; nothing where there is one."""
        return () if self.alone else (self.size, self.rank)

    def divide(self, lengths: npt.NDArray[np.integer]) -> "Division":
        """Deal things out by their length, longest first, so that all processes have alike."""
        if self.alone:
            return Division(self, (np.arange(len(lengths)),))
        order = np.argsort(-lengths, kind="stable")
        return Division(self, tuple(order[rank :: self.size] for rank in range(self.size)))

    def total(self, *values: float) -> list[float]:
        """The sums over all processes, in float64."""
        if self.alone:
            return list(values)
        summed = torch.tensor(values, dtype=torch.float64, device=self._device)
        with _peers():
            distributed.all_reduce(summed)
        return summed.tolist()

    def share_file(self, path: Path) -> None:
        """Leave in every process's place what the first one has there, a file or none: machines share no disk."""
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
        """Leave in each weight the sum of all processes' gradients, of the same bits in each.

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
        """NoisyirError when the processes no longer hold the same weights."""
        if self.alone:
            return
        own = torch.stack([weight.detach().double().sum() for weight in weights])
        if any(not torch.equal(own, other) for other in self._gathered(own)):
            raise NoisyirError("training.training_processes_weights_drifted")

    @property
    def _device(self) -> torch.device:
        """Where what is sent must lie: NCCL sends what lies on a GPU."""
        nccl = distributed.get_backend() == "nccl"
        return torch.device("cuda", torch.cuda.current_device()) if nccl else torch.device("cpu")

    def _kinds(self, weights: list[nn.Parameter]) -> Int[Tensor, "rank weight"]:
        """Each process's share of each gradient: none, a dense one, or the number of its rows."""
        own = []
        for weight in weights:
            if weight.grad is not None and weight.grad.is_sparse:
                weight.grad = weight.grad.coalesce()
                own.append(weight.grad.values().shape[0])
            else:
                own.append(_NONE if weight.grad is None else _DENSE)
        return torch.stack(self._gathered(torch.tensor(own, device=weights[0].device)))

    def _sum_rows(self, weight: nn.Parameter, counts: list[int]) -> Tensor:
        """The sum of sparse gradients of whole rows, process by process: the order of a sum decides its bits."""
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
        """Every process's tensor of the same shape, by rank."""
        found = [torch.empty_like(own) for _ in range(self.size)]
        with _peers():
            distributed.all_gather(found, own.contiguous())
        return found


@dataclass(frozen=True)
class Division:
    """A division of things among processes: process r has those at `rows[r]`, and nobody else has them."""

    world: World
    rows: tuple[Rows, ...]

    @property
    def own(self) -> Rows:
        """The rows of this process; all, in order, where it is alone."""
        return self.rows[self.world.rank]

    def tokens(self, tokens: Tokens) -> Tokens:
        """The texts of this process."""
        return tokens if self.world.alone else tokens.take(self.own)

    def part(self, whole: Float[Tensor, "all ..."]) -> Float[Tensor, "own ..."]:
        """The rows of this process, of what all have."""
        return whole if self.world.alone else whole[torch.from_numpy(self.own).to(whole.device)]

    def gather(self, own: Float[Tensor, "own ..."]) -> Float[Tensor, "all ..."]:
        """The rows of all processes in their places, without a graph."""
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
    """The processes of torch's default group; one where there is none."""
    if distributed.is_available() and distributed.is_initialized():
        return World(distributed.get_rank(), distributed.get_world_size())
    return World()


@contextmanager
def joined(here: World, device: str, meeting: Path | str, seconds: float) -> Iterator[None]:
    """Be one of several processes; NCCL where there are GPUs, else gloo.

    meeting: the file at which those of one machine find each other, or the name of a meeting of several machines.
    seconds: the longest that they wait for one another.
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
    distributed.destroy_process_group()  # not after an error: it may wait for peers, and what is wrong must be told


def device_of(local_rank: int, here: int, setting: str) -> str:
    """The device of one of the processes of this machine: a GPU of its own, or the CPU that all share.

    here: how many processes this machine has.  ConfigError when there are too few GPUs.
    """
    device = choose_device(setting)
    if device == "cpu":
        return device
    if device != "cuda":
        raise ConfigError("training.runtime_processes_runtime_device", setting=setting)
    if here > (gpus := torch.cuda.device_count()):
        raise ConfigError("training.processes_machine_need_many", here=here, gpus=gpus)
    return f"cuda:{local_rank}"


@contextmanager
def _peers() -> Iterator[None]:
    """Turn the backend's error for a process that is gone, or that does not answer, into one in words."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, torch.OutOfMemoryError):
            raise
        raise PeerLostError("training.training_process_lost_others", splitlines=str(error).splitlines()[0]) from error
