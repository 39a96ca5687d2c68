"""What all settings share: frozen, and strict about names."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Split = Literal["train", "dev", "test"]
HELD_OUT: tuple[Split, ...] = ("dev", "test")


class Params(BaseModel):
    """Frozen, and refuses unknown keys: a misspelt setting is an error, never a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def key_values(self) -> dict[str, Any]:
        """The settings that decide the result: all of them but where the raw input lies."""
        return self.model_dump(mode="json", exclude=set(self.locations()))

    @classmethod
    def locations(cls) -> list[str]:
        """The fields that say where raw input lies; its content enters the key as a digest instead."""
        return [name for name, field in cls.model_fields.items() if field.metadata and _LOCATION in field.metadata]


_LOCATION = "location"
Location = Annotated[str | None, _LOCATION]
