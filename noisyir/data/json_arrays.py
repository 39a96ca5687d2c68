"""A JSON file that is one long array, read item by item: memory holds one item."""

import codecs
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from noisyir.base.errors import DataError
from noisyir.data.leniency import bad_row
from noisyir.data.limits import LINE, said_of
from noisyir.data.text_files import DAMAGED, each_key_once, open_bytes, refuse_half_surrogates
from noisyir.engine.outside_errors import one_line

_READ_AT_ONCE = 1 << 20
_CUT_WORD = 16  # characters before the buffer's end in which a cut word, number or escape fails
_SPACE = " \t\r\n"


def json_array(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number from 1, object) of an array of objects, perhaps packed; any other file is a DataError."""
    return _items(path, _Buffer(path))


def json_array_texts(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (number from 1, text since the object before, text) of each object, and at the end the rest without one."""
    text = _Buffer(path)
    for number, _ in _items(path, text):
        yield number, *text.last_item()
    yield 0, text.rest(), ""


def _items(path: Path, text: "_Buffer") -> Iterator[tuple[int, dict[str, Any]]]:
    if (found := text.peek()) != "[":
        raise DataError("data.json_not_array", path=path, found=found)
    text.skip(1)
    number = 0
    while text.peek() != "]":
        number += 1
        yield from _objects(text, path, number)
        match text.peek():
            case ",":
                text.skip(1)
                if text.peek() == "]":
                    raise DataError("data.json_comma_before_end", path=path, number=number + 1)
            case "]":
                pass
            case found:
                raise DataError("data.json_no_comma", path=path, number=number, found=found)
    text.skip(1)
    if found := text.peek():
        raise DataError("data.json_after_end", path=path, found=found)


def _objects(text: "_Buffer", path: Path, number: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the next item if it is an object of valid text."""
    where = f"{path} item {number}"
    value, may_be_cut = text.item(where)
    try:
        if may_be_cut:
            refuse_half_surrogates(value, where)
        if not isinstance(value, dict):
            raise DataError("data.not_json_object", where=where, kind=type(value).__name__)
    except DataError as error:
        bad_row(f"{path} item", number, error)
    else:
        yield number, value


class _Buffer:
    """The part of a file that was read and not used yet."""

    def __init__(self, path: Path) -> None:
        self._path, self._chunks, self._ended = path, _chunks_of(path), False
        self._text, self._at, self._used, self._last = "", 0, 0, (0, 0)
        self._decoder, self._longest = json.JSONDecoder(object_pairs_hook=each_key_once), LINE.most

    def peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if self._ended:
                return ""
            self._grow()

    def skip(self, count: int) -> None:
        self._at += count

    def item(self, where: str) -> tuple[Any, bool]:
        """The value that starts at the next character, and whether an escape in it may be half of a pair."""
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                self._refuse_unless_cut(error, where)
                self._grow()
                continue
            except RecursionError as error:
                raise DataError("data.invalid_json", fault="nested too deeply", where=where) from error
            except ValueError as error:  # a key that stands twice, or an integer of more digits than Python reads
                raise DataError("data.invalid_json", where=where, fault=said_of(error)) from error
            if end == len(self._text) and not self._ended and not isinstance(value, dict | list | str):
                self._grow()  # a number may go on
                continue
            may_be_cut = max(self._text.find(half, self._at, end) for half in ("\\ud", "\\uD")) >= 0
            self._last = self._used, self._at
            self._used = self._at = end
            return value, may_be_cut

    def last_item(self) -> tuple[str, str]:
        """The text between the item that was just read and the one before, and its own."""
        behind, start = self._last
        return self._text[behind:start], self._text[start : self._used]

    def rest(self) -> str:
        """The text behind the last item."""
        return self._text[self._used :]

    def _refuse_unless_cut(self, error: json.JSONDecodeError, where: str) -> None:
        """Raise DataError unless more text could mend the fault, because the buffer ends within the item."""
        may_go_on = error.msg.startswith("Unterminated string") or error.pos >= len(self._text) - _CUT_WORD
        if self._ended and may_go_on:
            raise DataError("data.json_cut_off", where=where, fault=error.msg) from error
        if not may_go_on:
            fault = f"{error.msg.removesuffix(' at')} at its character {error.pos - self._at}"
            raise DataError("data.invalid_json", where=where, fault=fault) from error
        if len(self._text) - self._at > self._longest:
            raise DataError("data.json_item_too_long", where=where, most=self._longest, remedy=LINE.remedy) from error

    def _grow(self) -> None:
        """Drop the decoded part and read on, more for a longer item: each is decoded a few times at most."""
        rest, wanted = [self._text[self._used :]], max(_READ_AT_ONCE, len(self._text) - self._at)
        while wanted > 0 and not self._ended:
            chunk = next(self._chunks, None)
            self._ended = chunk is None
            rest.append(chunk or "")
            wanted -= len(rest[-1])
        self._text, self._at, self._used = "".join(rest), self._at - self._used, 0


def _chunks_of(path: Path) -> Iterator[str]:
    """The file's text in pieces, without a byte order mark."""
    decoder, offset = codecs.getincrementaldecoder("utf-8-sig")(), 0
    try:
        with open_bytes(path) as handle:
            while raw := handle.read(_READ_AT_ONCE):
                yield decoder.decode(raw)
                offset += len(raw)
            yield decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise DataError("data.not_utf8_near", path=path, byte=offset + error.start) from error
    except DAMAGED as error:
        raise DataError("data.damaged_after_byte", path=path, offset=offset, reason=one_line(error)) from error
