"""A file is read for what it says, or refused: each cure that a refusal advises is typed here."""

import json
import re
import shlex
from pathlib import Path

import pytest

from noisyir.app.data_import import Imported, import_data
from noisyir.base.command_line import typed_words
from noisyir.base.errors import DataError
from noisyir.data.collection import Collection

CAT, DOG, MOON = (
    "The cat sat on the mat all day.",
    "The dog ate a large piece of bread.",
    "The moon is above the sea tonight.",
)
ASKED = ("who sat on the mat?", "what did the dog eat?", "where is the moon now?")


def csv(path: Path, *lines: str) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def jsonl(path: Path, *rows: object) -> Path:
    return csv(path, *map(json.dumps, rows))


def typed(path: Path, out: Path, *words: str) -> Imported:
    """`noisyir import PATH` with more words, as on the command line."""
    words = ("import", str(path), *words)
    token = typed_words.set(words)
    try:
        given = dict(zip(words[2::2], words[3::2], strict=True))
        return import_data(str(path), out, columns=given.get("--map"), beside={"corpus": given.get("--corpus")})
    finally:
        typed_words.reset(token)


def commands(told: str) -> list[list[str]]:
    """What follows `noisyir import FILE` in each command that a message advises."""
    return [shlex.split(one)[3:] for one in re.findall(r"noisyir import \S+ --map (?:'[^']*'|\S+)", told)]


def read(found: Imported) -> list[tuple[str, str, int | None]]:
    """Query, document and grade of each pair."""
    tables = Collection.load(found.folder)
    return [
        (example.query, one.text, one.relevance)
        for example in tables.examples(labels=True) for one in example.positives
    ]  # fmt: skip


def test_the_cure_of_a_row_that_is_left_out_is_told_in_whole(tmp_path):
    rows = zip(ASKED, (CAT, DOG, MOON), ("train", "test", "x"), strict=True)
    lines = [f"{asked},{text},{split}" for asked, text, split in rows]
    path = csv(tmp_path / "x.csv", "query,document,split", *lines)
    found = typed(path, tmp_path / "out")
    assert "left out    1: 'split' must be train, dev or test (line 4)" in found.summary
    (cure,) = commands(found.summary)
    assert len(read(typed(path, tmp_path / "out", *cure))) == 3


@pytest.mark.parametrize(("column", "value"), [("weight", "7"), ("pos_scores", "high"), ("split", "hidden")])
def test_the_cure_of_a_wrong_value_is_read_when_it_is_typed(tmp_path, column, value):
    path = csv(tmp_path / "x.csv", f"query,document,{column}", f"{ASKED[0]},{CAT},{value}")
    with pytest.raises(DataError) as caught:
        typed(path, tmp_path / "out")
    (cure,) = commands(str(caught.value))
    assert [text for _, text, _ in read(typed(path, tmp_path / "out", *cure))] == [CAT]
