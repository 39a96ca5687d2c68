"""Processes that torchrun began, on one machine or several: this one's place, and calls to the rest.

The first process is the run.  Of each other machine the first process waits, until the run trains, and then begins its
machine's part; all further processes of torchrun return at once, for only who begins processes can end them.
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

    rank, size: of all processes.  local_rank, here: of those on this machine.  node: the number of this machine.
    """

    rank: int
    size: int
    local_rank: int
    here: int
    node: int

    @property
    def first_rank(self) -> int:
        """The rank of this machine's first process."""
        return self.rank - self.local_rank

    @property
    def several_machines(self) -> bool:
        """Whether some of the processes are elsewhere."""
        return self.size > self.here

    def call(self, message: str) -> str:
        """Tell the other machines what is trained now; the name of the meeting of all processes."""
        name = str(self._board.add("calls", 1))
        self._board.set(name, message)
        return name

    def calls(self) -> Iterator[tuple[str, str]]:
        """The first machine's messages, until its run is over, and the name of each meeting.

        NoisyirError when it cannot be reached any more.
        """
        for name in map(str, count(1)):
            if (message := self._next(name)) == _OVER:
                return
            yield name, message

    def meeting(self, name: str) -> "Store":
        """Where the processes of all machines find each other."""
        from torch._C._distributed_c10d import PrefixStore

        return PrefixStore(f"meeting/{name}", self._board)

    def end(self) -> None:
        """Send the other machines home."""
        self.call(_OVER)

    def _next(self, key: str) -> str:
        from torch.distributed import DistNetworkError, DistStoreError

        while True:
            try:
                self._board.wait([key], _ASK_AGAIN)
                return self._board.get(key).decode()
            except DistNetworkError as error:
                raise NoisyirError("engine.first_machine_run_gone") from error
            except DistStoreError:  # nothing was told in this time
                continue

    @cached_property
    def _board(self) -> "Store":
        """The key-value store of torchrun itself, apart for each attempt, which hears nothing of earlier ones."""
        from torch._C._distributed_c10d import PrefixStore, TCPStore

        agent_hosts = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
        hosts = self.rank == 0 and not agent_hosts and parent_process() is None
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = TCPStore(address, port, is_master=hosts, wait_for_workers=False)
        return PrefixStore(f"noisyir/{attempt}", store)


def end_with_agent() -> None:
    """Have this process end when torchrun's agent, which began it, is gone, and say so.

    Else it would train on with the others, whose agents then wait minutes for the one that is gone to end, too.
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
    """The place of this process, where torchrun, or `accelerate launch`, began it with others; else None."""
    if (size := int(os.environ.get("WORLD_SIZE", "1"))) == 1:
        return None
    rank, here = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_WORLD_SIZE", str(size)))
    local, node = int(os.environ.get("LOCAL_RANK", str(rank % here))), int(os.environ.get("GROUP_RANK", "0"))
    return Launched(rank, size, local, here, node)
