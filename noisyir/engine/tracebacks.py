"""Where the traceback of what failed is kept, so that a message can be one line and nothing is lost."""

import traceback
from pathlib import Path

from noisyir.engine.outside_errors import without_password

_NOTE = "traceback in "


def keep_traceback(home: Path, name: str, error: BaseException) -> Path | None:
    """Write an error's traceback to `home/logs/name.log`, and note on the error where it is; None where that fails."""
    path = home / "logs" / f"{name}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback_of(error), encoding="utf-8", errors="backslashreplace")
    except OSError:  # a full disk, perhaps the error itself
        return None
    error.add_note(f"{_NOTE}{path}")
    return path


def traceback_of(error: BaseException) -> str:
    """An error's traceback, with those of what it was raised from and of other processes."""
    return without_password("".join(traceback.format_exception(error)))


def kept_at(error: BaseException) -> str | None:
    """The file that holds an error's traceback; None where none was kept."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE)]
    return notes[-1].removeprefix(_NOTE) if notes else None
