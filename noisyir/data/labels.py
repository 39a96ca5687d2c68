"""The column that says how right a pair is: its name, the meaning of its values, and the words for both."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from noisyir.base.command_line import with_columns
from noisyir.base.errors import DataError
from noisyir.data.row_files import RowFile, known_words, plain_name
from noisyir.data.spelt import list_in, number_in

_NAMES, _WORDS = known_words("labels"), known_words("words")
LABELS, SCALES = _NAMES["judging"], _NAMES["measuring"]
MEANINGFUL = frozenset({*LABELS, *SCALES})
_OF_INFERENCE, _INFERENCE, _GRADES, _RANKS, _LOW, _OF_OTHERS, _WRONG = (
    frozenset(_NAMES[what]) for what in ("of_inference", "inference", "grades", "ranks", "low", "of_others", "wrong")
)
_GRADE_OF = {word: grade for grade, what in enumerate(("no_label", "not_right", "right"), -1) for word in _WORDS[what]}
_MEASURES = _LOW.union(_NAMES["measures"])
_HINTS, _OPPOSITES = _MEASURES.union(_NAMES["hints"]), _WRONG.union(_NAMES["opposites"])
JUDGING = MEANINGFUL | _WRONG | {*_NAMES["keys"], *(f"is_{name}" for name in _HINTS | _OPPOSITES)}
_VARIANT = r"(choice|option|ending|answer|sol|solution|response|completion|output|reply|ref|human_ref)_?[0-9a-e]"
CHOICES = re.compile(rf"choices|options|endings|{_VARIANT}|b")
_PLACE = re.compile(r"-1|[a-j]|\d\d?")
_COMMON, _MILD = (frozenset(_WORDS[what]) for what in ("common", "mild"))
_PEEKED = 1000  # rows by which the meaning of the values is found
_MOST_SHOWN = 6  # values in a message
_EMPTY = ("nan", "null", "[]")
_UNREAD = (None, "leaves it unread, and all pairs count as right")
_READING = re.compile(r"(?:\s*(?P<sign>[<>])=\s*(?P<cut>-?\d+(?:\.\d+)?)|:(?P<right>.+))?", re.DOTALL)

Readings = Sequence[tuple[str | None, str]]
Hint = tuple[str, str, Readings]  # a column, the doubt about its meaning, and its readings


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels, and how its values are read.

    Args:
        names: Names of its numbers, by the file's schema.
        right: The right values, if they are named.
        cut: The sign > or < and the last right number, if a scale is cut.
        binary: Whether numbers beyond -1, 0 and 1 are not understood.
        marks: Whether its values mark right pairs, so that an empty cell is not right.
        spans: Whether it holds answers as `datasets` has SQuAD's: without a text the document does not answer.
        said: The meaning of its first values.
    """

    column: str
    names: tuple[str, ...] = ()
    right: frozenset[str] = frozenset()
    cut: tuple[str, float] | None = None
    binary: bool = False
    marks: bool = False
    spans: bool = False
    said: str = ""

    def grade(self, value: object, where: str) -> int | None:
        """The judgement in a cell: above 0 is right, -1 has no label; None if the cell is empty."""
        if self.spans:
            return 0 if isinstance(value, Mapping) and not value.get("text") else None
        if not (word := _word(value)):
            return 0 if self.marks else None
        named = self.named(word)
        number, grade = number_in(named), _GRADE_OF.get(named)
        if self.right:
            return int(bool(self.right & {word, named, *([str(value).lower()] if isinstance(value, bool) else [])}))
        if self.cut is not None:
            sign, last = self.cut
            grade = None if number is None else int(number >= last if sign == ">" else number <= last)
        elif grade is None and number is not None and number.is_integer() and (abs(number) <= 1 or not self.binary):
            grade = int(number)
        if grade is None:
            column, path = self.column, Path(where.rsplit(" ", 2)[0])
            right, null = (with_columns({"label": one}, path) for one in (f"{column}:{word}", None))
            raise DataError("data.wrong_mapped_label", where=where, column=column, value=value, right=right, null=null)
        return grade

    def named(self, word: str) -> str:
        """The name of a number by the schema, else the word itself."""
        place = int(word) if word.isdecimal() else -1
        return _word(self.names[place]) if 0 <= place < len(self.names) else word

    def describing(self, file: RowFile) -> "LabelColumn":
        """The same, with the meaning of the file's first values in words."""
        words = _first_words(file, [self.column])[self.column]
        is_part_empty = any(not _word(row[self.column]) for row in file.first([self.column], _PEEKED))
        meant: dict[str, list[str]] = {"not right": [], "right": [], "no label": []}
        for word in words:
            with suppress(DataError):  # its row is refused when it is read
                grade, named = self.grade(word, self.column) or 0, self.named(word)
                none = grade < 0 and (bool(self.names) or named in _GRADE_OF)
                shown = word if named == word else f"{word} ({named})"
                meant["no label" if none else "right" if grade > 0 else "not right"].append(shown)
        said = "; ".join(f"{_shown(shown)} = {what}" for what, shown in meant.items() if shown)
        if self.cut is not None:
            (right, wrong), last = (("above", "below") if self.cut[0] == ">" else ("below", "above")), self.cut[1]
            said = f"{last:g} and {right} = right, {wrong} = not right"
        if words and is_part_empty:
            said += f"; empty = {'not right' if self.marks else 'no label, right in dev and test'}"
        return replace(self, said=f"{self.column}: {said or f'empty in the first {_PEEKED:,} rows'}")


def labels_of(file: RowFile, used: Collection[str], given: Mapping[Any, str | None]) -> LabelColumn | None:
    """How a file's column of labels is read; None if it has none, or the user wants none read.

    An unclear meaning is a DataError, with the command for each reading.

    Args:
        used: Columns that are read as something else.
        given: The user's own mapping; its `label` is a column or a reading: `label:0`, `score>=0.5`, `distance<=2`.
    """
    if (asked := given.get("label", "")) is None:
        return None
    if asked:
        column, right, cut = parsed(asked, file.columns)
        found = LabelColumn(column, file.class_names().get(column, ()), right, cut)
        marks = bool(right) and all(found.grade(word, column) for word in _first_words(file, [column])[column])
        return replace(found, marks=marks).describing(file)
    free = {plain_name(name): name for name in file.columns if name not in used}
    judging = [free[name] for name in LABELS if name in free]
    measuring = [free[name] for name in SCALES if name in free and given.get(name, name) is not None]
    if not (columns := judging or measuring):
        if (spans := _spans_in(file, free.get("answers"))) or not (hints := [*_hints(file, free)]):
            return spans
        raise _unclear(file, hints, used)
    words = _first_words(file, columns[:1])[columns[0]]
    found = LabelColumn(columns[0], file.class_names().get(columns[0], ()), binary=True)
    doubt, readings = _doubt(found, words, {plain_name(name) for name in file.columns})
    if len(judging) > 1:
        raise _unclear(file, [(name, "", [(name, f"reads {name}")]) for name in judging], used)
    if judging and (choices := [*filter(CHOICES.fullmatch, free)]) and all(map(str.isdecimal, words)):
        doubt = f"or be the place of the right one in {free[choices[0]]!r}"
        readings = [(columns[0], "takes 0 for not right, and above for right")]
    if doubt:
        raise _unclear(file, [(columns[0], doubt, readings)], used)
    return replace(found, binary=plain_name(found.column) not in _GRADES).describing(file)


def holds_judgements(file: RowFile, column: str) -> bool:
    """Whether the first values are few words such as accept, or places of choices such as B, and so no documents."""
    words, other = _first_words(file, [column])[column], map(plain_name, {*file.columns} - {column})
    places = filter(_PLACE.fullmatch, words) if any(map(CHOICES.fullmatch, other)) else ()
    return 0 < len(words) <= _MOST_SHOWN and {*_GRADE_OF, "-1", "0", "1", *places}.issuperset(words)


def is_judgement(text: str) -> bool:
    """Whether a text is a number, or a word that judges."""
    return number_in(text) is not None or _word(text) in _GRADE_OF


def _spans_in(file: RowFile, column: str | None) -> LabelColumn | None:
    """The column, if it holds objects with texts of answers and their places."""
    cells = [row[column] for row in file.first([column], _PEEKED)] if column else []
    if column and cells and all(isinstance(cell, Mapping) and {"text", "answer_start"} <= set(cell) for cell in cells):
        return LabelColumn(column, spans=True, said=f"{column}: without a text = not right")
    return None


def _unclear(file: RowFile, hints: Sequence[Hint], used: Collection[str]) -> DataError:
    """The error for columns that may judge; one that lists more values than documents has no reading."""
    rows = [{name: len(cell) for name, cell in row.items() if isinstance(cell, list)}
            for row in file.first([*(column for column, *_ in hints), *used])]  # fmt: skip
    read = [
        hint for hint in hints if all(row.get(hint[0], 0) < 2 or row[hint[0]] in map(row.get, used) for row in rows)
    ]
    column, doubt, _ = (read or hints)[0]
    if len(read) != 1:
        doubt = f"and so may {read[1][0]!r}" if read else "but lists several values where one can be read"
    readings = [one for *_, each in read for one in each]
    told = [f"{with_columns({'label': name}, file.path)} {what}" for name, what in [*readings, _UNREAD]]
    return DataError("data.unclear_label", file=file.path, column=column, doubt=doubt, readings="; ".join(told))


def _hints(file: RowFile, free: Mapping[str, str]) -> Iterator[Hint]:
    """Yield columns that call pairs wrong by a part of their names, or by their words alone, with the doubt."""
    if free.get("", file.columns[0]) != file.columns[0] and holds_judgements(file, free[""]):
        raise DataError("data.nameless_columns", file=file.path)
    for column, words in _first_words(file, [name for plain, name in free.items() if plain]).items():
        parts, names = {plain_name(column), *re.split(r"[._]", plain_name(column))}, file.class_names().get(column, ())
        parts |= {part.removesuffix("s") for part in parts}
        ranks = {rank for word in words if (rank := number_in(word)) is not None} if parts & _RANKS else set[float]()
        if len(ranks) > 1:
            best = f"{min(ranks):g}"
            yield column, f"ranks from {best}", [(f"{column}:{best}", f"takes {best} alone for right")]
            continue
        named = [LabelColumn(column, names).named(word) for word in words]
        marked = len(named) == 1 and len(named[0]) == 1 and named[0] not in _COMMON and not named[0].isdecimal()
        grades = {_GRADE_OF.get(word, number_in(word)) for word in named if not marked}
        all_wrong = grades == {0} and not _MILD & {*named}
        by_words = ({0, 1} <= grades or all_wrong) and not _COMMON & {*named}
        is_many = len(words) > _MOST_SHOWN and (not parts & _MEASURES or parts & _OF_OTHERS)
        if (None in grades and not by_words) or is_many or ("id" in parts and not parts & _MEASURES):
            continue
        is_flag = marked or all(word in _COMMON or number_in(word) is not None for word in named)
        shown = f"for it holds {_shown(words)}"
        if parts & _OPPOSITES and is_flag and (marked or grades - {0}):
            zero = "|".join(word for word, name in zip(words, named, strict=True) if _GRADE_OF.get(name) == 0) or "0"
            how = f"takes {zero} alone for right" if 0 in grades else f"takes {_shown(words)} for not right"
            yield column, shown, [(f"{column}:{zero}", how)]
            continue
        asks = parts & _HINTS or column.rstrip().endswith(("?", "\uff1f"))
        if by_words or (asks and (marked or 0 in grades or (parts & _MEASURES and len(grades) > 1))):
            doubt, readings = _doubt(LabelColumn(column, names), words, set())
            yield column, doubt or shown, readings or [(column, f"reads {column}")]


def parsed(asked: str, columns: Sequence[str]) -> tuple[str, frozenset[str], tuple[str, float] | None]:
    """Column, right values, sign and last right number of `label`, `label:0|2`, `score>=0.5` or `distance<=2`."""
    for name in sorted(columns, key=len, reverse=True):
        if asked.startswith(name) and (found := _READING.fullmatch(asked[len(name) :])):
            right = frozenset(map(_word, found["right"].split("|"))) if found["right"] else frozenset[str]()
            return name, right, (found["sign"], float(found["cut"])) if found["sign"] else None
    return asked, frozenset(), None


def _doubt(found: LabelColumn, words: Sequence[str], columns: Set[str]) -> tuple[str, Readings]:
    """Why the meaning of these values is not clear, and the possible readings; nothing if it is clear."""
    column, named = found.column, [found.named(word) for word in words]
    numbers = {number for name in named if (number := number_in(name)) is not None}
    unknown = [name for name in named if number_in(name) is None and name not in _GRADE_OF]
    if unknown:
        known = "|".join(name for name in named if _GRADE_OF.get(name) == 1)
        right = [known] if known else [f"{max(numbers):g}"] if numbers else unknown[:_MOST_SHOWN]
        right = [one for one in right if not one.startswith("{")]  # objects are not typed
        return f"for it holds {_shown(words)}", [(f"{column}:{one}", f"takes {one} alone for right") for one in right]
    if any(not number.is_integer() for number in numbers) or (numbers and min(numbers) > 0 and numbers != {1}):
        low, high = min(numbers), max(numbers)
        cut = 0.5 if 0 <= low < 0.5 < high <= 1 else round((low + high) / 2, 2)
        sign, side = ("<=", "below") if _LOW & {*re.split(r"[._]", plain_name(column))} else (">=", "above")
        how = f"takes {cut:g} and {side} for right; choose the cut"
        return f"a scale from {low:g} to {high:g}", [(f"{column}{sign}{cut:g}", how)]
    is_graded, inference = plain_name(column) in _GRADES, columns & _INFERENCE and plain_name(column) in _OF_INFERENCE
    plain = numbers <= {0, 1} or numbers <= {-1, 1} or (found.names and numbers <= {-1})
    if is_graded or not numbers or (plain and (not inference or numbers == {-1})):
        return "", ()
    readings = [(column, "takes 0 for not right, and above for right")]
    if plain_name(column) in _OF_INFERENCE:
        readings.append((f"{column}:0", "takes 0 alone for right, as NLI has entailment"))
    return f"for it holds {_shown(words)}", readings


def _first_words(file: RowFile, columns: Sequence[str]) -> dict[str, list[str]]:
    """The distinct values of each column's first rows, sorted."""
    rows, found = file.first(columns, _PEEKED), {}
    for column in columns:
        cells = (list_in(one) or [one] if isinstance(one, str) else one for one in (row[column] for row in rows))
        listed = chain.from_iterable(one if isinstance(one, list) else [one] for one in cells)
        words = {word for value in listed if (word := _word(value))}
        found[column] = sorted(words, key=lambda word: (number_in(word) or 0, word))
    return found


def _word(value: object) -> str:
    """A value in the form in which values are compared; empty if there is none; a list of one is that one."""
    if isinstance(value, str) and value.startswith("[") and len(found := list_in(value) or []) == 1:
        value = found[0]
    text = " ".join(str(int(value) if isinstance(value, bool) else "" if value is None else value).lower().split())
    if (number := number_in(text)) is not None:
        return str(int(number)) if number.is_integer() else repr(number)
    return "" if text in _EMPTY else re.sub(r"[ _-]+", " ", text).strip(" .!") or text


def _shown(words: Sequence[str]) -> str:
    return ", ".join(f"{word:.30}" for word in words[:_MOST_SHOWN]) + (", .." if len(words) > _MOST_SHOWN else "")
