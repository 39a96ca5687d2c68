"""Import of models and data sets into the store, by digest: from the Hugging Face Hub, a URL or a path."""

import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from pydantic import Field

from noisyir.base.artifact import Artifact
from noisyir.base.errors import DataError, MissingPackageError
from noisyir.base.settings import Params, places_of
from noisyir.data.containers import SUFFIXES
from noisyir.data.limits import refuse_special
from noisyir.engine.build_stage import run_stage
from noisyir.engine.hub import Kind, download, files_of
from noisyir.engine.outside_errors import one_line
from noisyir.engine.remote.copies import patient_options
from noisyir.engine.remote.fetched import FILES, STAGE, FetchedSet, key_of_name
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Job, Stage, Step
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment

Tell = Callable[[str, int, int], None]
"""Called after each file with its name, the bytes so far, and the total."""

_OF_A_MODEL = {".json", ".safetensors", ".txt", ".model"}
_OTHER_RUNTIMES = {"onnx", "openvino"}
_HUB_NAME = re.compile(r"[\w-][\w.-]*(/[\w.-]+)?")


class FetchParams(Params):
    """The name that settings use for a set."""

    name: str = Field(description="the name")


@dataclass
class FileSource:
    """Source of files: sizes by name, known before download, and a function that copies one into a folder."""

    sizes: dict[str, int]
    bring: Callable[[str, Path], None]
    revision: str | None = None
    single: bool = False


def source_of(place: str, revision: str | None = None, kind: Kind = "model") -> FileSource:
    """Resolve a path, a URL or a Hub name to its files.

    Raises:
        DataError: If nothing has that name.
    """
    if "://" in place or Path(place).expanduser().exists():
        return _files(place if "://" in place else str(Path(place).expanduser().absolute()))
    if not _HUB_NAME.fullmatch(place):
        raise DataError("app.bad_place", place=place)
    return _repository(place, revision, kind)


def _repository(name: str, revision: str | None, kind: Kind) -> FileSource:
    """Return a repository of the Hugging Face Hub, or of the server at HF_ENDPOINT, at a revision's current commit."""
    commit, found = files_of(name, kind, revision)
    sizes = {file: size for file, size in found.items() if kind == "dataset" or _is_of_model(file)}
    if kind == "model" and not any(file.endswith(".safetensors") for file in sizes):
        raise DataError("app.no_safetensors", name=name, commit=commit)
    return FileSource(sizes, partial(download, name, kind, commit), commit)


def _files(url: str) -> FileSource:
    """Return a file or a folder: a local path, or an fsspec URL such as s3://bucket/folder."""
    from fsspec.core import url_to_fs

    try:
        fs, root = url_to_fs(url, **patient_options(url.partition("://")[0]))
        single = url.startswith(("http://", "https://")) or fs.isfile(root)
        found: Any = [root] if single else sorted(fs.find(root))
        if "file" in fs.protocol:
            for path in found:
                refuse_special(Path(path))
        start = 0 if single else len(root.rstrip("/")) + 1
        paths = {at.partition("?")[0].rstrip("/").rpartition("/")[2] if single else at[start:]: at for at in found}
        sizes = {name: int(fs.size(path) or 0) for name, path in paths.items() if not _is_hidden(name)}
    except ImportError as error:
        raise MissingPackageError("app.fetching_needs", url=url, one_line=one_line(error)) from error
    except (OSError, ValueError) as error:
        raise DataError("app.cannot_fetch", url=url, one_line=one_line(error)) from error
    if not sizes:
        raise DataError("app.nothing_to_fetch", url=url)

    def bring(name: str, folder: Path) -> None:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        fs.get_file(paths[name], str(target))

    return FileSource(sizes, bring, single=single)


def fetch(
    store: Store, source: FileSource, place: str, name: str | None = None, tell: Tell = lambda *_: None
) -> FetchedSet:
    """Store all files of a source as the set that `name` refers to from now on (None: `place`)."""
    for file in source.sizes:
        if ".." in PurePosixPath(file).parts or file.startswith("/"):
            raise DataError("app.file_outside_folder", place=place, file=file)
    params = FetchParams(name=name or place)
    bring, writes = partial(_bring_all, source=source, tell=tell), {FILES: Artifact(FILES, 1)}
    stage = Stage(name=STAGE, version=1, params=FetchParams, reads={}, writes=writes, run=bring, pool="driver")
    # The key belongs to the name; source and revision distinguish builds with identical bytes.
    inputs = {"source": place, "revision": source.revision or ""}
    step = Step(stage.name, stage, params, None, inputs, key_of_name(params.name))
    return FetchedSet.of(run_stage(step, inputs, refresh=True, store=store, runtime=Runtime()).meta)


def _bring_all(job: Job[FetchParams], source: FileSource, tell: Tell) -> None:
    folder, done, total = job.new_folder(FILES), 0, sum(source.sizes.values())
    for file in source.sizes:
        source.bring(file, folder)
        done += (folder / file).stat().st_size
        tell(file, done, total)
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # huggingface_hub's own notes
    job.note("single", source.single)


def missing_inputs(exp: Experiment, said: Sequence[str]) -> dict[str, str]:
    """Return, by place, the settings of raw input to fetch that a plan found nowhere, by its messages in `said`."""
    named = [(setting, place) for setting, place in reversed(list(places_of(exp))) if _may_be_fetched(place)]
    found = {place: setting for setting, place in named if any(place in words for words in said)}
    return dict(reversed(found.items()))


def _may_be_fetched(place: str) -> bool:
    return "://" in place or (Path(place).suffix not in SUFFIXES and bool(_HUB_NAME.fullmatch(place)))


def _is_of_model(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix in _OF_A_MODEL and not _OTHER_RUNTIMES & set(path.parts) and not _is_hidden(name)


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in PurePosixPath(name).parts)
