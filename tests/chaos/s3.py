"""A store on S3 whose server refuses, fails or says nothing from some request on, or for a while, on loopback."""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

from noisyir.engine.plan import Choice
from noisyir.engine.remote.copies import SECONDS
from noisyir.engine.store import Store
from tests.chaos.case import Case
from tests.chaos.damage import typed
from tests.chaos.kills import command
from tests.chaos.world import Digests, World, run
from tests.s3_server import s3_server

_TO = Choice(to="bm25")
_ALWAYS, _A_WHILE = 10**9, 2  # requests
_REFUSED, _FAILS, _SILENT = "403 Forbidden", "500 Error", ""
_KINDS: dict[str, tuple[str, int, str]] = {  # method, how many requests, answer
    "PUT refused": ("PUT", _ALWAYS, _REFUSED),
    "GET refused": ("GET", _ALWAYS, _REFUSED),
    "PUT fails a while": ("PUT", _A_WHILE, _FAILS),
    "GET fails a while": ("GET", _A_WHILE, _FAILS),
    "all cut off": ("all", _ALWAYS, _REFUSED),
    "PUT fails for good": ("PUT", _ALWAYS, _FAILS),
    "no answer to a PUT": ("PUT", _ALWAYS, _SILENT),
    "no answer": ("all", _ALWAYS, _SILENT),
}
_PATIENCE = "2"  # seconds that a first answer is waited for; others twice as long, and eight times
_LONGEST = 240.0  # seconds that a run may take that gets no answer: five requests' patience, with the client's pauses
_BUCKET = "/bucket"


@dataclass
class _Faulty:
    """The server's application, before which requests fail: those of a method, or all, from number `after` on."""

    inside: Callable[..., Iterable[bytes]]
    method: str = ""
    after: int = 0
    times: int = 0
    answer: str = _REFUSED
    go_on: Event = field(default_factory=Event)
    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, about: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        method = "GET" if about["REQUEST_METHOD"] == "HEAD" else about["REQUEST_METHOD"]
        if not about["PATH_INFO"].startswith(_BUCKET):
            return self.inside(about, start)
        for name in (method, "all"):
            self.asked[name] = self.asked.get(name, 0) + 1
        if self.method in (method, "all") and self.times and self.asked[self.method] > self.after:
            self.times -= 1
            if self.answer == _SILENT:
                self.go_on.wait()
            about["wsgi.input"].read(int(about.get("CONTENT_LENGTH") or 0))
            code = "AccessDenied" if self.answer.startswith("403") else "InternalError"
            start(self.answer or _FAILS, [("Content-Type", "application/xml")])
            if about["REQUEST_METHOD"] == "HEAD":
                return []
            return [f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()]
        return self.inside(about, start)

    def fail(self, method: str, after: int, times: int, answer: str) -> None:
        """Have requests fail from now on."""
        self.method, self.after, self.times, self.answer = method, after, times, answer
        self.asked.clear()
        self.go_on.set()  # those that got no answer until now
        self.go_on = Event()


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many faults, by turns of each kind, at random requests."""
    draw, world = random.Random(seed), World.make(folder)
    with _server(folder / "home") as faulty:
        whole = Store("s3://bucket/whole", home=folder / "whole")
        faulty.fail("", 0, 0, "")
        run(world.task("reader"), whole, _TO)
        asked, wanted = dict(faulty.asked), _digests(whole)
        for number in range(count):
            kind = list(_KINDS)[number % len(_KINDS)]
            method, times, answer = _KINDS[kind]
            after = draw.randrange(asked[method])
            store = Store(f"s3://bucket/{number}", home=folder / str(number))
            faulty.fail(method, after, times, answer)
            fault = _fault(world, store, faulty, wanted, must_end_well=times == _A_WHILE)
            yield Case(f"{number}: {kind}, after {after} of {asked[method]}", fault)


def _fault(world: World, store: Store, faulty: _Faulty, wanted: Digests, *, must_end_well: bool) -> str | None:
    words = [*command(world, "reader"), "--to", "bm25", "--store", store.url]
    began = time.monotonic()
    if faulty.answer == _SILENT:
        os.environ[SECONDS] = _PATIENCE
    code, said = typed(*words)
    os.environ.pop(SECONDS, None)
    if (took := time.monotonic() - began) > _LONGEST:
        return f"took {took:.0f} s, and then ended with {code}: {said[-300:]}"
    if code not in (0, 1) or (code and must_end_well) or said.count("noisyir: ") != code or "Traceback" in said:
        return f"ended with {code}, and not in one line: {said[-500:]}"
    faulty.fail("", 0, 0, "")
    code, said = typed(*words)
    if code:
        return f"without faults ended with {code}: {said[-500:]}"
    for orphan in store.builds.orphans(timedelta(seconds=-1)):
        store.builds.remove_folder(orphan)
    if left := store.builds.orphans(timedelta(seconds=-1)):
        return f"orphans that stay: {left}"
    if run(world.task("reader"), store, _TO).executed:
        return "something needed went with the orphans"
    return None if _digests(store) == wanted else "other bytes"


def _digests(store: Store) -> Digests:
    assert not any(store.builds.verify(meta) for meta in store.builds.all())
    return {
        f"{meta.stage}/{meta.key}/{artifact}/{name}": digest
        for meta in store.builds.all()
        for artifact, contents in meta.artifacts.items()
        for name, (_, digest) in contents.files.items()
    }


@contextmanager
def _server(home: Path) -> Iterator[_Faulty]:
    made: list[_Faulty] = []

    def between(inside: Callable[..., Iterable[bytes]]) -> _Faulty:
        made.append(_Faulty(inside))
        return made[0]

    before = os.environ.get("NOISYIR_HOME")
    with s3_server(between):
        os.environ["NOISYIR_HOME"] = str(home)
        try:
            yield made[0]
        finally:
            os.environ.pop("NOISYIR_HOME")
            if before is not None:
                os.environ["NOISYIR_HOME"] = before
