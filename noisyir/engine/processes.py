"""Processes that work as one: they begin and end together, and the first failure is reported as the cause."""

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread
from typing import Any, Self

from noisyir.base.errors import NoisyirError

Tell = Callable[[Any], None]

_GRACE = 3.0  # seconds in which the cause of a lost peer comes to light


class PeerLostError(NoisyirError):
    """A process could not reach the others: mostly a consequence of another failure, seldom its cause."""


@dataclass(frozen=True)
class _Failed:
    error: Exception


@dataclass(frozen=True)
class _Returned:
    value: Any


@dataclass(frozen=True)
class _Member:
    rank: int
    process: BaseProcess
    pipe: Connection


def run_together(target: Callable[..., None], count: int, arguments: Sequence[Any], hear: Tell) -> None:
    """Run `target(rank, tell, *arguments)` in `count` new processes until all have returned.

    The first failure ends all processes.  They also end with this process, however it dies.

    Args:
        target: Function of a module.
        hear: Called here with each value that the target passes to `tell`.

    Raises:
        NoisyirError: If a process was killed.  Another error is raised as it was.
    """
    context = get_context("spawn")
    crew: list[_Member] = []
    try:
        for rank in range(count):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(target, rank, theirs, arguments))
            process.start()
            theirs.close()  # so that our end tells when the process is gone
            crew.append(_Member(rank, process, ours))
        _follow(crew, hear)
    finally:
        for member in crew:
            member.process.kill()
        for member in crew:
            member.process.join()
            member.pipe.close()


class Helpers:
    """Processes that stay, each for one call after another; a context manager that ends them.

    Several threads may call at once: each call has an idle or a new process to itself.
    """

    def __init__(self) -> None:
        self._idle: list[_Helper] = []
        self._all: list[_Helper] = []

    def call(self, what: str, target: Callable[..., Any], arguments: Sequence[Any], hear: Tell) -> Any:
        """Return `target(tell, *arguments)` of another process, or raise its error here.

        Args:
            what: Names the work in an error.
            target: Function of a module.
            hear: Called here, before this returns, with each value that the target passes to `tell`.
        """
        try:
            helper = self._idle.pop()
        except IndexError:
            helper = _Helper()
            self._all.append(helper)
        value = helper.call(what, target, arguments, hear)
        self._idle.append(helper)
        return value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for helper in self._all:
            helper.end()


class _Helper:
    def __init__(self) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))
        self._process.start()
        theirs.close()  # so that our end tells when the process is gone

    def call(self, what: str, target: Callable[..., Any], arguments: Sequence[Any], hear: Tell) -> Any:
        """Call as `Helpers.call`; after an error the process is ended, because its state is unknown."""
        try:
            self._pipe.send((target, arguments))
            while not isinstance(message := self._next(what), _Returned):
                if isinstance(message, _Failed):
                    raise message.error
                hear(message)
        except BaseException:
            self.end()
            raise
        return message.value

    def _next(self, what: str) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):  # closed there, or here by who does not wait for it
            self._process.join()
            raise NoisyirError(
                "engine.process_same_command_continues",
                what=what,
                how_it_ended=_how_it_ended(self._process.exitcode or 0),
            ) from None

    def end(self) -> None:
        self._process.kill()
        self._process.join()
        self._pipe.close()


def end_with_parent() -> None:
    """Make this process end if its parent is killed: it would wait for work for ever."""

    def watch() -> None:
        parent = parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    Thread(target=watch, daemon=True).start()


def _work(target: Callable[..., None], rank: int, pipe: Connection, arguments: Sequence[Any]) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c reaches the parent, too, which ends this process
    code = 0
    try:
        target(rank, pipe.send, *arguments)
    except Exception as error:
        pipe.send(_Failed(_portable(error)))
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    # No orderly end: it might wait for ever, and threads of torch's backends may crash as Python goes away.
    os._exit(code)


def _serve(pipe: Connection) -> None:
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-c reaches the parent, too, which ends this process
    with suppress(EOFError, ConnectionError):  # it gets no more work
        while True:
            target, arguments = pipe.recv()
            try:
                pipe.send(_Returned(target(pipe.send, *arguments)))
            except Exception as error:
                pipe.send(_Failed(_portable(error)))


def _portable(error: Exception) -> Exception:
    """Return the error with its traceback as a note; in words if it cannot be pickled."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


def _follow(crew: list[_Member], hear: Tell) -> None:
    """Pass on the processes' messages until all have returned; raise the first cause of failure."""
    at_work, lost, deadline = list(crew), None, 0.0
    while at_work:
        left = None if lost is None else max(0.0, deadline - time.monotonic())
        ready = wait([end for member in at_work for end in (member.pipe, member.process.sentinel)], left)
        if not ready and lost is not None:
            break
        for member in [member for member in at_work if {member.pipe, member.process.sentinel} & set(ready)]:
            failure, ended = _news(member, hear)
            if failure is not None and not isinstance(failure, PeerLostError):
                raise failure
            if failure is not None and lost is None:
                lost, deadline = failure, time.monotonic() + _GRACE
            if failure is not None or ended:
                at_work.remove(member)
    if lost is not None:
        raise lost


def _news(member: _Member, hear: Tell) -> tuple[Exception | None, bool]:
    """Pass on a process's message; return its cause of failure, if any, and whether it has ended."""
    code = member.process.exitcode  # before its last words are read, which then are all
    try:
        while member.pipe.poll():
            message = member.pipe.recv()
            if isinstance(message, _Failed):
                return message.error, True
            hear(message)
    except (EOFError, ConnectionError):
        member.process.join()
        code = member.process.exitcode
    if not code:
        return None, code is not None
    return NoisyirError("engine.process_rank_others_were", rank=member.rank, how_it_ended=_how_it_ended(code)), True


def _how_it_ended(code: int) -> str:
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return how + (", most likely for want of memory" if -code == signal.SIGKILL else "")
