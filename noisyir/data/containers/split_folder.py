"""A folder with rows of one data set in files by split: saved by `datasets`, or train.jsonl and dev.jsonl."""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from noisyir.base.errors import DataError
from noisyir.base.settings import Split
from noisyir.data import containers

_STATE, _DICT = "state.json", "dataset_dict.json"  # of a Dataset and of a DatasetDict, as save_to_disk writes them
SPLIT_WORDS: Mapping[str, Split] = {
    "train": "train", "dev": "dev", "val": "dev", "valid": "dev", "validation": "dev", "eval": "dev", "test": "test",
    "training": "train", "testing": "test",
}  # fmt: skip
SPLIT = "split"
_SHARD = re.compile(r"-\d+-of-(\d+)")
_DOUBTFUL = {"neg", "negative", "negatives", "pred", "preds", "prediction", "predictions", "old", "bak", "backup"}


class SplitFile(NamedTuple):
    """One file of the folder, with the split of its rows, if known."""

    path: Path
    suffix: str
    split: str | None


@dataclass(frozen=True)
class SplitFolder:
    """The rows of all files in turn, with a column `split` if the files are split."""

    unit: str = "row"

    def columns(self, path: Path) -> tuple[str, ...]:
        """The columns of all files, and `split`."""
        parts = parts_of(path)
        names = [name for part in parts for name in containers.container(part.suffix).columns(part.path)]
        return tuple(dict.fromkeys([*names, *([SPLIT] if any(part.split for part in parts) else [])]))

    def rows(
        self, path: Path, columns: Sequence[str], check: containers.Check = containers.accept
    ) -> Iterator[containers.Row]:
        """The rows, numbered through from 1."""
        number = 0
        for part in parts_of(path):
            box = containers.container(part.suffix)
            there = set(box.columns(part.path))
            for _, row in box.rows(part.path, [name for name in columns if name in there]):
                number += 1
                split = {SPLIT: part.split} if part.split and SPLIT not in there else {}
                yield number, {name: None for name in columns} | row | split


def parts_of(folder: Path) -> list[SplitFile]:
    """The files with rows."""
    if (folder / _DICT).is_file():
        splits = _json(folder / _DICT).get("splits")
        if not isinstance(splits, list) or not all(isinstance(name, str) for name in splits):
            raise DataError("data.saved_splits_unlisted", folder=folder / _DICT, splits=splits)
        return [part for name in splits for part in _saved(folder / name, SPLIT_WORDS.get(name.lower(), name))]
    if (folder / _STATE).is_file():
        return _saved(folder, None)
    return _by_name(folder) or _by_name(folder / "data")


def is_split_folder(folder: Path) -> bool:
    """Whether a folder holds rows, by the names of its files."""
    saved = (folder / _DICT).is_file() or (folder / _STATE).is_file()
    return saved or bool(_by_name(folder) or _by_name(folder / "data"))


def _saved(folder: Path, split: str | None) -> list[SplitFile]:
    files = _json(folder / _STATE).get("_data_files")
    named = [file.get("filename") for file in files if isinstance(file, dict)] if isinstance(files, list) else []
    names = [name for name in named if isinstance(name, str) and Path(name).name == name]
    if not names or len(names) < len(named):
        raise DataError("data.saved_files_unlisted", folder=folder / _STATE)
    return [SplitFile(folder / name, ".arrow", split) for name in names]


def _by_name(folder: Path) -> list[SplitFile]:
    """Files such as train.jsonl, nq-dev.json and validation-00000-of-00002.parquet, sorted by name."""
    found = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        split, words = split_named(path.name), _words(path.name)
        if split and path.is_file() and any(f".{word}" in containers.SUFFIXES for word in words):
            if suffix := containers.suffix_of(path):
                found.append(SplitFile(path, suffix, split))
    doubtful = [file.path.name for file in found if _DOUBTFUL & {*_words(file.path.name)}]
    if 0 < len(doubtful) < len(found):
        raise DataError("data.doubtful_file", folder=folder, name=doubtful[0])
    shards = Counter((file.split, int(of[1])) for file in found if (of := _SHARD.search(file.path.name)))
    for (named, wanted), there in shards.items():
        if there < wanted:
            raise DataError("data.missing_shards", folder=folder, split=named, of=wanted, count=there)
    return found


def split_named(file: str) -> Split | None:
    """The split that a file's name names, such as dev of qrels.dev.tsv; None without one, or with two."""
    named = {SPLIT_WORDS[word] for word in _words(file) if word in SPLIT_WORDS}
    return named.pop() if len(named) == 1 else None


def _words(file: str) -> list[str]:
    return re.split(r"[^a-z]+", file.lower())


def _json(path: Path) -> dict[str, Any]:
    with DataError.wrapping("data.unreadable_file", OSError, ValueError, path=path):
        value = json.loads(path.read_text("utf-8"))
    if not isinstance(value, dict):
        raise DataError("data.not_one_json_object", path=path, kind=type(value).__name__)
    return value
