"""A store on S3 whose server refuses or fails from some request on, or for a while, by the protocol, on loopback."""

import os
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from noisyir.engine.plan import Choice
from noisyir.engine.store import Store
from tests.chaos.case import Case
from tests.chaos.damage import typed
from tests.chaos.kills import command
from tests.chaos.world import Digests, World, run
from tests.s3_server import s3_server

_TO = Choice(to="bm25")
_KINDS = ("PUT refused", "GET refused", "PUT fails a while", "GET fails a while", "all cut off")
_A_WHILE = 2  # requests
_BUCKET = "/bucket"


@dataclass
class _Faulty:
    """The server's application, before which requests fail: those of a method (None: all) from number `after` on."""

    inside: Callable[..., Iterable[bytes]]
    method: str | None = ""
    after: int = 0
    times: int = 0
    answer: str = "403 Forbidden"
    asked: dict[str, int] = field(default_factory=dict)

    def __call__(self, about: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        method = "GET" if about["REQUEST_METHOD"] == "HEAD" else about["REQUEST_METHOD"]
        if not about["PATH_INFO"].startswith(_BUCKET):
            return self.inside(about, start)
        for name in (method, "all"):
            self.asked[name] = self.asked.get(name, 0) + 1
        if self.method in (method, "all") and self.times and self.asked[str(self.method)] > self.after:
            self.times -= 1
            about["wsgi.input"].read(int(about.get("CONTENT_LENGTH") or 0))
            code = "AccessDenied" if self.answer.startswith("403") else "InternalError"
            start(self.answer, [("Content-Type", "application/xml")])
            return [f"<Error><Code>{code}</Code><Message>injected</Message></Error>".encode()]
        return self.inside(about, start)

    def fail(self, method: str, after: int, times: int, answer: str) -> None:
        """Have requests fail from now on."""
        self.method, self.after, self.times, self.answer = method, after, times, answer
        self.asked.clear()


def cases(seed: int, count: int, folder: Path) -> Iterator[Case]:
    """So many faults, by turns of each kind, at random requests."""
    draw, world = random.Random(seed), World.make(folder)
    with _server(folder / "home") as faulty:
        whole = Store("s3://bucket/whole", home=folder / "whole")
        faulty.fail("", 0, 0, "")
        run(world.experiment("reader"), whole, _TO)
        asked, wanted = dict(faulty.asked), _digests(whole)
        for number in range(count):
            kind = _KINDS[number % len(_KINDS)]
            method = "all" if kind.startswith("all") else kind[:3]
            after, a_while = draw.randrange(asked[method]), kind.endswith("while")
            store = Store(f"s3://bucket/{number}", home=folder / str(number))
            faulty.fail(method, after, _A_WHILE if a_while else 10**9, "500 Error" if a_while else "403 Forbidden")
            fault = _fault(world, store, faulty, wanted, must_end_well=a_while)
            yield Case(f"{number}: {kind}, after {after} of {asked[method]}", fault)


def _fault(world: World, store: Store, faulty: _Faulty, wanted: Digests, *, must_end_well: bool) -> str | None:
    words = [*command(world, "reader"), "--to", "bm25", "--store", store.url]
    code, said = typed(*words)
    if code not in (0, 1) or (code and must_end_well) or said.count("noisyir: ") != code or "Traceback" in said:
        return f"ended with {code}, and not in one line: {said[-500:]}"
    faulty.fail("", 0, 0, "")
    code, said = typed(*words)
    if code:
        return f"without faults ended with {code}: {said[-500:]}"
    for orphan in store.orphans(timedelta(seconds=-1)):
        store.remove_folder(orphan)
    if left := store.orphans(timedelta(seconds=-1)):
        return f"orphans that stay: {left}"
    if run(world.experiment("reader"), store, _TO).executed:
        return "something needed went with the orphans"
    return None if _digests(store) == wanted else "other bytes"


def _digests(store: Store) -> Digests:
    assert not any(store.verify(meta) for meta in store.all_builds())
    return {
        f"{meta.stage}/{meta.key}/{artifact}/{name}": digest
        for meta in store.all_builds()
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
