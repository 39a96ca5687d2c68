"""Screens of a terminal: how wide one is, words that must stay whole, and recordings with figures masked."""

import re
from pathlib import Path

import pytest

RECORDED = Path(__file__).parent / "screens"


def terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    """Make standard output and error count as a terminal of this width, without colours."""
    for name, value in {"FORCE_COLOR": "1", "NO_COLOR": "1", "TERM": "xterm", "COLUMNS": str(width)}.items():
        monkeypatch.setenv(name, value)


def plain(screen: str) -> str:
    """The screen without what sets letters bold and moves the cursor."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen).replace("\r", "")


def check_fits(screen: str, width: int, wide: str) -> None:
    """No line is longer than the terminal, but commands and paths; no word is cut, by the same screen on a wide one."""
    whole = set(wide.replace("…", " ").split())
    for line in screen.splitlines():
        assert len(line.rstrip()) <= width or "noisyir " in line or "/" in line, line
        assert set(line.replace("…", " ").split()) <= whole, line


def check_recorded(screen: str, name: str) -> None:
    """The screen is the recorded one, figures and paths aside; a recording that is not there is made, and fails."""
    masked = re.sub(r"\S*/\S*", "PATH", re.sub(r"\d+", "#", screen))
    path = RECORDED / f"{name}.txt"
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(masked, encoding="utf-8")
        pytest.fail(f"{path} is new: read it, and commit it")
    assert masked == path.read_text(encoding="utf-8")
