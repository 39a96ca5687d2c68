"""Families of interchangeable classes, each with its settings and its function in one file.

A family is a base class with a `home`, the module or package of its variants, and perhaps a `group` of entry points for
variants of other packages.  Defining a variant registers it.  A field of the family's type takes any variant:
`{kind: simans, a: 1}`, or `simans` alone.
"""

from collections.abc import Mapping
from functools import cache, partial
from importlib import import_module
from importlib.metadata import entry_points
from inspect import get_annotations
from pkgutil import iter_modules
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import GetCoreSchemaHandler, SerializerFunctionWrapHandler, TypeAdapter, model_serializer
from pydantic_core import core_schema

from noisyir.base.errors import ConfigError, suggested
from noisyir.base.settings import Params

_installed = cache(entry_points)  # to look for one group opens a file of every package
_ONLY = "value"  # stands for the name of a kind's only setting without a default


class Variant(Params):
    """One variant of a family.  Bump `version` when its meaning or a default changes; keys contain it.

    A variant names itself, `class MyVariant(Family, kind="its_name")`; a family sets `home` and no kind.

    Args:
        default: Kind of a family's settings without a kind; None if they need one.
        named_by_kind: Whether people write a variant's settings in a group with its kind's name.
    """

    version: ClassVar[int] = 1
    home: ClassVar[str]
    group: ClassVar[str | None] = None
    default: ClassVar[str | None] = None
    named_by_kind: ClassVar[bool] = False
    known: ClassVar[dict[str, type["Variant"]]]

    kind: str = ""

    def __init_subclass__(cls, kind: str = "", **config: Any) -> None:
        """Give the variant its field `kind`, which takes no other value."""
        super().__init_subclass__(**config)
        if kind:
            cls.__annotations__ = {"kind": Literal[kind], **get_annotations(cls)}
            cls.kind = kind

    @classmethod
    def __pydantic_init_subclass__(cls, **config: Any) -> None:
        """Begin a family if a home is given, else register the variant in its family."""
        super().__pydantic_init_subclass__(**config)
        if cls.is_family():
            cls.known = {}
        elif kind := cls.model_fields["kind"].default:
            other = cls.known.setdefault(kind, cls)
            if (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
                raise ConfigError(
                    "base.both_define", module=cls.__module__, module_2=other.__module__, family=cls.family(), kind=kind
                )

    @model_serializer(mode="wrap")
    def _with_kind(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Keep the kind even if defaults are left out."""
        return {"kind": self.kind, **dump(self)}

    @classmethod
    def is_family(cls) -> bool:
        """Whether this is the base of a family."""
        return "home" in cls.__dict__

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        """A family's schema: the variant of `kind`, or of a name alone with its defaults."""
        if not cls.is_family() or "known" not in cls.__dict__:
            return handler(source)
        choices = {kind: handler.generate_schema(variant) for kind, variant in cls.variants().items()}
        if not choices:
            return core_schema.no_info_plain_validator_function(partial(_refuse, cls.family()))
        chosen = core_schema.tagged_union_schema(choices, discriminator="kind")
        return core_schema.no_info_before_validator_function(partial(_spelt_out, cls), chosen)

    @classmethod
    def family(cls) -> str:
        """The family's word for its variants: `sampler`, `detector`."""
        return next(base.__name__.lower() for base in cls.__mro__ if "home" in base.__dict__)

    @classmethod
    def variants(cls) -> Mapping[str, type[Self]]:
        """The family's classes by kind, sorted, from its home and other packages."""
        _load(cls.home, cls.group)
        return dict(sorted(cls.known.items()))  # type: ignore[arg-type]

    @classmethod
    def of_kind(cls, kind: str) -> type[Self]:
        """The variant of this name; ConfigError suggests a similar one."""
        known = cls.variants()
        if kind not in known:
            raise ConfigError("base.no", family=cls.family(), kind=kind, others=suggested(kind, known))
        return known[kind]

    @classmethod
    def parse(cls, values: Any) -> Self:
        """The variant in these settings, or pydantic's ValidationError."""
        return _adapter(cls).validate_python(values)  # type: ignore[no-any-return]

    @property
    def revised(self) -> bool:
        """Whether its version has changed."""
        return self.version > 1

    def key_values(self) -> dict[str, Any]:
        """The kind with its version, and settings that differ from defaults."""
        values = super().key_values()
        return {**values, "kind": f"{self.kind}/{self.version}"}


def _refuse(family: str, value: Any) -> None:
    raise ValueError(f"there is no {family} {value.get('kind')!r}: no installed package brings any")


def by_kind(values: Any) -> Any:
    """Variants by their kind, as people write them: `{relative_margin: 0.05}`, `{triangle: {margin: 0.1}}`.

    A plain value sets the kind's only setting without a default; null leaves the kind out.
    """
    if not isinstance(values, Mapping):
        return values
    return {kind: _of_kind(kind, value) for kind, value in values.items() if value is not None}


def _of_kind(kind: str, value: Any) -> Any:
    if isinstance(value, Variant):
        return value
    return {"kind": kind, **value} if isinstance(value, Mapping) else {"kind": kind, _ONLY: value}


def _spelt_out(family: type[Variant], value: Any) -> Any:
    """Settings with their kind, from a name alone or the value of a kind's only setting without a default."""
    if isinstance(value, str):
        return {"kind": value}
    if isinstance(value, Mapping) and family.default and "kind" not in value:
        return {"kind": family.default, **value}
    if isinstance(value, Mapping) and _ONLY in value and (variant := family.variants().get(value["kind"])):
        required = [name for name, field in variant.model_fields.items() if field.is_required()]
        if len(required) == 1:
            return {"kind": value["kind"], required[0]: value[_ONLY]}
    return value


@cache
def _adapter(family: type[Variant]) -> TypeAdapter[Any]:
    return TypeAdapter(Annotated[family, "of"])  # type: ignore[arg-type]  # bare, it would be the base class's own schema


@cache
def _load(home: str, group: str | None) -> None:
    """Import the modules of a family's home, and variants of other packages."""
    package = import_module(home)
    for module in iter_modules(getattr(package, "__path__", ())):  # a small family is one module
        import_module(f"{home}.{module.name}")
    if group:
        entries(group)


def entries(group: str, name: str | None = None) -> list[Any]:
    """The objects that installed packages register in a group of entry points, perhaps under one name.

    A missing room of noisyir itself is skipped; ConfigError names the package of an object that cannot be loaded.
    """
    found = []
    for entry in _installed().select(group=group):
        if name not in (None, entry.name):
            continue
        package = entry.dist.name if entry.dist else entry.value
        try:
            found.append(entry.load())
        except Exception as error:  # whatever a stranger's module raises
            missing = isinstance(error, ModuleNotFoundError) and entry.module.startswith(str(error.name))
            if package == "noisyir" and missing:
                continue
            raise ConfigError(
                "base.package_brings_cannot_loaded",
                package=package,
                value=entry.value,
                group=group,
                error=type(error).__name__,
                error_2=error,
            ) from error
    return found


def params_in(annotation: Any) -> type[Params] | None:
    """The class of settings in a field's annotation, if any."""
    if isinstance(annotation, type) and issubclass(annotation, Params):
        return annotation
    return next(filter(None, map(params_in, get_args(annotation))), None)


def kinds_in(model: type[Params], prefix: str = "") -> dict[str, list[str]]:
    """The kinds of every setting with several, by its full name."""
    found: dict[str, list[str]] = {}
    for name, field in model.model_fields.items():
        inside = params_in(field.annotation)
        if inside is not None and issubclass(inside, Variant):
            found[f"{prefix}{name}"] = list(inside.variants())
            for kind, variant in inside.variants().items() if inside.named_by_kind else ():
                found |= kinds_in(variant, f"{prefix}{kind}.")
        elif inside is not None:
            found |= kinds_in(inside, f"{prefix}{name}.")
    return found
