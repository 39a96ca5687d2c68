"""ms-swift's rows for embedding models and rerankers: texts as messages of a chat."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data import shapes
from noisyir.data.collection import Collection
from noisyir.data.containers import write_rows
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats import FormatOfRows
from noisyir.data.leniency import not_kept

_QUERY, _RIGHT = "messages", "positive_messages"
_WRONG = ("negative_messages", "rejected_messages")


class Swift(FormatOfRows, kind="swift"):
    """ms-swift's rows; label 0 judges a pair wrong."""

    written: ClassVar[str | None] = ".jsonl"
    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its messages."""
        return _QUERY in row and bool({_RIGHT, *_WRONG} & set(row))

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows."""
        rows = shapes.open_rows("swift", self.path, (_QUERY,))
        return ShapedRows(rows.path.stem, rows, (_QUERY, _RIGHT, *_WRONG, "label"), _example)

    @classmethod
    def write(cls, collection: Collection, target: Path) -> None:
        """A row a pair with the query's negatives, titles before texts; ids, scores, weights and grades are dropped."""
        write_rows(target, _rows(collection), nested=True)


def _example(row: Mapping[str, Any], where: str) -> Example:
    """The query's messages but the system's; without positive ones, the assistant's answer is the document."""
    asked = shapes.objects(row, _QUERY, where)
    right = _chats(row, _RIGHT, where)
    if not right and len(asked) > 1 and asked[-1].get("role") == "assistant":
        asked, right = asked[:-1], [asked[-1:]]
    query = [shapes.text(one, "content", where) for one in asked if one.get("role") != "system"]
    judged = _label(row.get("label"), where)
    if len(query) < len(asked):
        not_kept("a system message, which is no part of a query")
    return Example(
        "\n".join(query),
        [_passage(chat, where)._replace(relevance=judged) for chat in right],
        [_passage(chat, where) for name in _WRONG for chat in _chats(row, name, where)],
    )


def _chats(row: Mapping[str, Any], name: str, where: str) -> list[Sequence[Mapping[str, Any]]]:
    """Several lists of messages, or a single one."""
    value = row.get(name) or []
    chats = value if isinstance(value, list) and value and isinstance(value[0], list) else [value] if value else []
    return [shapes.objects({name: chat}, name, where) for chat in chats]


def _passage(chat: Sequence[Mapping[str, Any]], where: str) -> Passage:
    """The last message; earlier ones repeat the query."""
    return Passage("", shapes.text(chat[-1], "content", where) if chat else "")


def _label(value: Any, where: str) -> int | None:
    if value is None or value in (0, 1):
        return None if value is None else int(value)
    raise DataError("data.wrong_value", where=where, name="label", expected="1 (right) or 0 (wrong)", value=value)


def _rows(collection: Collection) -> Iterator[dict[str, Any]]:
    for example in collection.examples():
        wrong = [[_message(passage)] for passage in example.negatives]
        for passage in example.positives:
            query = {_QUERY: [{"role": "user", "content": example.query}]}
            split = {"split": example.split} if example.split != "train" else {}
            yield {**query, _RIGHT: [[_message(passage)]], **({_WRONG[0]: wrong} if wrong else {}), **split}


def _message(passage: Passage) -> dict[str, str]:
    return {"role": "user", "content": shapes.joined(passage)}
