"""Options of a server."""

from dataclasses import dataclass
from typing import Literal

from noisyir.engine.runtime import Runtime
from noisyir.models.backends import Backend


@dataclass(frozen=True)
class ServeOptions:
    """Options of a server, the same in each of its processes.

    Args:
        model: A folder, an experiment, a key, or a registered model.
        store: URL of the store; None means the default.
        index: Whether to load the index; None loads it if there is one.
        threads: CPU threads per process; None means all cores, shared.
        wait_ms: Time that a text waits for others while nothing is being computed.
        items: Maximum texts per request.
        tokens: Maximum tokens per request.
        body: Maximum bytes per request.
        waiting: Maximum queued texts.
        key_file: File with one key per line.
        names: Host names of the server besides loopback's.
        cors: Origins of other pages that may send requests.
        follow: Seconds between checks for a new champion.
    """

    model: str
    store: str | None = None
    index: bool | None = None
    backend: Backend = "torch"
    precision: Literal["fp32", "bf16"] = "fp32"
    device: str = "auto"
    threads: int | None = None
    wait_ms: float = 0.0
    items: int = 2048
    tokens: int = 1_000_000
    body: int = 8 << 20
    waiting: int = 8192
    key_file: str | None = None
    names: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    follow: float | None = None
    force: bool = False

    @property
    def cpu_threads(self) -> int:
        """CPU threads of one process."""
        return Runtime(threads=self.threads).cpu_threads
