"""Requests of many clients, computed together and away from the event loop."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, NamedTuple, TypeVar

from noisyir.base.errors import NoisyirError

Item = TypeVar("Item")
Result = TypeVar("Result")


class OverloadedError(NoisyirError):
    """More is waiting than a server takes."""


class _Waiting(NamedTuple, Generic[Item, Result]):
    item: Item
    size: int
    found: "asyncio.Future[Result]"


class Batcher(Generic[Item, Result]):
    """Computes items of several callers in batches, in one thread.

    Args:
        compute: Function from items to results in order; an exception among them answers its item alone.
        most: Largest total size of a batch of several items.
        wait: Seconds that an incomplete batch waits for more items.
        longest: Largest total size of queued items.
        tell: Function called with the size of each batch.
    """

    def __init__(
        self,
        compute: Callable[[Sequence[Item]], Sequence[Result | Exception]],
        *,
        most: int,
        wait: float,
        longest: int,
        tell: Callable[[int], None] = lambda size: None,
    ) -> None:
        self._compute, self._most, self._wait, self._longest, self._tell = compute, most, wait, longest, tell
        self._queue: deque[_Waiting[Item, Result]] = deque()
        self._size = 0  # of all in the queue
        self._running: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1)

    async def __call__(self, item: Item, size: int = 1) -> Result:
        """Compute an item.

        Raises:
            OverloadedError: If too much is waiting already.
        """
        if self._size and self._size + size > self._longest:
            raise OverloadedError("serving.overloaded", size=self._size)
        found: asyncio.Future[Result] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(item, size, found))
        self._size += size
        if self._running is None:
            self._running = asyncio.create_task(self._run())
        return await found

    async def _run(self) -> None:
        try:
            while self._queue:
                if self._size < self._most and self._wait:
                    await asyncio.sleep(self._wait)
                if batch := self._next_batch():
                    await self._answer(batch)
        finally:
            self._running = None

    def _next_batch(self) -> list[_Waiting[Item, Result]]:
        """The first items of the queue, without cancelled ones."""
        batch: list[_Waiting[Item, Result]] = []
        size = 0
        while self._queue and (not batch or size + self._queue[0].size <= self._most):
            first = self._queue.popleft()
            self._size -= first.size
            if not first.found.cancelled():
                batch.append(first)
                size += first.size
        return batch

    async def _answer(self, batch: list[_Waiting[Item, Result]]) -> None:
        results: Sequence[Result | Exception]
        self._tell(sum(waiting.size for waiting in batch))
        try:
            items = [waiting.item for waiting in batch]
            results = await asyncio.get_running_loop().run_in_executor(self._thread, self._compute, items)
        except Exception as error:  # each of them gets it, and the server goes on
            results = [error] * len(batch)
        for waiting, result in zip(batch, results, strict=True):
            if waiting.found.cancelled():
                continue
            if isinstance(result, Exception):
                waiting.found.set_exception(result)
            else:
                waiting.found.set_result(result)
