"""The address of an endpoint and its key, which comes from the environment and leaves only as a header."""

import ipaddress
import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import SecretStr

from noisyir.base.errors import ConfigError

KEY = "NOISYIR_JUDGE_KEY"
_PATH = "/chat/completions"
_SHORTEST = 8  # characters of a real key: servers without keys get a word such as EMPTY


@dataclass(frozen=True)
class Address:
    """An endpoint; local: on this machine, so that nothing leaves it."""

    url: str
    local: bool
    key: SecretStr | None

    @property
    def headers(self) -> dict[str, str]:
        """Headers of each question."""
        return {"Authorization": f"Bearer {self.key.get_secret_value()}"} if self.key else {}

    def without_key(self, text: str) -> str:
        """A text of the endpoint without the key, in case it sends the key back."""
        if self.key is None or len(self.key) < _SHORTEST:
            return text
        return text.replace(self.key.get_secret_value(), "[key]")


def address_of(url: str) -> Address:
    """The endpoint that --judge-url names by its base (`https://HOST/v1`) or whole address.

    Raises:
        ConfigError: If it is no http address, holds a user, query or fragment, or would carry the key in plain text.
            The text repeats neither a password nor the key.
    """
    with ConfigError.wrapping("audits.url_malformed", ValueError):
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError("audits.url_holds_secret", scheme=parts.scheme or "https", host=host or "HOST", key=KEY)
    if parts.scheme not in ("http", "https") or not host:
        raise ConfigError("audits.url_without_http")
    key, local = _key(), _is_local(host)
    if key and parts.scheme == "http" and not local:
        raise ConfigError("audits.key_in_plain_text", key=KEY, host=host)
    path = parts.path.rstrip("/")
    whole = path if path.endswith(_PATH) else path + _PATH
    return Address(f"{parts.scheme}://{parts.netloc}{whole}", local, key)


def refuse_odd_host(address: Address) -> None:
    """Refuse a host that no request can reach, such as `xn--`.

    Raises:
        ConfigError: If the host is impossible.
    """
    import httpx

    try:
        httpx.Request("POST", address.url).url.raw_host.decode("ascii").encode("idna")
    except (httpx.InvalidURL, UnicodeError) as error:
        raise ConfigError("audits.url_impossible_host", error=error) from None


def _key() -> SecretStr | None:
    key = os.environ.get(KEY, "").strip()
    if not key:
        return None
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("audits.key_odd_character", key=KEY)
    return SecretStr(key)


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
