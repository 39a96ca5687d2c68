"""`noisyir export`: copy out of the store what other tools load."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from noisyir.commands import Model, StoreUrl, open_store, option


def _formats() -> list[str]:
    """The files that write a format, to complete one and to name them in the help, without loading any."""
    return sorted(p.stem.replace("_", "-") for p in (Path(__file__).parents[1] / "app" / "exports").glob("[a-z]*.py"))


_FORMAT = f"{', '.join(_formats())} (docs/export.md)"
_PUSH = "send the model to this repository of the Hugging Face Hub, too; nothing is sent without it"


def run(
    model: Model,
    to: Annotated[str | None, option("PATH", "a folder or file that does not exist yet (default: by the name)")] = None,
    layout: Annotated[str, option("FORMAT", _FORMAT, "--format", complete=_formats)] = "sentence-transformers",
    licence: Annotated[
        str | None, option("ID", "the model's licence, for its card: apache-2.0, cc-by-4.0, ...")
    ] = None,
    push: Annotated[str | None, option("REPO", _PUSH)] = None,
    store: StoreUrl = None,
) -> int:
    """Copy a model with its card, or results, out of the store.

    example: noisyir export demo --to my-model
    """
    from noisyir.app.exports import export, pushed

    said, target = export(open_store(store), model, layout, to, licence)
    print(said)
    if push:
        print(pushed(target, push))
    return 0
