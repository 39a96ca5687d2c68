"""Exports from the store, one module per format, looked up by format name; nothing is computed here.

Each module has `SUFFIX`, the suffix of its default target, `OF_MODEL` if it writes a model, and
`export(store, name, target, licence)`, which writes the experiment, key or registered model of that name and returns a
description of the files and their use.
"""

import re
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import cast

from noisyir.app.systems import against_export
from noisyir.base.errors import ConfigError, NoisyirError, StoreError, suggested
from noisyir.base.variants import entries
from noisyir.engine.store import Store
from noisyir.methods import experiments

GROUP = "noisyir.exports"


def formats() -> list[str]:
    """Return the available formats, including other packages' formats, without loading any."""
    own = [module.name.replace("_", "-") for module in iter_modules(__path__)]
    return sorted([*own, *entry_points(group=GROUP).names])


def export(
    store: Store,
    name: str,
    kind: str,
    to: str | None,
    licence: str | None,
    *,
    force: bool = False,
    shape: str | None = None,
) -> tuple[str, Path]:
    """Write a model or a result in a format; return a description and the path.

    A failed export leaves nothing behind.

    Args:
        name: Experiment, key or registered model.
        to: New file or folder; None: the current folder, named after the export.
        force: Also export models that are not worth using, alone or with BM25.
        shape: Layout of scored lists.

    Raises:
        StoreError: If `to` exists or cannot be written.
        ConfigError: If the model is not worth using.
    """
    module = _module(kind)
    if getattr(module, "OF_MODEL", False) and not force and (doubt := against_export(store, name)):
        raise ConfigError("app.doubtful_export", doubt=doubt)
    stem = re.sub("[/@:]", "-", experiments.name_of(name).removeprefix("models:/"))
    target = Path(to) if to else Path(f"{stem}{module.SUFFIX}")
    if target.exists():
        raise StoreError("app.target_exists", target=target)
    shaped = {"shape": shape} if shape else {}
    return written_whole(target, lambda half: module.export(store, name, half, licence, **shaped)), target


def written_whole(target: Path, write: Callable[[Path], object]) -> str:
    """Write all files of an export, or none; return the description that `write` returns.

    Raises:
        StoreError: If one of them exists or cannot be written.
    """
    with StoreError.wrapping("app.cannot_write", target=target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=".exporting-") as made_in:
            folder, place = f"{Path(made_in)}/", str(target).removesuffix(target.name)
            try:
                said = str(write(Path(folder) / target.name)).replace(folder, place)
            except NoisyirError as error:
                if folder not in str(error):
                    raise
                raise type(error)(str(error).replace(folder, place)) from error
            made = [(path, target.parent / path.name) for path in Path(folder).iterdir()]
            if there := [str(path) for _, path in made if path.exists()]:
                raise StoreError("app.target_exists", target=there[0])
            for path, final in made:
                path.rename(final)
        return said


def pushed(folder: Path, repository: str) -> str:
    """Upload an exported folder to a Hugging Face Hub repository, created as private if missing; return its URL.

    Raises:
        ConfigError: If it is not a folder.
        StoreError: If the Hub refuses, with the Hub's message.
    """
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalTokenNotFoundError

    if not folder.is_dir():
        raise ConfigError("app.push_of_file", folder=folder)
    try:
        hub = HfApi()
        hub.create_repo(repository, private=True, exist_ok=True)
        return str(hub.upload_folder(repo_id=repository, folder_path=folder, commit_message="noisyir export"))
    except (HfHubHTTPError, HFValidationError, LocalTokenNotFoundError, OSError) as error:
        raise StoreError(
            "app.push_refused", folder=folder, repository=repository, reason=str(error).splitlines()[0]
        ) from error


def _module(kind: str) -> ModuleType:
    if kind not in formats():
        raise ConfigError("app.unknown_export_format", kind=kind, others=suggested(kind, formats()))
    if brought := entries(GROUP, kind):
        return cast(ModuleType, brought[0])
    return import_module(f"{__name__}.{kind.replace('-', '_')}")
