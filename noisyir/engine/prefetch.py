"""Work that a pool does before its result is needed."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def prefetched(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], count: int) -> Iterator[Result]:
    """Yield `work(item)` for each item in order, while the pool works on the next `count` items."""
    hand = deque[Future[Result]]()
    for item in items:
        hand.append(pool.submit(work, item))
        if len(hand) > count:
            yield hand.popleft().result()
    while hand:
        yield hand.popleft().result()
