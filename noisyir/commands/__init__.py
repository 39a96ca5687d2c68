"""What each verb of the command line does, one file each: `run(args)` returns the exit code; no work of its own."""

import sys
from argparse import Namespace
from importlib import import_module
from pathlib import Path
from typing import Any

from noisyir.engine import store
from noisyir.engine.store import Store
from noisyir.errors import ConfigError


def open_store(args: Namespace) -> Store:
    """The store named on the command line, or the one in noisyir's home."""
    return store.open_store(args.store)


def prefect_engine(flow: str) -> Any:
    """The module of a flow, which is found by name: the library does not know the orchestrator."""
    if (Path.cwd() / "flows").is_dir():
        sys.path.insert(0, str(Path.cwd()))
    try:
        return import_module(f"flows.{flow}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"--engine prefect needs prefect and noisyir's flows ({error.name} is not importable): run it in a "
            "checkout or the image, after pip install 'noisyir[orchestrate]'; --engine local works anywhere"
        ) from error
