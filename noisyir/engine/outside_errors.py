"""Errors of other libraries and of the machine as one line with a remedy; no other module knows them."""

import errno
import re
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from noisyir.base.errors import ConfigError, DataError, NoisyirError, StoreError

_LONGEST = 300  # characters of a stranger's message that are shown
_GOES_ON = "then the same command goes on where it stopped"
_FULL = re.compile(r"no space left on device|disk quota exceeded|disk is full|os error 28\b", re.IGNORECASE)
_NO_MEMORY = re.compile(
    r"can't allocate memory|cannot allocate memory|out of memory|failed to allocate|unable to mmap", re.IGNORECASE
)
_NOTE = "traceback in "


@dataclass(frozen=True)
class _Advice:
    """The meaning of a kind of error, and its remedy."""

    kind: type[NoisyirError]
    means: str
    remedy: str


_DISK_FULL = _Advice(StoreError, "the disk is full", f"free space on it, {_GOES_ON}")
_MEMORY = _Advice(
    NoisyirError,
    "the memory does not suffice",
    "lower train.batch_size, runtime.batch_tokens or runtime.steps_at_once, or end what else runs here",
)
_REMOTE = _Advice(
    StoreError,
    "the object store or server refused a request",
    f"check its address, the network and the keys, {_GOES_ON}",
)
_BY_NUMBER: Mapping[int, _Advice] = {
    errno.ENOSPC: _DISK_FULL,
    errno.EDQUOT: _DISK_FULL,
    errno.ENOMEM: _MEMORY,
    errno.EROFS: _Advice(StoreError, "the file system is read-only", "name a folder that can be written"),
    errno.EACCES: _Advice(StoreError, "this user may not do that", "change the rights of the file or folder"),
    errno.EPERM: _Advice(StoreError, "this user may not do that", "change the rights of the file or folder"),
    errno.EMFILE: _Advice(StoreError, "too many files are open", "raise the limit: ulimit -n 8192"),
    errno.EIO: _Advice(StoreError, "the disk cannot be read or written", "look at it, then run noisyir store verify"),
    **{number: _REMOTE for name in ("EREMOTEIO", "ETIMEDOUT") if (number := getattr(errno, name, 0))},
}
_DATABASE = _Advice(
    ConfigError,
    "the tracking database cannot be used",
    "put a backup of it back, or move it away, which begins an empty registry; or --no-track",
)
# By how the name of a class begins, with its module; the first that fits one of an error's classes counts.
_BY_CLASS: Mapping[str, _Advice] = {
    "sqlite3.": _DATABASE,
    "sqlalchemy.": _DATABASE,
    "alembic.": _DATABASE,
    "mlflow.": _Advice(ConfigError, "MLflow refuses", "check MLFLOW_TRACKING_URI, or --no-track"),
    "torch.OutOfMemoryError": _MEMORY,
    "builtins.MemoryError": _MEMORY,
    "safetensors": _Advice(DataError, "weights cannot be read", "get the model again; if built: noisyir store verify"),
    "tokenizers.": _Advice(DataError, "a tokenizer cannot be read", "get the model again"),
    "huggingface_hub.": _Advice(DataError, "a model cannot be read", "get it again: noisyir fetch NAME --again"),
    "pyarrow.": _Advice(StoreError, "a table cannot be read or written", "find damaged builds: noisyir store verify"),
    "zlib.": _Advice(DataError, "a compressed file is damaged", "get it again"),
    "builtins.EOFError": _Advice(DataError, "a file ends too early", "get it again; of a build, noisyir store verify"),
    "builtins.UnicodeDecodeError": _Advice(DataError, "a file is not UTF-8", "convert it, as with iconv -t UTF-8"),
    "builtins.UnicodeEncodeError": _Advice(DataError, "a name or a text is not Unicode", "rename it, or write another"),
    "builtins.RecursionError": _Advice(DataError, "something is nested too deeply", "make it flatter"),
    **dict.fromkeys(("botocore.", "aiobotocore.", "aiohttp.", "s3fs.", "gcsfs.", "adlfs.", "fsspec."), _REMOTE),
    **dict.fromkeys(("urllib3.", "requests.", "httpx.", "builtins.ConnectionError", "builtins.TimeoutError"), _REMOTE),
}
_OTHER_OS = _Advice(StoreError, "a file could not be read or written", "check what stands there")
_UNEXPECTED = _Advice(
    NoisyirError, "noisyir did not expect this", "its traceback, which --debug shows, helps to mend it"
)


def in_our_words(error: BaseException) -> NoisyirError:
    """Return the error as one line: its meaning, its own text and the remedy; noisyir's own errors are unchanged."""
    if isinstance(error, NoisyirError):
        return error
    advice = next((found for one in _chain(error) if (found := _known(one)) is not None), _UNEXPECTED)
    return advice.kind(f"{advice.means}: {one_line(error)}: {advice.remedy}")


def is_from_outside(error: BaseException) -> bool:
    """Return whether the meaning of the error is known, so that noisyir is not at fault."""
    return any(_known(one) is not None for one in _chain(error))


def is_lack_of_memory(error: BaseException) -> bool:
    """Return whether the machine has too little memory and data and model are fine."""
    return any(_known(one) is _MEMORY for one in _chain(error))


def one_line(error: BaseException) -> str:
    """Return an error's text without passwords and line ends, shortened; with its type if it is not noisyir's own."""
    said = without_password(" ".join(str(error).split()))
    if said and isinstance(error, NoisyirError):
        return said
    said = re.split(r"\s*\[SQL:|\s*\(Background on this error", said)[0]
    said = said if len(said) <= _LONGEST else f"{said[:_LONGEST]} ..."
    return said if said and isinstance(error, OSError) else f"{type(error).__name__}: {said}".rstrip(": ")


def without_password(text: str) -> str:
    """Return a text without the user and password of its addresses."""
    return re.sub(r"(\w://)[^/\s]*@", r"\1", text)


def _known(error: BaseException) -> _Advice | None:
    """Return the known meaning of one error; None if it could mean anything."""
    if _FULL.search(str(error)):
        return _DISK_FULL
    if isinstance(error, OSError) and error.errno is not None and error.errno in _BY_NUMBER:
        return _BY_NUMBER[error.errno]
    if not isinstance(error, NoisyirError) and _NO_MEMORY.search(str(error)):  # torch's and safetensors', on a CPU
        return _MEMORY
    names = [f"{one.__module__}.{one.__qualname__}" for one in type(error).__mro__]
    for beginning, advice in _BY_CLASS.items():
        if any(name.startswith(beginning) for name in names):
            return advice
    return _OTHER_OS if isinstance(error, OSError) else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error, then the error that it was raised from, and so on."""
    seen = set[int]()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def keep_traceback(home: Path, name: str, error: BaseException) -> Path | None:
    """Write an error's traceback to `home/logs/name.log` and note the path on the error; None if that fails."""
    path = home / "logs" / f"{name}.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(traceback_of(error), encoding="utf-8", errors="backslashreplace")
    except OSError:  # a full disk, perhaps the error itself
        return None
    error.add_note(f"{_NOTE}{path}")
    return path


def traceback_of(error: BaseException) -> str:
    """Return an error's traceback, with the tracebacks of its causes and of other processes."""
    return without_password("".join(traceback.format_exception(error)))


def kept_at(error: BaseException) -> str | None:
    """Return the file with an error's traceback; None if none was kept."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_NOTE)]
    return notes[-1].removeprefix(_NOTE) if notes else None
