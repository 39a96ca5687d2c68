"""What all pages share: templates that escape every text and refuse a name that they were not given."""

from collections.abc import Callable
from typing import Any

import jinja2


def templates(**filters: Callable[..., Any]) -> jinja2.Environment:
    """Jinja over the templates of this package, with these filters besides its own."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("noisyir.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= filters
    return found
