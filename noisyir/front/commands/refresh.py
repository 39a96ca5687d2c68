"""`noisyir refresh`: encode and index new documents for a trained model, keeping existing work."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

from noisyir.base.command_line import typed_words
from noisyir.front.commands import Json, Model, StoreUrl, argument, flag, open_store, option, print_json, split_settings


def run(
    model: Model,
    documents: Annotated[
        str | None, argument("DOCUMENTS", "jsonl, csv, tsv or parquet; known ids get the new text")
    ] = None,
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "such as data.on_empty=exclude")] = None,
    remove: Annotated[str | None, option("FILE", "take documents away: one id a line")] = None,
    rebuild: Annotated[bool, flag("--rebuild", "rebuild the index from all vectors, and train it")] = False,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Encode and index new documents for a trained model.

    example: noisyir refresh demo new-documents.jsonl --remove gone.txt
    """
    from noisyir.app.console import observer_for, stdout_console
    from noisyir.app.refresh import refresh_corpus
    from noisyir.app.runs import Execution
    from noisyir.methods import experiments

    if documents and "=" in documents and not Path(documents).exists():  # a setting after MODEL: only --remove
        overrides = [documents, *(overrides or [])]
        documents = None
    changed, machine = split_settings(overrides)
    settings = experiments.load_refresh(
        {"model": model, "data": {"path": documents, "remove": remove}, "rebuild": rebuild}, changed
    )
    runtime, opened = experiments.load_runtime(machine), open_store(store)
    opened.check_writable()
    with observer_for(sys.stderr) as observer:
        done = refresh_corpus(settings, Execution(store=opened, runtime=runtime, observer=observer))
    if as_json:
        return print_json({"run": done.outcome.executed, "cached": done.outcome.cached, **done.counts})
    out = stdout_console()
    out.print(f"\n{done.outcome.executed} run, {done.outcome.cached} cached")
    for name, line in done.lines().items():
        out.print(f"{name:<11} {line}", markup=False)
    instead = [done.best if word == model else word for word in typed_words.get()]
    search = done.searched and f"search {shlex.quote(done.searched)} 'your question'"
    out.print(f"\nnext        noisyir {search or shlex.join(instead)}", markup=False)
    if not search:
        out.print(f"            {model} is not worth using: this refreshes the best system of its run", markup=False)
    return 0
