"""Bringing models and data sets into the store, under their digests: from the Hugging Face Hub, a URL, or a path."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Literal, Protocol

from noisyir.base.errors import DataError, MissingPackageError
from noisyir.base.settings import places_of
from noisyir.data.limits import refuse_special
from noisyir.engine.outside_errors import one_line
from noisyir.engine.remote.copies import patient_options
from noisyir.engine.remote.fetched import FetchedSet
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment

Kind = Literal["model", "dataset"]
Tell = Callable[[str, int, int], None]
"""Told of each file that is in: its name, bytes so far and in all."""

_OF_A_MODEL = {".json", ".safetensors", ".txt", ".model"}
_OTHER_RUNTIMES = {"onnx", "openvino"}
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


class FileSource(Protocol):
    """Where files come from: their sizes by name, before any is brought, and each on its way."""

    revision: str | None
    single: bool
    sizes: dict[str, int]

    def bring(self, name: str, folder: Path) -> Path:
        """A local file with these bytes: in `folder`, unless they are on this machine already."""


@dataclass
class Hub:
    """A repository of the Hugging Face Hub, or of the server at HF_ENDPOINT, at the commit that a revision is now."""

    name: str
    revision: str | None
    kind: Kind
    single: bool = False

    def __post_init__(self) -> None:
        from huggingface_hub import HfApi

        try:
            about: Any = HfApi().repo_info(self.name, revision=self.revision, repo_type=self.kind, files_metadata=True)
        except Exception as error:  # of the network, of the server, of the name: each library's own
            raise DataError(
                "app.cannot_fetched_hub", name=self.name, kind=self.kind, one_line=one_line(error)
            ) from error
        self.revision = about.sha
        found = {file.rfilename: file.size or 0 for file in about.siblings or ()}
        self.sizes = {name: size for name, size in found.items() if self.kind == "dataset" or _is_of_model(name)}
        if self.kind == "model" and not any(name.endswith(".safetensors") for name in self.sizes):
            raise DataError("app.no_safetensors_file_pickled", name=self.name, revision=self.revision)

    def bring(self, name: str, folder: Path) -> Path:
        """Download one file."""
        from huggingface_hub import hf_hub_download

        try:
            return Path(hf_hub_download(self.name, name, revision=self.revision, repo_type=self.kind, local_dir=folder))
        except Exception as error:
            raise DataError("app.cannot_fetched", name=name, name_2=self.name, one_line=one_line(error)) from error


@dataclass
class Files:
    """A file or a folder: a path of this machine, or a URL of fsspec's, such as s3://bucket/folder."""

    url: str
    revision: str | None = None

    def __post_init__(self) -> None:
        from fsspec.core import url_to_fs

        options = patient_options(self.url.partition("://")[0])
        try:
            self._fs, root = url_to_fs(self.url, **options)
            web = self.url.startswith(("http://", "https://"))
            self.single = web or self._fs.isfile(root)
            found: Any = [root] if self.single else sorted(self._fs.find(root))
            start = 0 if self.single else len(root.rstrip("/")) + 1
            if "file" in self._fs.protocol:
                for path in found:
                    refuse_special(Path(path))
            names = {_name_in(path, start, single=self.single): path for path in found}
            self._paths = {name: path for name, path in names.items() if not _is_hidden(name)}
            self.sizes = {name: int(self._fs.size(path) or 0) for name, path in self._paths.items()}
        except ImportError as error:
            raise MissingPackageError("app.fetching_needs_package", url=self.url, one_line=one_line(error)) from error
        except (OSError, ValueError) as error:
            raise DataError("app.cannot_fetched_2", url=self.url, one_line=one_line(error)) from error
        if not self.sizes:
            raise DataError("app.cannot_fetched_no_file", url=self.url)

    def bring(self, name: str, folder: Path) -> Path:
        """The file itself where it is on this machine, else a copy."""
        if "file" in self._fs.protocol:
            return Path(self._paths[name])
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        self._fs.get_file(self._paths[name], str(target))
        return target


def source_of(place: str, revision: str | None = None, kind: Kind = "model") -> FileSource:
    """The source that a path, a URL or a name of the Hub means.  DataError where there is nothing of that name."""
    if "://" in place or Path(place).expanduser().exists():
        return Files(place if "://" in place else str(Path(place).expanduser().absolute()))
    if not _HUB_NAME.fullmatch(place):
        raise DataError("app.neither_file_folder_url", place=place)
    return Hub(place, revision, kind)


def fetch(
    store: Store, source: FileSource, place: str, name: str | None = None, tell: Tell = lambda *_: None
) -> FetchedSet:
    """Bring all files of a source into the store, one after another, and have `name` mean them (None: `place`)."""
    files, done, total = {}, 0, sum(source.sizes.values())
    scratch = store.home / "fetching"
    scratch.mkdir(parents=True, exist_ok=True)
    for file in source.sizes:
        if ".." in PurePosixPath(file).parts or file.startswith("/"):
            raise DataError("app.not_fetched_would_lie", place=place, file=file)
        with TemporaryDirectory(dir=scratch) as folder:
            files[file] = store.fetched.add_file(source.bring(file, Path(folder)))
        done += files[file][0]
        tell(file, done, total)
    now = datetime.now(UTC).isoformat()
    found = FetchedSet(name or place, place, source.revision, now, source.single, files)
    store.fetched.name(found)
    return found


@dataclass(frozen=True)
class MissingInput:
    """Raw input that an experiment names and that is neither here nor in the store."""

    setting: str
    place: str


def missing_inputs(exp: Experiment, said: Sequence[str]) -> list[MissingInput]:
    """The inputs that a plan did not find, as the words that were `said` of it tell."""
    named = reversed(list(places_of(exp)))
    found = {place: MissingInput(setting, place) for setting, place in named if any(place in words for words in said)}
    return list(reversed(found.values()))


def _is_of_model(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in _OF_A_MODEL and not _OTHER_RUNTIMES & set(path.parts) and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)


def _name_in(path: str, start: int, *, single: bool) -> str:
    return path.partition("?")[0].rstrip("/").rpartition("/")[2] if single else path[start:]
