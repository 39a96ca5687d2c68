"""A server's own pages told from those of other web sites, by the Host and the Origin that a browser sends.

Another site's page can send requests to this machine, and a name that it owns can be made to lead here (DNS rebinding).
A browser names both in what it sends, and no page can change them; programs send no Origin.
"""

import base64
import hashlib
from collections.abc import Collection, Sequence
from functools import cache
from typing import Literal
from urllib.parse import urlsplit

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def foreign(
    hosts: Sequence[str], origins: Sequence[str], names: Collection[str], welcome: Collection[str] = ()
) -> Literal["Host", "Origin"] | None:
    """The header by which a request is not from here; None where it is.

    hosts, origins: the values of the headers.  names: by which this server goes, without a port.  welcome: origins of
    other pages that may ask.
    """
    if len(hosts) != 1 or name_in(hosts[0]) not in names:
        return "Host"
    own = {f"{scheme}://{hosts[0].lower()}" for scheme in ("http", "https")}
    return None if all(origin.lower() in own or origin in welcome for origin in origins) else "Origin"


def name_in(host: str) -> str | None:
    """The name in a Host header, without its port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


@cache
def inlined(room: str, names: tuple[str, ...]) -> str:
    """The templates of these names, one after the other: the script or the style of a page that loads nothing."""
    from noisyir.base.pages.cells import templates

    pages = templates(room)
    assert pages.loader
    return "\n".join(pages.loader.get_source(pages, name)[0] for name in names)


def page_policy(room: str, scripts: tuple[str, ...], styles: tuple[str, ...]) -> str:
    """The policy of a page that runs these inlined templates alone, and loads nothing."""
    script, style = (
        base64.b64encode(hashlib.sha256(inlined(room, names).encode()).digest()).decode() for names in (scripts, styles)
    )
    own = f"default-src 'none'; script-src 'sha256-{script}'; style-src 'sha256-{style}'"
    return f"{own}; img-src data:; base-uri 'none'; form-action 'none'"  # data: the empty icon


def page_headers(room: str, scripts: tuple[str, ...], styles: tuple[str, ...]) -> dict[str, str]:
    """Headers that keep a page to itself: it asks its own server alone, and no other page frames it."""
    policy = f"{page_policy(room, scripts, styles)}; connect-src 'self'; frame-ancestors 'none'"
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
    }
