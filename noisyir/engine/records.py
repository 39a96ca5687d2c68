"""Records next to the builds: one of each pipeline run, and the log of decisions on registered models."""

import json
import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from noisyir.base.errors import StoreError
from noisyir.engine.meta import sealed, unsealed
from noisyir.engine.outside_errors import is_from_outside
from noisyir.engine.root import Root, flush_to_disk

_STAMP, _STAMP_LENGTH = "%Y%m%dT%H%M%S%f", 21

log = logging.getLogger("noisyir")
_OF_RUN: Mapping[str, type | tuple[type, ...]] = {
    "experiment": str, "status": str, "began": str, "seconds": (int, float), "steps": dict, "facts": dict,
}  # fmt: skip
_OF_STEP = ("stage", "key", "build", "cached")


class Records:
    """Small JSON files in one folder of a store, each whole or absent."""

    folder: ClassVar[str]

    def __init__(self, root: Root) -> None:
        self._root = root
        self._base = f"{root.path}/{self.folder}"

    def damaged(self) -> dict[str, str]:
        """Return, by path relative to the root, why a record cannot be read."""
        found = {}
        for path in self._paths():
            try:
                self._read(path)
            except FileNotFoundError:
                continue
            except (ValueError, OSError, RecursionError) as error:
                found[self._root.below(path)] = str(error)
        return found

    def set_aside(self, record: str) -> None:
        """Rename a damaged record, so that it no longer counts and people can still read the rest of it."""
        path = f"{self._root.path}/{record}"
        self._root.fs.mv(path, f"{path}.damaged")

    def _read(self, path: str) -> dict[str, Any]:
        return dict(unsealed(self._root.fs.cat_file(path)))

    def _paths(self, ending: str = ".json") -> list[str]:
        """Return paths of records, newest first."""
        fs = self._root.fs
        found = fs.ls(self._base, detail=False) if fs.isdir(self._base) else []
        return sorted((path for path in found if path.endswith(ending)), reverse=True)

    def _write(self, name: str, record: Mapping[str, Any], *, replace: bool) -> None:
        """Write a record as a whole, because others read it at any time.

        Raises:
            FileExistsError: If it is there and may not be replaced.
        """
        data, path, fs = sealed(record).encode(), f"{self._base}/{name}.json", self._root.fs
        if not self._root.is_local:  # object stores have no folders, and a silent one would keep us waiting for one
            fs.pipe_file(path, data, mode="overwrite" if replace else "create")
            return
        fs.makedirs(self._base, exist_ok=True)
        arriving = Path(f"{path}.{uuid4().hex}")
        try:
            arriving.write_bytes(data)
            flush_to_disk(arriving)
            (os.replace if replace else os.link)(arriving, path)
        finally:
            arriving.unlink(missing_ok=True)


class RunRecords(Records):
    """Records of pipeline runs, with the builds that each used and made; `store gc` and `status` read them."""

    folder = ".runs"

    def record(self, name: str, record: Mapping[str, Any]) -> None:
        """Record the artifacts that one run used and made, in place of its earlier record."""
        self._write(name, record, replace=True)

    def set_progress(self, run: str, now: Mapping[str, Any] | None) -> None:
        """Write how far a run is; None removes it.  A failure to write is ignored, because progress is only shown."""
        path = f"{self._base}/{run}.now"
        try:
            if now is None:
                self._root.fs.rm_file(path)
            else:
                self._root.fs.pipe_file(path, json.dumps(now).encode())
        except Exception as error:
            if not is_from_outside(error):
                raise

    def progress(self, run: str) -> dict[str, Any]:
        """Return how far a run last said it was; empty if it said nothing."""
        try:
            found = json.loads(self._root.fs.cat_file(f"{self._base}/{run}.now"))
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def in_progress(self) -> dict[str, str | None]:
        """Return the runs that wrote progress and did not end, with the machine of each if its record says so."""
        found = [path.rpartition("/")[2].removesuffix(".now") for path in self._paths(".now")]
        hosts = {run.get("id"): run.get("host") for run in self.all()} if found else {}
        return {run: hosts.get(run) for run in found}

    def new_id(self, name: str, now: datetime) -> str:
        """Return a name for a run that begins now; it sorts after the names of all earlier runs."""
        return f"{stamp(now, after=next(iter(self.ids()), ''))}-{name}"

    def ids(self) -> list[str]:
        """Return the names of the records, newest first."""
        return [path.rpartition("/")[2].removesuffix(".json") for path in self._paths()]

    def all(self) -> list[dict[str, Any]]:
        """Return the readable records, newest first; others are reported."""
        records = []
        for path in self._paths():
            try:
                records.append(self._read(path))
            except (ValueError, OSError, RecursionError) as error:
                log.warning("the run record %s cannot be read and is left out: %s", path, error)
        return records

    def _read(self, path: str) -> dict[str, Any]:
        return _run_of(self._root.fs.cat_file(path))


class PromotionLog(Records):
    """Decisions on registered models, one file each; a decision is never changed."""

    folder = ".promotions"

    def record(self, name: str, record: Mapping[str, Any]) -> None:
        """Add a decision.

        Raises:
            StoreError: If there is one of this name.
        """
        with StoreError.wrapping("engine.json_already_no_decision", FileExistsError, base=self._base, name=name):
            self._write(name, record, replace=False)

    def all(self) -> list[dict[str, Any]]:
        """Return the decisions, newest first.

        Raises:
            StoreError: If a line is damaged.
        """
        decisions = []
        for path in self._paths():
            with StoreError.wrapping("engine.damaged_line_promotions_log", ValueError, path=path):
                decisions.append(self._read(path))
        return decisions


@lru_cache(10_000)
def _run_of(text: bytes) -> dict[str, Any]:
    """Return a run's record with all that its readers need; they change nothing in it.

    Raises:
        ValueError: If the JSON has another shape.
    """
    record: dict[str, Any] = unsealed(text)
    if wrong := [name for name, kind in _OF_RUN.items() if not isinstance(record.get(name), kind)]:
        raise ValueError(f"it lacks {', '.join(wrong)}, or has something else there")
    if datetime.fromisoformat(record["began"]).tzinfo is None:
        raise ValueError("its time has no zone")
    if not all(isinstance(step, dict) and {*_OF_STEP} <= step.keys() for step in record["steps"].values()):
        raise ValueError(f"one of its steps lacks one of {', '.join(_OF_STEP)}")
    if not all(isinstance(record.get(name, {}), dict) for name in ("kept", "tags")):
        raise ValueError("kept and tags must be objects")
    return record


def stamp(now: datetime, after: str) -> str:
    """Return the time as a name; if clocks went back, a later one that sorts after `after`."""
    with suppress(ValueError):
        latest = datetime.strptime(after[:_STAMP_LENGTH], _STAMP).replace(tzinfo=UTC)
        now = max(now, latest + timedelta(microseconds=1))
    return f"{now:{_STAMP}}"
