"""The judging page: one document with its script and style inside, which may load nothing else."""

import base64
import hashlib
from collections.abc import Sequence
from functools import cache

from markupsafe import Markup

from noisyir.auditing.page import json_for_html
from noisyir.report.pages import templates

_STYLES = ("report.css", "audit.css", "judge.css")
_SCRIPTS = ("texts.js", "judge.js")


@cache
def _source(names: tuple[str, ...]) -> str:
    pages = templates()
    assert pages.loader
    return "\n".join(pages.loader.get_source(pages, name)[0] for name in names)


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


POLICY = "; ".join(
    [
        "default-src 'none'",
        f"script-src {_hash(_source(_SCRIPTS))}",
        f"style-src {_hash(_source(_STYLES))}",
        "connect-src 'self'",
        "img-src data:",  # the empty icon
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)


def page(common: Sequence[str]) -> str:
    """The page as HTML text.  common: words that are not marked where query and document share them."""
    style, script = (Markup(_source(names)) for names in (_STYLES, _SCRIPTS))
    data = Markup(json_for_html({"common": common}))
    return templates().get_template("judge.html").render(style=style, script=script, data=data)
