"""The base of all settings: frozen, strict about names, and in a key only if they differ from defaults."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
LearningRate = Annotated[float, Field(gt=0.0, le=10.0)]  # a larger one is a typing error
Split = Literal["train", "dev", "promotion", "test"]
AuditedSplit = Literal["train", "dev", "test"]
PROMOTION: Split = "promotion"
"""Queries for the gate of promotion alone: searched and scored like dev and test, shown nowhere."""
HELD_OUT: tuple[Split, ...] = ("dev", PROMOTION, "test")
OF_A_GROUP = "of_a_group"  # kind of an error that names its setting itself
_TOO_LARGE = 10**18  # counts fit into 64 bits
_LOCATION = "location"
Location = Annotated[str | None, _LOCATION]
Locations = Annotated[str | tuple[str, ...] | None, _LOCATION]


def with_promotion(splits: Sequence[Split]) -> tuple[Split, ...]:
    """These splits, with promotion if one of them is held out."""
    return tuple(dict.fromkeys((*splits, PROMOTION))) if {*HELD_OUT} & {*splits} else tuple(splits)


@dataclass(frozen=True)
class ReadWhen:
    """Metadata of a setting that is read only if another setting has one of these values."""

    setting: str
    values: tuple[str, ...]


class Params(BaseModel):
    """Frozen settings that refuse unknown keys: a misspelt setting is an error, never a default."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
    renamed: ClassVar[Mapping[str, str]] = {}  # old name to present name

    @classmethod
    def parse(cls, values: Any) -> Self:
        """The settings in these values, or pydantic's ValidationError."""
        return cls.model_validate(values)

    def key_values(self) -> dict[str, Any]:
        """Settings that decide the result and differ from their class's defaults, as JSON.

        A release that adds a setting changes no key; one that changes a default changes its stage's version.
        Locations are left out, because their content enters the key; settings that are not read, too (`ReadWhen`).
        """
        fields = type(self).model_fields.items()
        read = {name: (getattr(self, name), field) for name, field in fields if self._reads(field)}
        return {name: _key_part(value) for name, (value, field) in read.items() if _says_something(value, field)}

    @model_validator(mode="before")
    @classmethod
    def _kinds_by_default(cls, values: Any) -> Any:
        """Add the default kind to groups of settings without a kind."""
        if not isinstance(values, dict):
            return values
        kinds = {name: getattr(field.default, "kind", None) for name, field in cls.model_fields.items()}
        unnamed = [name for name, kind in kinds.items() if kind and isinstance(values.get(name), dict)]
        return values | {name: {"kind": kinds[name], **values[name]} for name in unnamed}

    @model_validator(mode="before")
    @classmethod
    def _switches_are_no_numbers(cls, values: Any) -> Any:
        """Refuse huge numbers, and true and false for numbers, which pydantic takes for 1 and 0."""
        if not isinstance(values, dict):
            return values
        for name, field in cls.model_fields.items():
            kinds = _types_in(field.annotation)
            if isinstance(values.get(name), bool) and kinds & {int, float} and bool not in kinds:
                raise _is_no_such_number(name, f"is a number, not {str(values[name]).lower()}")
            if isinstance(values.get(name), int) and abs(values[name]) >= _TOO_LARGE:
                raise _is_no_such_number(name, "must be a number of at most 18 digits")
        return values

    @property
    def revised(self) -> bool:
        """Whether these settings changed their meaning, so that they enter a key even as a default."""
        return False

    def _reads(self, field: FieldInfo) -> bool:
        conditions = [found for found in field.metadata if isinstance(found, ReadWhen)]
        return _LOCATION not in field.metadata and all(
            getattr(self, found.setting) in found.values for found in conditions
        )

    @classmethod
    def locations(cls) -> list[str]:
        """The fields with locations of raw input; its content enters the key as a digest instead."""
        return [name for name, field in cls.model_fields.items() if _LOCATION in field.metadata]


def _is_no_such_number(name: str, said: str) -> PydanticCustomError:
    """An error at the place of the setting's group."""
    return PydanticCustomError(OF_A_GROUP, "{name} {said}", {"name": name, "said": said})


P = TypeVar("P", bound=Params)


def places_of(params: Params, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(dotted name, value) of every location of raw input, nested groups included."""
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        if _LOCATION in field.metadata:
            given = value if isinstance(value, tuple) else (value,) if value else ()
            yield from ((f"{prefix}{name}", place) for place in given)
        else:
            for label, inner in _groups_in(value):
                yield from places_of(inner, f"{prefix}{name}{label}.")


def with_places(params: P, move: Callable[[str], str]) -> P:
    """The settings with raw input at other places, or the same object if `move` changes none."""
    changed: dict[str, Any] = {}
    for name, field in type(params).model_fields.items():
        value = getattr(params, name)
        moved = _moved(value, move, is_place=_LOCATION in field.metadata)
        if moved is not value:
            changed[name] = moved
    return params.model_copy(update=changed) if changed else params


def _moved(value: Any, move: Callable[[str], str], *, is_place: bool) -> Any:
    if isinstance(value, str) and is_place:
        there = move(value)
        return value if there == value else there
    if isinstance(value, Params):
        return with_places(value, move)
    if isinstance(value, tuple):
        parts = tuple(_moved(inner, move, is_place=is_place) for inner in value)
        return value if all(one is other for one, other in zip(parts, value, strict=True)) else parts
    if isinstance(value, dict):
        named = {name: _moved(inner, move, is_place=False) for name, inner in value.items()}
        return value if all(named[name] is inner for name, inner in value.items()) else named
    return value


def _groups_in(value: Any) -> Iterator[tuple[str, Params]]:
    """(suffix of the setting's name, group) of every group in a setting."""
    named = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, tuple) else ()
    if isinstance(value, Params):
        yield "", value
    yield from ((f".{name}", inner) for name, inner in named if isinstance(inner, Params))


def _types_in(annotation: Any) -> set[Any]:
    """The plain types of an annotation such as `Annotated[int, ...] | None`."""
    inner = get_args(annotation)
    return set().union(*map(_types_in, inner)) if inner else {annotation} if isinstance(annotation, type) else set()


def _says_something(value: Any, field: FieldInfo) -> bool:
    default = field.get_default(call_default_factory=True)
    if type(value) is not type(default):
        return True
    if isinstance(value, Params):
        return value.revised or value.key_values() != default.key_values()
    return bool(value != default)


def _key_part(value: Any) -> Any:
    """A setting as JSON; nested settings by their differences from defaults."""
    match value:
        case Params():
            return value.key_values()
        case dict():
            return {str(name): _key_part(inner) for name, inner in value.items()}
        case list() | tuple():
            return [_key_part(inner) for inner in value]
        case _:
            return value


def merged(settings: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Settings with changes: groups are merged, all else is replaced, and so is a group of another kind."""
    result = dict(settings)
    for name, value in changes.items():
        before = as_group(result.get(name))
        both = isinstance(value, dict) and before is not None and value.get("kind") in (None, before.get("kind"))
        result[name] = merged(before, value) if both and before is not None else value
    return result


def as_group(value: Any) -> dict[str, Any] | None:
    """A group of settings, perhaps given by its kind alone; None for other values."""
    return {"kind": value} if isinstance(value, str) else value if isinstance(value, dict) else None


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Groups of settings as one: `{train: {epochs: 3}}` as `{train.epochs: 3}`."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        inner = flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) and value else {f"{prefix}{name}": value}
        found |= inner
    return found
