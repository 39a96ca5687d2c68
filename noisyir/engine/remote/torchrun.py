"""Processes that torchrun began, on one machine or several: the place of this one, and calls to the others.

The first process is the run.  The first process of each other machine waits until the run trains and then starts its
machine's part.  All further processes return at once, because only the process that starts others can end them.
"""

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from itertools import count
from multiprocessing import parent_process
from threading import Thread
from typing import TYPE_CHECKING

from noisyir.base.errors import NoisyirError

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store

_ASK_AGAIN = timedelta(seconds=60)
_OVER = "over"
_LOOK_SECONDS = 1.0


@dataclass(frozen=True)
class Launched:
    """One of torchrun's processes.

    Attributes:
        local_rank, here: Number of this process, and of all, on this machine.
    """

    rank: int
    size: int
    local_rank: int
    here: int
    node: int

    @property
    def first_rank(self) -> int:
        """Rank of this machine's first process."""
        return self.rank - self.local_rank

    @property
    def several_machines(self) -> bool:
        """Whether some of the processes are on other machines."""
        return self.size > self.here

    def call(self, message: str) -> str:
        """Announce the training to the other machines, and return the name of the processes' meeting."""
        name = str(self._board.add("calls", 1))
        self._board.set(name, message)
        return name

    def calls(self) -> Iterator[tuple[str, str]]:
        """Yield the first machine's messages and the name of each meeting until its run is over.

        Raises:
            NoisyirError: If it can no longer be reached.
        """
        for name in map(str, count(1)):
            if (message := self._next(name)) == _OVER:
                return
            yield name, message

    def meeting(self, name: str) -> "Store":
        """Return the address at which the processes of all machines meet."""
        from torch._C._distributed_c10d import PrefixStore

        return PrefixStore(f"meeting/{name}", self._board)

    def end(self) -> None:
        """Tell the other machines that the run is over."""
        self.call(_OVER)

    def _next(self, key: str) -> str:
        from torch.distributed import DistNetworkError, DistStoreError

        while True:
            try:
                self._board.wait([key], _ASK_AGAIN)
                return self._board.get(key).decode()
            except DistNetworkError as error:
                raise NoisyirError("engine.first_machine_run_gone") from error
            except DistStoreError:  # no message came in time
                continue

    @cached_property
    def _board(self) -> "Store":
        """Return torchrun's own key-value store, separate for each attempt."""
        from torch._C._distributed_c10d import PrefixStore, TCPStore

        agent_hosts = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        hosts = self.rank == 0 and not agent_hosts and parent_process() is None
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = TCPStore(address, port, is_master=hosts, wait_for_workers=False)
        return PrefixStore(f"noisyir/{attempt}", store)


def end_with_agent() -> None:
    """Make this process end, with a message, if the torchrun agent that began it is gone.

    Otherwise it would train on with the others, and their agents would wait minutes for the lost one.
    """
    agent = os.getppid()

    def watch() -> None:
        while os.getppid() == agent:
            time.sleep(_LOOK_SECONDS)
        sys.stderr.write("noisyir: torchrun's agent of this machine is gone, and its part of the run ends\n")
        sys.stderr.flush()
        os._exit(1)

    Thread(target=watch, daemon=True, name="agent").start()


def launched() -> Launched | None:
    """Return the place of this process if torchrun or `accelerate launch` began it with others."""
    if (size := int(os.environ.get("WORLD_SIZE", "1"))) == 1:
        return None
    rank, here = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", str(size)))
    local, node = int(os.environ.get("LOCAL_RANK", str(rank % here))), int(os.environ.get("GROUP_RANK", "0"))
    return Launched(rank, size, local, here, node)
