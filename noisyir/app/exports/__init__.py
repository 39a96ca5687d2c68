"""Copies out of the store, a file each, found by its format's name; nothing is computed here.

Each has `SUFFIX`, what its default target ends with, `OF_MODEL` where it writes a model, and
`export(store, name, target, licence)`, which writes what an experiment, a key or a registered model of that name is,
and says what was written and how it is used.
"""

import re
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import iter_modules
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import cast

from noisyir.app.systems import against_export
from noisyir.base.errors import ConfigError, StoreError, did_you_mean
from noisyir.base.variants import entries
from noisyir.engine.store import Store
from noisyir.methods import experiments

GROUP = "noisyir.exports"


def formats() -> list[str]:
    """The formats that there are, those of other packages included; none is loaded."""
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
    """Write a model or a result in a format; what was written, in words, and where.

    to: a file or folder that is not there yet; None: beside, by the name of what is exported.  licence: of the model,
    for its card.  force: also a model that is worth using neither alone nor with BM25.  shape: of scored lists.  What
    was cut off is not there.
    StoreError where `to` is there already or cannot be written; ConfigError for a model that is not worth using.
    """
    module = _module(kind)
    if getattr(module, "OF_MODEL", False) and not force and (doubt := against_export(store, name)):
        raise ConfigError("app.doubtful_export", doubt=doubt)
    stem = re.sub("[/@:]", "-", experiments.name_of(name).removeprefix("models:/"))
    target = Path(to) if to else Path(f"{stem}{module.SUFFIX}")
    if target.exists():
        raise StoreError("app.target_exists", target=target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=target.parent, prefix=".exporting-") as folder:
            half = Path(folder) / target.name
            shaped = {"shape": shape} if shape else {}
            said = str(module.export(store, name, half, licence, **shaped)).replace(str(half), str(target))
            half.rename(target)
        return said, target
    except OSError as error:
        raise StoreError("app.cannot_write", target=target, error=error) from error


def pushed(folder: Path, repository: str) -> str:
    """Send an exported folder to a repository of the Hugging Face Hub, made private where there is none; where it is.

    ConfigError for what is no folder; StoreError, with the Hub's words, where it is refused.
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
        known = ", ".join(formats())
        raise ConfigError(
            "app.unknown_export_format", kind=kind, did_you_mean=did_you_mean(kind, formats()), known=known
        )
    if brought := entries(GROUP, kind):
        return cast(ModuleType, brought[0])
    return import_module(f"{__name__}.{kind.replace('-', '_')}")
