"""Settings as Python gives them: by the names that an experiment's file has, with values of Python."""

import json
from collections.abc import Mapping
from typing import Any

from noisyir.errors import ConfigError


def overrides_of(settings: Mapping[str, Any] | None) -> list[str]:
    """`KEY=VALUE` of each setting, which is what experiments take.  ConfigError for a value that no file could hold."""
    found = []
    for name, value in (settings or {}).items():
        try:
            found.append(f"{name}={json.dumps(value)}")
        except (TypeError, ValueError) as error:
            raise ConfigError(
                f"settings[{name!r}] must be a number, a text, a list or a group of these: {error}"
            ) from error
    return found
