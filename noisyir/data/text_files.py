"""Text and JSON files with faults reported by file and line."""

import bz2
import csv
import gzip
import io
import json
import lzma
import os
import shlex
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import pyarrow as pa

from noisyir.base import during
from noisyir.base.errors import DataError
from noisyir.data.leniency import bad_row, glance
from noisyir.data.limits import DOCUMENT, LINE, refuse_special, said_of
from noisyir.engine.outside_errors import one_line

PACKED = (".gz", ".zst", ".bz2", ".xz", ".zip")
# Their first bytes; a workbook is a .zip, too, which therefore counts by its name alone
_MAGIC = {b"\x1f\x8b": ".gz", b"\x28\xb5\x2f\xfd": ".zst", b"BZh": ".bz2", b"\xfd7zXZ\0": ".xz"}
_UNPACKED: Mapping[str, Callable[[IO[bytes]], Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BESIDE = "__MACOSX/"  # added to archives by macOS
_OPENED: ContextVar[IO[bytes] | None] = ContextVar("opened", default=None)
_CONVERT = "convert it, for example with iconv -f WINDOWS-1252 -t UTF-8"
_FROM_UTF16 = "convert it, for example with iconv -f UTF-16 -t UTF-8"
# Raised by reading a damaged or cut packed file
DAMAGED = (EOFError, zlib.error, OSError, lzma.LZMAError, zipfile.BadZipFile)


def folder_with(path: str | None, kind: str, files: tuple[str, ...], *, holds: str = "") -> Path:
    """The folder at `path`.

    Args:
        path: As set by the user.
        kind: The format, for messages.
        files: Names that must exist in the folder.
        holds: Contents for messages, if `files` are not.

    Raises:
        DataError: If the path is not set, or the folder or one of `files` is missing.
    """
    holds = holds or ", ".join(files)
    if path is None:
        raise DataError("data.format_folder_missing", kind=kind, holds=holds)
    root = Path(path)
    if not root.is_dir():
        raise DataError("data.not_a_folder", root=root, holds=holds)
    if missing := [name for name in files if not (root / name).is_file()]:
        raise DataError("data.files_missing", root=root, missing=", ".join(missing), kind=kind)
    return root


def one_of(root: Path, names: Iterable[str]) -> Path | None:
    """The file with one of these names under `root`, perhaps packed; DataError if there are several."""
    found = [path for name in names for packed in ("", *PACKED) if (path := root / f"{name}{packed}").exists()]
    for path in found:
        refuse_special(path)
    if len(found) > 1:
        both = " and ".join(path.relative_to(root).as_posix() for path in found[:2])
        raise DataError("data.two_files", root=root, both=both)
    return found[0] if found else None


@contextmanager
def open_bytes(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked if it is packed."""
    refuse_special(path)
    with path.open("rb") as packed:
        _OPENED.set(packed)
        match packing_of(path):
            case ".zst":
                with io.BufferedReader(pa.CompressedInputStream(packed, "zstd")) as handle:
                    yield cast(IO[bytes], handle)
            case ".zip":
                with zipfile.ZipFile(packed) as archive, _only_member(archive, path) as unpacked:
                    yield unpacked
            case "":
                yield packed
            case suffix:
                with _UNPACKED[suffix](packed) as unpacked:
                    yield unpacked


def packing_of(path: Path) -> str:
    """The suffix of a file's packing by its first bytes, or else by its name; empty for a plain file."""
    with glance(), path.open("rb") as file:
        first = file.read(6)
    by_bytes = next((suffix for magic, suffix in _MAGIC.items() if first.startswith(magic)), "")
    return by_bytes or next((suffix for suffix in PACKED if path.name.lower().endswith(suffix)), "")


def name_of_content(path: Path) -> str:
    """The name of a file without its packing, small; of an archive its only file's, if that has a suffix."""
    name = path.name.lower()
    suffix = next((suffix for suffix in PACKED if name.endswith(suffix)), "")
    if suffix != ".zip" or not path.is_file():
        return name.removesuffix(suffix)
    with DataError.wrapping("data.damaged_start", *DAMAGED, path=path):
        with zipfile.ZipFile(path) as archive:
            inside = Path(_only_name(archive, path)).name.lower()
    return inside if Path(inside).suffix else name.removesuffix(suffix)


def _only_name(archive: zipfile.ZipFile, path: Path) -> str:
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith(_BESIDE)]
    if len(names) != 1:
        raise DataError("data.not_one_file", path=path, count=len(names), names=", ".join(names[:5]))
    return names[0]


def _only_member(archive: zipfile.ZipFile, path: Path) -> IO[bytes]:
    try:
        return archive.open(_only_name(archive, path))
    except (RuntimeError, NotImplementedError) as error:  # behind a password, or packed in a rare way
        raise DataError("data.closed_archive", path=path, reason=one_line(error)) from error


@contextmanager
def watched() -> Iterator[Callable[[], tuple[int, int] | None]]:
    """A function that returns (bytes read, size) of the text file being read, packed or not.

    It returns None while none is open, and for files of other kinds.
    """

    def so_far() -> tuple[int, int] | None:
        file = _OPENED.get()
        return None if file is None or file.closed else (file.tell(), os.fstat(file.fileno()).st_size)

    with during(_OPENED, None):
        yield so_far


def first_bytes(path: Path, count: int = 1 << 16) -> bytes:
    """The beginning of a file, unpacked."""
    with DataError.wrapping("data.damaged_start", *DAMAGED, path=path):
        with open_bytes(path) as handle:
            return handle.read(count)


@contextmanager
def open_to_write(path: Path) -> Iterator[IO[bytes]]:
    """A file to write bytes to, packed by its name; equal bytes give equal files, because a .gz holds no time."""
    name = path.name.lower()
    if name.endswith(PACKED[2:]):
        raise DataError("data.packing_not_written", path=path)
    with path.open("wb") as plain:
        if name.endswith(".gz"):
            with gzip.GzipFile("", "wb", fileobj=plain, mtime=0) as packed:
                yield cast(IO[bytes], packed)
        elif name.endswith(".zst"):
            with io.BufferedWriter(pa.CompressedOutputStream(plain, "zstd")) as packed:
                yield cast(IO[bytes], packed)
        else:
            yield plain


def write_lines(path: Path, rows: Iterable[Iterable[str]]) -> None:
    """Write a line for each row, with tabs between its cells, in which tabs and line ends become spaces."""
    with open_to_write(path) as out:
        out.writelines(("\t".join(map(spaced, cells)) + "\n").encode() for cells in rows)


class FilePart(NamedTuple):
    """Lines of a file from number `first` at byte `offset` to below number `end`, or to the last."""

    first: int = 1
    end: int | None = None
    offset: int = 0


WHOLE = FilePart()


def utf8_lines(path: Path, part: FilePart = WHOLE, *, ends: bool = False) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end) of a text file, perhaps packed, without a byte order mark.

    Of a packed file only the whole can be read.

    Raises:
        DataError: If a line is not UTF-8, holds zero bytes or is too long, or a packed file is damaged.
    """
    number, offset = part.first - 1, part.offset
    try:
        with open_bytes(path) as handle:
            if offset:
                handle.seek(offset)
            for number, raw in enumerate(_bounded_lines(handle, path, part.first), part.first):
                if number == part.end:
                    return
                if number == 1 and b"\r" in raw.strip() and not raw.endswith(b"\n"):
                    raise DataError("data.bare_returns", path=path, quote=shlex.quote(str(path)))
                try:
                    line = _decoded(raw, f"{path} line", number, offset)
                except DataError as error:
                    bad_row(f"{path} line", number, error)
                else:
                    yield number, line if ends else line.rstrip("\r\n")
                offset += len(raw)
    except DAMAGED as error:
        raise DataError("data.damaged_after", unit="line", path=path, number=number, reason=one_line(error)) from error


def _decoded(raw: bytes, place: str, number: int, offset: int) -> str:
    """A line's text, without a byte order mark, which joined files have in later lines, too."""
    if b"\0" in raw:
        raise DataError("data.zero_bytes", place=place, number=number, convert=_FROM_UTF16)
    try:
        return raw.removeprefix(b"\xef\xbb\xbf").decode()
    except UnicodeDecodeError as error:
        byte = offset + error.start
        raise DataError("data.not_utf8_line", place=place, number=number, byte=byte, convert=_CONVERT) from error


def _bounded_lines(handle: IO[bytes], path: Path, number: int) -> Iterator[bytes]:
    longest = LINE.most
    while raw := handle.readline(longest + 1):
        if len(raw) > longest:
            raise DataError("data.line_too_long", path=path, number=number, most=longest, remedy=LINE.remedy)
        yield raw
        number += 1


def tab_separated(path: Path, columns: int, expected: str, *, quoted: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yield (line number, cells) of a file with the same number of cells on each line; empty lines are passed over.

    Args:
        expected: Names of the cells, for messages.
        quoted: Whether cells may have csv's quotes.
    """
    place = f"{path} line"
    csv.field_size_limit(LINE.most)
    for number, line in utf8_lines(path):
        try:
            cells = next(csv.reader([line], delimiter="\t"), []) if quoted else line.split("\t")
        except csv.Error as error:
            bad_row(place, number, DataError("data.bad_line", path=path, number=number, fault=error))
            continue
        if line and len(cells) == columns:
            yield number, cells
        elif line:
            cut = DataError("data.wrong_cells", place=place, number=number, expected=expected, n_cells=len(cells))
            bad_row(place, number, cut)


def json_lines(path: Path, part: FilePart = WHOLE) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file; blank lines are passed over."""
    for number, line in utf8_lines(path, part):
        if not line.strip():
            continue
        try:
            value = parse_object(line, f"{path} line {number}")
        except DataError as error:
            bad_row(f"{path} line", number, error)
        else:
            yield number, value


def spaced(text: str) -> str:
    """The words of a text with a space between any two, for files of lines; zero bytes are a DataError."""
    return " ".join(without_zeros(text).split())


def without_zeros(text: str) -> str:
    """The text, if it holds no zero bytes; else DataError."""
    if "\0" in text:
        raise DataError("data.zero_bytes_to_write", text=text)
    return text


def parse_object(text: str, where: str) -> dict[str, Any]:
    """The JSON object in `text`; DataError starts with `where`."""
    try:
        value = json.loads(text, object_pairs_hook=each_key_once)
        if "\\ud" in text or "\\uD" in text:
            refuse_half_surrogates(value, where)
    except json.JSONDecodeError as error:
        line = "" if error.lineno == 1 else f"line {error.lineno} "
        fault = f"{error.msg.removesuffix(' at')} at {line}column {error.colno}"
        raise DataError("data.invalid_json", where=where, fault=fault) from error
    except RecursionError as error:
        raise DataError("data.invalid_json", fault="nested too deeply", where=where) from error
    except ValueError as error:  # a key that stands twice, or an integer of more digits than Python reads
        raise DataError("data.invalid_json", where=where, fault=said_of(error)) from error
    if not isinstance(value, dict):
        raise DataError("data.not_json_object", where=where, kind=type(value).__name__)
    return value


def each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object that JSON decoders make of pairs, or raise ValueError if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in names if names.count(name) > 1)!r} stands twice")
    return found


def refuse_half_surrogates(value: Any, where: str) -> None:
    """Raise DataError if decoded JSON holds half a surrogate pair, which is no text."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise DataError("data.half_surrogate", where=where) from error


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds one object, read whole."""
    most = DOCUMENT.most
    with open_bytes(path) as handle:
        raw = handle.read(most + 1)
    if len(raw) > most:
        raise DataError("data.json_too_large", path=path, most=most, remedy=DOCUMENT.remedy)
    try:
        return parse_object(raw.decode("utf-8-sig"), str(path))
    except UnicodeDecodeError as error:
        raise DataError("data.not_utf8", path=path, byte=error.start, convert=_CONVERT) from error
