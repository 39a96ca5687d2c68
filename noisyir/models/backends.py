"""Encoders by other runtimes than torch: their names, their packages, and what of them is in a key; none is loaded."""

from importlib.util import find_spec
from typing import Literal

from noisyir.base.errors import MissingPackageError, install_hint

Backend = Literal["torch", "openvino", "openvino-qint8"]


CALIBRATED = 64


"""Passages whose activations say in which ranges 8 bits count."""


_NEEDED = {"torch": (), "openvino": ("openvino",), "openvino-qint8": ("openvino", "nncf")}


def in_key(backend: Backend) -> dict[str, int]:
    """The part of a key beside the backend's name: how 8 bits are made, counted up where that changes.

    So vectors of other backends keep theirs.
    """
    return {"eight_bits": 2} if backend == "openvino-qint8" else {}


def check_backend(backend: Backend, setting: str) -> None:
    """MissingPackageError, naming the setting, where the backend's package is not on this machine."""
    if missing := [name for name in _NEEDED[backend] if find_spec(name) is None]:
        raise MissingPackageError(
            "models.needs",
            setting=setting,
            backend=backend,
            missing=", ".join(missing),
            install_hint=install_hint("export"),
        )
