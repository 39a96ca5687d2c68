"""What to do where memory runs out."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from noisyir.errors import ConfigError

_LESS = {"ranker": "lists_at_once", "retriever": "chunk_size", "reader": "questions_at_once"}


@contextmanager
def memory_advice(model: str) -> Iterator[None]:
    """Turn torch's error for want of memory into one that says what to set."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in str(error):
            raise
        raise ConfigError(
            f"a step of the {model} needs more memory than there is: set {_LESS[model]}, gradient_checkpointing=true, "
            f"precision=bf16, a smaller batch size or n ({str(error).splitlines()[0]})"
        ) from error
