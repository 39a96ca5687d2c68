"""`noisyir export`: copy results from the store in formats that other tools load."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated

from noisyir.base.errors import ConfigError
from noisyir.front.commands import StoreUrl, argument, experiment_names, flag, open_store, option, written_formats

_MODEL = "sentence-transformers"
_NAME = "an experiment's name, NAME:SYSTEM such as demo:zero_shot, a build's key, or models:/NAME@ALIAS"
_AS = (
    "write pairs in this format, no model: as the audit of MODEL leaves them, or data by its path as it is; with "
    "--format scores: the shape of the lists"
)
_PUSH = "send the model to this repository of the Hugging Face Hub, too; nothing is sent without it"


def _formats() -> list[str]:
    """Names of the export modules, for completion and help, without loading them."""
    own = (Path(__file__).parents[2] / "app" / "exports").glob("[a-z]*.py")
    return sorted([*(p.stem.replace("_", "-") for p in own), *entry_points(group="noisyir.exports").names])


_FORMAT = f"{', '.join(_formats())} (docs/how-to/export.md)"


def run(
    model: Annotated[str, argument("MODEL", _NAME, experiment_names)],
    to: Annotated[str | None, option("PATH", "a folder or file that does not exist yet (default: by the name)")] = None,
    layout: Annotated[str, option("FORMAT", _FORMAT, "--format", complete=_formats)] = _MODEL,
    licence: Annotated[
        str | None, option("ID", "the model's licence, for its card: apache-2.0, cc-by-4.0, ...")
    ] = None,
    pairs_as: Annotated[str | None, option("FORMAT", _AS, "--as", complete=written_formats)] = None,
    drop: Annotated[bool, flag("--drop", "with --as: leave wrong pairs out, in formats that hold weights too")] = False,
    force: Annotated[
        bool, flag("--force", "also a model that is no better than none; with --as: also without a random sample")
    ] = False,
    push: Annotated[str | None, option("REPO", _PUSH)] = None,
    store: StoreUrl = None,
) -> int:
    """Copy a model with its card, results, or pairs as an audit leaves them, out of the store.

    example: noisyir export demo --to my-model
    """
    if pairs_as is None and drop:
        raise ConfigError("front.drop_without_as")
    if pairs_as is not None and layout != "scores":
        if layout != _MODEL or licence or push:
            raise ConfigError("front.pairs_and_model_options")
        from noisyir.app.pairs_export import export_pairs

        print(export_pairs(open_store(store), model, pairs_as, to, drop=drop, force=force)[0])
        return 0
    from noisyir.app.exports import export, pushed

    said, target = export(open_store(store), model, layout, to, licence, force=force, shape=pairs_as)
    print(said)
    if push:
        print(pushed(target, push))
    return 0
