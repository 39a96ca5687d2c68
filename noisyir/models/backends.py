"""Encoders by other runtimes than torch: their names, their packages, and what of them is in a key; none is loaded."""

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from noisyir.base.errors import MissingPackageError, install_hint

Backend = Literal["torch", "openvino", "openvino-qint8"]

CALIBRATED = 64  # passages with activations that set the ranges of 8 bits
_CPU = Path("/proc/cpuinfo")
_NEEDED = {"torch": (), "openvino": ("openvino",), "openvino-qint8": ("openvino", "nncf")}


def in_key(backend: Backend) -> dict[str, int]:
    """The part of a key after the backend's name: the version of its 8-bit arithmetic.

    So vectors of other backends keep theirs.
    """
    return {"eight_bits": 2} if backend == "openvino-qint8" else {}


def check_backend(backend: Backend, setting: str) -> None:
    """Raise MissingPackageError, naming the setting, if the backend's package is not installed."""
    if missing := [name for name in _NEEDED[backend] if find_spec(name) is None]:
        raise MissingPackageError(
            "models.needs",
            setting=setting,
            backend=backend,
            missing=", ".join(missing),
            install_hint=install_hint("export"),
        )


def quickest(device: str) -> tuple[Literal["torch", "openvino"], Literal["fp32", "bf16"]]:
    """The backend and precision that encode by a transformer in the least time, by the processor's instructions.

    OpenVINO in bf16 takes half of torch's time if the processor has instructions for bf16; in fp32 both take the same.
    """
    flags = _CPU.read_text(encoding="utf-8") if device == "CPU" and _CPU.exists() else ""
    has_bf16 = any(flag in flags for flag in ("amx_bf16", "avx512_bf16"))
    return ("openvino", "bf16") if has_bf16 and find_spec("openvino") else ("torch", "fp32")
