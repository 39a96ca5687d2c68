"""Leases on an object store: locks between machines that share nothing else.

A lease is a small file that its holder rewrites while it lives.  If it was not rewritten for longer than it was taken
for, by the clock of the store, it is dead and the next machine takes it over.  The former holder may only be slow: the
write that it announced is barred first, and its next announcement is refused, so it cannot overwrite its successor.

Conditional writes are what leases rest on: in S3, PUT with If-None-Match creates a file once, and PUT with If-Match
replaces only the version that was read.
Source: https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
"""

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from uuid import uuid4

from noisyir.base.durations import seconds_of
from noisyir.base.errors import StoreError
from noisyir.engine.locks import WaitNotice, about_this_process, holder_in
from noisyir.engine.outside_errors import is_from_outside
from noisyir.engine.remote.copies import first_answer_seconds

log = logging.getLogger("noisyir")

SECONDS = "NOISYIR_LEASE_SECONDS"  # after which a holder that says nothing counts as dead
_USUAL, _BEATS = "60", 4  # heartbeats in that time
_LOOK_AGAIN = 1.0
_DAY = 86400.0
BARRED = b"barred: who announced this file lost its lease before it was written\n"
_REFUSED = ("PreconditionFailed", "ConditionalRequestConflict", "NoSuchKey", "409", "412")


class LeaseLostError(StoreError):
    """Another machine took a lease over, because this process was silent for too long."""


class StoredFile(NamedTuple):
    """A file as it was read.

    Attributes:
        tag: Identifies these bytes.
        age: Seconds since it was written, by the server's clock.
    """

    body: bytes
    tag: str
    age: float


class ConditionalFiles:
    """Files in an S3 file system of fsspec; no two bodies of one file may be equal, because a tag is of bytes."""

    def __init__(self, fs: Any) -> None:
        self._fs = fs

    def read(self, path: str) -> StoredFile | None:
        """Return the file; None if there is none."""
        from fsspec.asyn import sync

        bucket, key, _ = self._fs.split_path(path)

        async def get() -> tuple[bytes, Any]:
            answer = await self._fs._call_s3("get_object", Bucket=bucket, Key=key)
            async with answer["Body"] as stream:
                return await stream.read(), answer

        try:
            body, answer = sync(self._fs.loop, get)
        except FileNotFoundError:
            return None
        date = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
        now = parsedate_to_datetime(date) if date else datetime.now(UTC)
        return StoredFile(body, answer["ETag"], (now - answer["LastModified"]).total_seconds())

    def create(self, path: str, body: bytes) -> str | None:
        """Create a file and return its tag; None if it exists."""
        return self._put(path, body, IfNoneMatch="*")

    def replace(self, path: str, body: bytes, tag: str) -> str | None:
        """Replace the file with this tag and return the new tag; None if the file has another tag now."""
        return self._put(path, body, IfMatch=tag)

    def are_kept_apart(self, path: str) -> bool:
        """Return whether the server heeds the conditions, tried on a file of that name; older ones ignore them."""
        self.create(path, b"tried")
        return self.create(path, b"tried again") is None and self.replace(path, b"tried again", '"0"') is None

    def _put(self, path: str, body: bytes, **condition: str) -> str | None:
        bucket, key, _ = self._fs.split_path(path)
        try:
            tag: str = self._fs.call_s3("put_object", Bucket=bucket, Key=key, Body=body, **condition)["ETag"]
        except OSError as error:
            if not _refused(error):
                raise
            # An answer may have been lost, and the file be refused for what the first attempt has written.
            return found.tag if (found := self.read(path)) and found.body == body else None
        return tag


class Lease:
    """A lease that this process holds and renews by heartbeats until it ends."""

    def __init__(self, files: ConditionalFiles, path: str, home: str, name: str) -> None:
        self._files, self._path, self.name = files, path, name
        self._seconds = seconds_of(os.environ.get(SECONDS) or _USUAL)
        self._about = {**about_this_process(), "home": home, "seconds": self._seconds, "holder": uuid4().hex}
        self._beat, self._tag, self._announced, self._lost = 0, "", "", False
        self._one_at_a_time, self._over = Lock(), Event()

    def take(self, found: StoredFile | None) -> bool:
        """Take a free or dead lease; False if another was faster."""
        if found and (announced := json.loads(found.body).get("announced")):
            self._files.create(announced, BARRED)
        body = self._body()
        tag = self._files.replace(self._path, body, found.tag) if found else self._files.create(self._path, body)
        self._tag = tag or ""
        return tag is not None

    def beat(self) -> None:
        """Renew the lease now and then; runs in a thread."""
        while not self._over.wait(self._seconds / _BEATS):
            with if_there():
                self._renew()
            if self._lost and not self._over.is_set():
                log.warning("%s was taken over by another machine, for this process did not answer in time", self.name)
                return

    def announce(self, path: str) -> None:
        """Announce the file that is written next, so that a successor can bar it.

        Raises:
            LeaseLostError: If there is a successor.
        """
        self._announced = path
        self.check()

    def check(self) -> None:
        """Check that this process still holds the lease.

        Raises:
            LeaseLostError: If it does not.
        """
        self._renew()
        if self._lost:
            raise LeaseLostError(
                "engine.taken_over_while_process", name=self.name, seconds=self._seconds, seconds_2=SECONDS
            )

    def end(self) -> None:
        """Release the lease."""
        self._over.set()
        _in_passing(lambda: self._renew(free=True))  # where that fails, it dies by itself

    def _renew(self, *, free: bool = False) -> None:
        with self._one_at_a_time:
            if not self._lost:
                tag = self._files.replace(self._path, self._body(free=free), self._tag)
                self._tag, self._lost = tag or "", tag is None

    def _body(self, *, free: bool = False) -> bytes:
        self._beat += 1
        announced = "" if free else self._announced
        return json.dumps({**self._about, "beat": self._beat, "announced": announced, "free": free}).encode()


class Leases:
    """Leases of one store as one home sees them; a process first holds the lock of a lease's name in its home.

    So a lease of this home is dead if its lock is free, and no one waits for it.
    """

    def __init__(self, files: ConditionalFiles, fs: Any, root: str, home: Path) -> None:
        self._files, self._fs, self._folder, self._home = files, fs, f"{root}/.leases", _id_of(home)

    @contextmanager
    def held(self, name: str, wait: float | None = None) -> Iterator[tuple[Lease, bool]]:
        """Hold a lease as soon as it is free; yields it, and whether another home had to be waited for.

        Args:
            wait: Seconds after which StoreError is raised; None: $NOISYIR_WAIT, or never.
        """
        lease, patience = Lease(self._files, self._at(name), self._home, name), self._patience([name], wait)
        waited = False
        while not self._took(lease, name):
            patience.wait_a_moment(_LOOK_AGAIN)
            waited = True
        Thread(target=lease.beat, daemon=True, name=f"lease {name}").start()
        try:
            yield lease, waited
        finally:
            lease.end()

    @contextmanager
    def shared(self, name: str) -> Iterator[None]:
        """Hold a lease together with others that share it, while no one holds it exclusively."""
        own, patience = f"{name}.shared/{uuid4().hex}", self._patience([name], None)
        try:
            with self.held(own):  # before the look at who is alone, who looks at these afterwards: one sees the other
                while self._lives(self._files.read(self._at(name))):
                    patience.wait_a_moment(_LOOK_AGAIN)
                yield
        finally:
            _in_passing(lambda: self._fs.rm_file(self._at(own)))

    @contextmanager
    def alone(self, name: str, wait: float | None) -> Iterator[Lease]:
        """Hold a lease exclusively; sharers that arrive during the wait are let in."""
        sharing: list[str] = []
        patience = self._patience(sharing, wait)
        while True:
            with self.held(name, wait) as (lease, _):
                sharing[:] = self._sharing(name)
                if not sharing:
                    yield lease
                    return
            patience.wait_a_moment(_LOOK_AGAIN)

    def is_held(self, name: str) -> bool:
        """Return whether a process of another home holds the lease."""
        found = self._files.read(self._at(name))
        return self._lives(found) and not self._is_ours(found)

    def sweep(self) -> None:
        """Delete files of leases that ended or died more than a day ago."""
        for path in self._fs.find(self._folder):
            if (found := self._files.read(path)) and found.age > _DAY:
                self._fs.rm_file(path)

    def _took(self, lease: Lease, name: str) -> bool:
        found = self._files.read(self._at(name))
        return (not self._lives(found) or self._is_ours(found)) and lease.take(found)

    def _sharing(self, name: str) -> list[str]:
        paths = self._fs.find(self._at(f"{name}.shared"))
        found = {path: self._files.read(path) for path in paths}
        return [
            path[len(self._folder) + 1 :] for path, one in found.items() if self._lives(one) and not self._is_ours(one)
        ]

    def _at(self, name: str) -> str:
        return f"{self._folder}/{name}"

    def _lives(self, found: StoredFile | None) -> bool:
        about = json.loads(found.body) if found else {"free": True}
        return not about["free"] and found is not None and found.age <= about["seconds"]

    def _is_ours(self, found: StoredFile | None) -> bool:
        return found is not None and json.loads(found.body)["home"] == self._home

    def _patience(self, names: list[str], wait: float | None) -> WaitNotice:
        def holders() -> Mapping[str, str]:
            found = {name: self._files.read(self._at(name)) for name in names}
            return {name.partition(".")[0]: holder_in(one.body if one else "") for name, one in found.items()}

        return WaitNotice(holders, wait)


def _in_passing(ask: Callable[[], None]) -> None:
    """Ask the store something dispensable, and wait no longer than for a first answer."""

    def asked() -> None:
        with if_there():
            ask()

    asking = Thread(target=asked, daemon=True)
    asking.start()
    asking.join(first_answer_seconds())


@contextmanager
def if_there() -> Iterator[None]:
    """Ignore an error that a short absence of the store explains: no other machine reaches it either."""
    try:
        yield
    except Exception as error:
        if not is_from_outside(error):
            raise


def _id_of(home: Path) -> str:
    """Return an id of this home that differs from all homes, also from copies of it on other machines."""
    path = home / ".id"
    home.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        arriving = home / f".id.{uuid4().hex}"
        arriving.write_text(uuid4().hex)
        try:
            os.link(arriving, path)
        finally:
            arriving.unlink()
    boot = Path("/proc/sys/kernel/random/boot_id")  # without it, only names distinguish hosts
    return f"{path.read_text()}-{boot.read_text().strip() if boot.exists() else ''}-{socket.gethostname()}"


def _refused(error: OSError) -> bool:
    about = getattr(error.__cause__, "response", None) or {}
    return isinstance(error, FileExistsError) or about.get("Error", {}).get("Code") in _REFUSED
