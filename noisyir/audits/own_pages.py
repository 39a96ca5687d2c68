"""Requests of a server's own pages and of other sites' pages, distinguished by Host and Origin.

Another site's page can send requests to this machine, and its name can be made to lead here (DNS rebinding).
A browser sends both headers, and no page can change them; programs send no Origin.
"""

import base64
import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal
from urllib.parse import urlsplit

from markupsafe import Markup

from noisyir.base.pages.cells import templates

LOOPBACK = ("127.0.0.1", "localhost", "::1")


def foreign(
    hosts: Sequence[str], origins: Sequence[str], names: Collection[str], welcome: Collection[str] = ()
) -> Literal["Host", "Origin"] | None:
    """The header that shows a request to be foreign, if it is.

    Args:
        names: Names of this server, without a port.
        welcome: Origins of other pages that may ask.
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


def sha256(text: str) -> str:
    """The hash by which a policy names a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@dataclass(frozen=True)
class OwnPage:
    """A page that loads nothing: the templates of its room that make up its script and its style."""

    room: str
    scripts: tuple[str, ...]
    styles: tuple[str, ...]

    @cached_property
    def script(self) -> Markup:
        """The scripts, one after the other."""
        return self._inlined(self.scripts)

    @cached_property
    def style(self) -> Markup:
        """The styles, one after the other."""
        return self._inlined(self.styles)

    @property
    def policy(self) -> str:
        """A policy that runs this script and style alone and loads nothing."""
        own = f"default-src 'none'; script-src 'sha256-{sha256(self.script)}'; style-src 'sha256-{sha256(self.style)}'"
        return f"{own}; img-src data:; base-uri 'none'; form-action 'none'"  # data: the empty icon

    @cached_property
    def headers(self) -> dict[str, str]:
        """Headers by which the page asks its own server alone, and no other page frames it."""
        return {
            "Content-Security-Policy": f"{self.policy}; connect-src 'self'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }

    def _inlined(self, names: tuple[str, ...]) -> Markup:
        pages = templates(self.room)
        assert pages.loader
        return Markup("\n".join(pages.loader.get_source(pages, name)[0] for name in names))
