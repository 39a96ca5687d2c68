"""What each verb of the command line does, one file each: `run(args)` returns the exit code."""

from argparse import Namespace

from noisyir import store
from noisyir.store import Store


def open_store(args: Namespace) -> Store:
    """The store named on the command line, or the one in noisyir's home."""
    return store.open_store(args.store)
