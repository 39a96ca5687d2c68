"""A build's own record, and the small reference by which stages pass artifacts to each other."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

META = "_meta.json"  # a build's account of itself; a folder without it is no build

SHARD = ".parquet"  # how a shard's file ends, and nothing else in a work folder

_SEAL = "sha256"


@dataclass(frozen=True)
class Ref:
    """One artifact of one build: small, and all that stages pass to each other."""

    artifact: str
    stage: str
    key: str
    build: str
    digest: str

    @property
    def path(self) -> str:
        """Path of the artifact relative to the store's root."""
        return f"{self.stage}/{self.key}/{self.build}/{self.artifact}"


@dataclass(frozen=True)
class Contents:
    """Contents of one artifact; `files` maps a relative path to (bytes, sha256)."""

    version: int
    digest: str
    rows: int | None
    files: Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class Meta:
    """A build's own record, stored next to its data as `_meta.json`.

    Attributes:
        params: All settings, defaults included.
        in_key: Settings that are in the key because they differ from the defaults.
        checked: Whether the inputs' digests were checked when they were opened.
    """

    stage: str
    version: int
    key: str
    build: str
    params: Mapping[str, Any]
    seed: int | None
    inputs: Mapping[str, Any]
    artifacts: Mapping[str, Contents]
    seconds: float
    created: str
    notes: Mapping[str, Any]
    git_commit: str | None
    packages: Mapping[str, str]
    in_key: Mapping[str, Any] = field(default_factory=dict)
    checked: bool = False

    @property
    def result(self) -> str:
        """The result in a few words, if the stage noted one."""
        return str(self.notes.get("result", ""))

    def ref(self, artifact: str) -> Ref:
        """Return the reference to one of the build's artifacts."""
        return Ref(artifact, self.stage, self.key, self.build, self.artifacts[artifact].digest)

    def input_refs(self) -> Iterator[tuple[str, Ref]]:
        """Return (input name or name.label, reference) of every artifact that the build was made from."""
        for name, value in self.inputs.items():
            yield from _refs_in(name, value)

    @property
    def raw(self) -> dict[str, str]:
        """Digests of the raw inputs, by name."""
        return {name: value for name, value in self.inputs.items() if isinstance(value, str)}

    @property
    def folder(self) -> str:
        """Folder of the build relative to the store's root."""
        return f"{self.stage}/{self.key}/{self.build}"

    @property
    def size(self) -> int:
        """Bytes of data in the build."""
        return sum(size for contents in self.artifacts.values() for size, _ in contents.files.values())

    def to_json(self) -> str:
        """Return the text of `_meta.json`."""
        return sealed({"format": 1, **asdict(self)})

    @classmethod
    @lru_cache(10_000)  # who lists a store again parses and checks no text again
    def from_json(cls, text: str) -> "Meta":
        """Return the meta of a text.

        Raises:
            ValueError, KeyError: If the text is not a meta, or has changed since it was written.
        """
        fields = unsealed(text)
        if fields.pop("format") != 1:
            raise ValueError("unknown format")
        fields["artifacts"] = {
            name: Contents(
                found["version"], found["digest"], found["rows"], {k: (v[0], v[1]) for k, v in found["files"].items()}
            )
            for name, found in fields["artifacts"].items()
        }
        return cls(**fields)


def _refs_in(name: str, value: Any) -> Iterator[tuple[str, Ref]]:
    if isinstance(value, dict) and "artifact" in value:
        yield name, Ref(**value)
    elif isinstance(value, dict):
        for label, inner in value.items():
            yield from _refs_in(f"{name}.{label}", inner)


def json_digest(value: Any) -> str:
    """Return the SHA-256, in hex, of a value's one JSON text: sorted keys, no spaces, NaN refused."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def sealed(fields: Mapping[str, Any]) -> str:
    """Return a JSON text that contains its own digest."""
    as_read = json.loads(json.dumps(fields, allow_nan=False))  # in which every key is a text
    return json.dumps({**as_read, _SEAL: json_digest(as_read)}, indent=2, sort_keys=True)


def unsealed(text: str | bytes) -> Any:
    """Return the value that `sealed` was given.

    Raises:
        ValueError: If the text has changed since.
    """
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.pop(_SEAL, None) != json_digest(fields):
        raise ValueError("it has other bytes than were written")
    return fields


def input_digests(inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content digests of recorded inputs: they must be equal for a build to be reused."""
    return {name: _digest_of(value) for name, value in inputs.items()}


def _digest_of(value: Any) -> Any:
    if isinstance(value, Ref):
        return value.digest
    if isinstance(value, Mapping):
        return value["digest"] if "artifact" in value else input_digests(value)
    return value


def sha256_file(handle: Any) -> str:
    """Return the hex digest of an open binary file, and close it."""
    with handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def contents_of(folder: Path, version: int, rows: int | None) -> Contents:
    """Return the contents of an artifact's finished folder: each file's size and digest, and one digest over all."""
    files = {
        path.relative_to(folder).as_posix(): (path.stat().st_size, sha256_file(path.open("rb")))
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
    return Contents(version, json_digest(files), rows, files)
