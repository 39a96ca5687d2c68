"""Durations as people write and read them."""

import re

from noisyir.base.errors import ConfigError

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


def seconds_of(text: str, name: str = "time") -> float:
    """Return the seconds that `90`, `90s`, `10m` or `1.5h` means.

    Args:
        text: Duration as people write it.
        name: Option or setting that it was given to, for the error.

    Raises:
        ConfigError: If the text is anything else.
    """
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)([smh]?)", text.strip())
    if found is None:
        raise ConfigError("base.not_a_duration", name=name, text=text)
    return float(found[1]) * _UNITS[found[2]]


def duration(seconds: float) -> str:
    """Return `0.4 s`, `12 s`, `3 min 5 s` or `2 h 10 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {whole} s" if minutes else f"{whole} s"
