"""Soundness of a model that was loaded: what is missing in it, or not a number, is refused; nothing is repaired."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from noisyir.engine.outside_errors import one_line
from noisyir.errors import DataError, NoisyirError
from noisyir.models.layout import broken_json

_COUNTS = ("position_ids", "token_type_ids", "num_batches_tracked")  # whole numbers that are no weights


ANEW = "get the model anew, or name another"


@contextmanager
def opening(folder: Path, fails: str = "is not a model") -> Iterator[None]:
    """Make whatever a broken folder raises a DataError: which folder, what `fails`, why, and what to do."""
    if special := next((path for path in folder.rglob("*") if not path.is_file() and not path.is_dir()), None):
        raise DataError(f"{folder} {fails}: {special.name} is a pipe, a device or a broken link: {ANEW}")
    try:
        _refuse_whole_numbers(folder)
        yield
    except NoisyirError:
        raise
    except Exception as error:  # transformers, tokenizers and safetensors raise what they like
        raise DataError(f"{folder} {fails}: {broken_json(folder) or _said(error)}: {ANEW}") from error


def _said(error: Exception) -> str:
    """An error's text; transformers points to a table that is not shown."""
    if "ignore_mismatched_sizes" in str(error):
        return "its weights have other shapes than config.json says"
    return one_line(error)


def _refuse_whole_numbers(folder: Path) -> None:
    """ValueError for weights that are whole or complex numbers, which libraries turn into real ones without a word."""
    from safetensors import safe_open

    for path in folder.glob("*.safetensors"):
        if not path.is_file():
            continue
        with safe_open(path, "pt") as file:
            types = {name: file.get_slice(name).get_dtype() for name in file.keys() if not name.endswith(_COUNTS)}
        if odd := [name for name, kind in types.items() if kind == "BOOL" or kind[0] in "IUC"]:
            raise ValueError(f"its weights {odd[0]} are of type {types[odd[0]]}, and not real numbers")


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
        more = ", ..." if len(missing) > 6 else ""
        raise DataError(f"{folder} {fails}: its file has no {', '.join(missing[:6])}{more}: {ANEW}")


def _numbers_of_words(tokenizer_json: str) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_str(tokenizer_json).get_vocab().values()
