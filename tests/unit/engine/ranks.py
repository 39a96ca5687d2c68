"""What processes that work as one do in tests, in a module that each of them loads quickly."""

import atexit
import os
import signal
import time

from noisyir.base.errors import DataError
from noisyir.engine.processes import PeerLostError
from tests.local import until


class AwkwardError(Exception):
    """An error that cannot be made again from its message."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def tell_all(rank, tell, words):
    for word in words:
        tell((rank, word))


def leave_pid(rank, folder):
    """Write the process's number, whole or not at all."""
    (folder / f"arriving{rank}").write_text(str(os.getpid()))
    (folder / f"arriving{rank}").rename(folder / f"pid{rank}")


def fail_in_rank_1(rank, tell, how, folder):
    """Rank 1 ends in a way of its own while rank 0 waits for ever; or both have lost each other."""
    leave_pid(rank, folder)
    if rank == 0 and how != "peers":
        time.sleep(600)
    if how == "peers":
        raise PeerLostError(f"rank {rank} is alone")
    if how == "error":
        raise DataError("the loss is nan")
    if how == "awkward":
        raise AwkwardError("this", "that")
    if how == "exit":
        os._exit(7)
    os.kill(os.getpid(), signal.SIGKILL)


def lose_peer_then_die(rank, tell, folder):
    """What a kill looks like where the survivor is the first to speak."""
    if rank == 0:
        read(folder / "pid1")
        raise PeerLostError("rank 0 is alone")
    leave_pid(rank, folder)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)


def crash_when_python_goes_away(rank, tell):
    """What threads of a library do that still run then."""
    atexit.register(os.abort)
    tell(rank)


def wait_for_ever(rank, tell, folder):
    leave_pid(rank, folder)
    time.sleep(600)


def read(path):
    until(path.exists)
    return int(path.read_text())
