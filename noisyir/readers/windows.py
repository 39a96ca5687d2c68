"""Windows of passages that are too long to be read at once; lengths and places are in tokens."""

import numpy as np
from jaxtyping import Bool, Int

Places = Int[np.ndarray, " place"]


def window_starts(length: int, room: int, stride: int) -> Places:
    """Where windows of `room` tokens begin, so that they cover a passage and neighbours share `stride` tokens.

    The last ends with the passage, and shares more.  At most half of a window is shared.
    """
    if length <= room:
        return np.zeros(1, np.int64)
    step = room - min(stride, room // 2)
    return np.append(np.arange(0, length - room, step), length - room)


def window_around(
    first: Places, stop: Places, length: Places, room: Places
) -> tuple[Places, Bool[np.ndarray, " place"]]:
    """For each span, the window of its passage that has it nearest to the middle, and whether it holds all of it.

    Windows are those of `window_starts` that share half their tokens: a span of half a window is always held.
    """
    step, end = room - room // 2, np.maximum(length - room, 0)
    ideal = np.clip((first + stop - room) / 2, 0, end)
    before = np.floor(ideal / step).astype(np.int64) * step
    after = np.minimum(before + step, end)
    start = np.where(after - ideal < ideal - before, after, before)
    return start, (start <= first) & (stop <= start + room)
