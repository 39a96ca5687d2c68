"""Soundness of a loaded model: missing or non-finite weights are refused; nothing is repaired."""

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from noisyir.base.errors import DataError, NoisyirError
from noisyir.engine.outside_errors import in_our_words, is_lack_of_memory, one_line
from noisyir.models.layout import broken_json

ANEW = "get the model again, or name another"
_LAYERS, _DEEPEST = re.compile(r"(^|_)layers?$"), 1000
_MOST_GROWTH = 1000.0
_COUNTS = ("position_ids", "token_type_ids", "num_batches_tracked")  # integers that are no weights


@contextmanager
def opening(folder: Path, fails: str = "is not a model") -> Iterator[None]:
    """Turn a broken folder's exceptions into a DataError: which folder, what `fails`, why, and what to do."""
    if special := next((path for path in folder.rglob("*") if not path.is_file() and not path.is_dir()), None):
        raise DataError("models.not_a_file", folder=folder, fails=fails, file=special.name, anew=ANEW)
    try:
        _refuse_unbounded(folder, weights=_refuse_whole_numbers(folder))
        yield
    except NoisyirError:
        raise
    except Exception as error:  # transformers, tokenizers and safetensors raise anything
        if is_lack_of_memory(error):
            raise in_our_words(error) from error
        raise DataError(
            "models.unreadable", folder=folder, fails=fails, fault=broken_json(folder) or _said(error), anew=ANEW
        ) from error


def _said(error: Exception) -> str:
    """Return an error's text; transformers refers to a table that is not shown."""
    if "ignore_mismatched_sizes" in str(error):
        return "its weights have other shapes than config.json says"
    return one_line(error)


def _refuse_whole_numbers(folder: Path) -> int:
    """Count the weights; raises ValueError about integer or complex ones, which libraries silently make real."""
    from safetensors import safe_open

    count = 0
    for path in folder.glob("*.safetensors"):
        if not path.is_file():
            continue
        with safe_open(path, "pt") as file:
            types = {name: file.get_slice(name).get_dtype() for name in file.keys() if not name.endswith(_COUNTS)}
        if odd := [name for name, kind in types.items() if kind == "BOOL" or kind[0] in "IUC"]:
            raise ValueError(f"its weights {odd[0]} are of type {types[odd[0]]}, and not real numbers")
        count += len(types)
    return count


def _refuse_unbounded(folder: Path, weights: int) -> None:
    """Refuse, with a ValueError, settings with which loading or tokenising would not end: each was tried."""
    for name, setting in _settings(folder / "config.json"):
        if isinstance(setting, float) and math.isnan(setting):
            raise ValueError(f"config.json: {name} is NaN")
        if _LAYERS.search(name) and isinstance(setting, int) and setting > max(weights, _DEEPEST):
            raise ValueError(f"config.json: {name} is {setting:,}, and the file has {weights:,} weights")
    tokenizer = folder / "tokenizer.json"
    if tokenizer.is_file() and (growth := _growth(json.loads(tokenizer.read_bytes()).get("normalizer"))) > _MOST_GROWTH:
        raise ValueError(f"tokenizer.json: its normalizer makes texts {growth:,.0f} times as long")


def _settings(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (name, value) of all settings in a JSON file, at any depth."""
    left = [("", json.loads(path.read_bytes()) if path.is_file() else {})]
    while left:
        name, value = left.pop()
        if isinstance(value, dict):
            left += value.items()
        elif isinstance(value, list):
            left += [(name, inner) for inner in value]
        else:
            yield name, value


def _growth(normalizer: Any) -> float:
    """Return the most characters that a normalizer's replacements make of one."""
    if not isinstance(normalizer, dict):
        return 1.0
    if normalizer.get("type") == "Sequence":
        return math.prod(map(_growth, normalizer.get("normalizers") or ()))
    if normalizer.get("type") != "Replace":
        return 1.0
    sought, content = (normalizer.get("pattern") or {}).get("String"), len(normalizer.get("content") or "")
    return max(1.0, content / len(sought)) if sought else 1.0 + content  # a regular expression may match nothing


def refuse_broken(folder: Path, model: torch.nn.Module, rows: int, tokenizer_json: str) -> None:
    """Refuse, with a DataError, non-finite weights, or embeddings with fewer rows than the tokenizer's words."""
    for name, weight in model.named_parameters():
        if not bool(torch.isfinite(weight).all()):
            raise DataError("models.weights_not_finite", folder=folder, weights=name, anew=ANEW)
    if rows <= (highest := _highest_word(tokenizer_json)):
        raise DataError("models.too_few_embeddings", folder=folder, rows=rows, words=highest + 1, anew=ANEW)


def refuse_missing(folder: Path, fails: str, missing: list[str]) -> None:
    """Refuse, with a DataError, weights that the file lacks: transformers would initialise them at random."""
    if missing:
        more = ", ..." if len(missing) > 6 else ""
        raise DataError(
            "models.missing_weights", folder=folder, fails=fails, names=", ".join(missing[:6]), more=more, anew=ANEW
        )


@lru_cache(maxsize=4)
def _highest_word(tokenizer_json: str) -> int:
    from tokenizers import Tokenizer

    return max(Tokenizer.from_str(tokenizer_json).get_vocab().values(), default=0)
