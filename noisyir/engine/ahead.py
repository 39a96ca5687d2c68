"""Work that a pool does ahead of who uses it."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def done_ahead(pool: Executor, work: Callable[[Item], Result], items: Iterable[Item], count: int) -> Iterator[Result]:
    """`work` of every item, in their order, while the pool has the next `count` in hand."""
    hand = deque[Future[Result]]()
    for item in items:
        hand.append(pool.submit(work, item))
        if len(hand) > count:
            yield hand.popleft().result()
    while hand:
        yield hand.popleft().result()
