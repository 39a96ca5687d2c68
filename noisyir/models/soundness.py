"""Whether a model folder can be used: what is wrong with it is said in one line, whichever library notices it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from noisyir.engine.outside_errors import one_line
from noisyir.errors import DataError, NoisyirError

ANEW = "get the model anew, or name another"


@contextmanager
def opening(folder: Path, fails: str = "is not a model") -> Iterator[None]:
    """Make whatever a broken folder raises a DataError: which folder, what `fails`, why, and what to do."""
    if special := next((path for path in folder.rglob("*") if not path.is_file() and not path.is_dir()), None):
        raise DataError(f"{folder} {fails}: {special.name} is a pipe, a device or a broken link: {ANEW}")
    try:
        yield
    except NoisyirError:
        raise
    except Exception as error:  # transformers, tokenizers and safetensors raise what they like
        raise DataError(f"{folder} {fails}: {one_line(error)}: {ANEW}") from error


def refuse_broken(folder: Path, model: torch.nn.Module, rows: int, tokenizer_json: str) -> None:
    """DataError for weights that are not finite, or embeddings with fewer rows than the tokenizer has words."""
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise DataError(f"{folder}: the weights {name} hold NaN or infinity: {ANEW}")
    highest = max(_numbers_of_words(tokenizer_json), default=0)
    if rows <= highest:
        raise DataError(f"{folder}: the embeddings have {rows:,} rows for {highest + 1:,} words: {ANEW}")


def refuse_missing(folder: Path, fails: str, missing: list[str]) -> None:
    """DataError for weights that the file lacks: transformers would make them up."""
    if missing:
        more = ", ..." if len(missing) > 3 else ""
        raise DataError(f"{folder} {fails}: its file has no {', '.join(missing[:3])}{more}: {ANEW}")


def _numbers_of_words(tokenizer_json: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(tokenizer_json).get_vocab().values()
