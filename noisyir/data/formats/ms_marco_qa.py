"""MS MARCO's questions, each with the passages that an annotator chose from, as on the Hub (microsoft/ms_marco)."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from noisyir.base.errors import DataError
from noisyir.base.settings import Location
from noisyir.data import shapes
from noisyir.data.examples import Example, Passage, ShapedRows
from noisyir.data.formats import FormatOfRows

_COLUMNS = ("query_id", "query", "passages", "answers")
_TEXT, _CHOSEN = "passage_text", "is_selected"
_NO_ANSWER = "No Answer Present."


class MsMarcoQa(FormatOfRows, kind="ms_marco_qa"):
    """MS MARCO's questions: chosen passages are right, the others of a row are its negatives."""

    path: Location = Field(None, description="the file (jsonl, json array, parquet), or a folder of one each split")

    @classmethod
    def fits(cls, row: Mapping[str, Any]) -> bool:
        """By its passages, one list for each of their fields or one object for each passage."""
        found = row.get("passages")
        first = found[0] if isinstance(found, list) and found else found
        return isinstance(first, Mapping) and {_TEXT, _CHOSEN} <= set(first)

    def open(self, workers: int | None = None) -> ShapedRows:
        """The file's rows."""
        rows = shapes.open_rows("ms_marco_qa", self.path, ("query", "passages"))
        return ShapedRows(rows.path.stem, rows, _COLUMNS, _example)


def _example(row: Mapping[str, Any], where: str) -> Example:
    passages = _passages(row["passages"], where)
    chosen = [shapes.number(one, _CHOSEN, where) == 1 for one in passages]
    texts = [Passage("", shapes.text(one, _TEXT, where)) for one in passages]
    return Example(
        shapes.text(row, "query", where),
        [text for text, is_right in zip(texts, chosen, strict=True) if is_right],
        [text for text, is_right in zip(texts, chosen, strict=True) if not is_right],
        shapes.identity(row, "query_id", where),
        tuple(answer for answer in shapes.texts(row, "answers", where) if answer != _NO_ANSWER),
    )


def _passages(given: Any, where: str) -> Sequence[Mapping[str, Any]]:
    """One object for each passage."""
    if not isinstance(given, Mapping):
        return shapes.objects({"passages": given}, "passages", where)
    texts, chosen = given.get(_TEXT), given.get(_CHOSEN)
    if not (isinstance(texts, list) and isinstance(chosen, list) and len(texts) == len(chosen)):
        expected = f"lists of equal length in {_TEXT} and {_CHOSEN}"
        raise DataError("data.wrong_value", where=where, name="passages", expected=expected, value=given)
    return [{_TEXT: text, _CHOSEN: is_chosen} for text, is_chosen in zip(texts, chosen, strict=True)]
