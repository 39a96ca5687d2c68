"""`noisyir init`: write an experiment for the user's own file, to run at once and to edit."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from noisyir.front.commands import (
    ColumnSettings,
    CorpusFile,
    DocumentColumn,
    QueryColumn,
    StoreUrl,
    argument,
    flag,
    open_store,
    option,
    print_json,
    with_columns,
)


def run(
    data: Annotated[str, argument("PAIRS|DATASET", "a file of pairs, or a data set's folder; hf://ORG/NAME")],
    overrides: ColumnSettings = None,
    to: Annotated[str | None, option("FILE", "the experiment's file (default: next to the data, as .yaml)")] = None,
    corpus: CorpusFile = None,
    query: QueryColumn = None,
    document: DocumentColumn = None,
    budget: Annotated[str | None, option("TIME", "of a run, such as 10m; decides whether a transformer fits")] = None,
    dry_run: Annotated[bool, flag("--dry-run", "only say how to train on it, what to expect, and why")] = False,
    as_json: Annotated[bool, flag("--json", "with --dry-run: print one JSON object on stdout, and only that")] = False,
    store: StoreUrl = None,
) -> int:
    """Write an experiment that trains on your own pairs, with findings and choices as comments.

    example: noisyir init pairs.csv && noisyir run pairs.yaml
    """
    from noisyir.app.audit_data import named_after
    from noisyir.app.console import print_text, stdout_console
    from noisyir.app.init import advised, experiment_file
    from noisyir.engine.hub import is_on_hub

    if as_json and not dry_run:
        raise typer.BadParameter("--json goes with --dry-run")
    console, opened, columns = stdout_console(), open_store(store), with_columns(overrides, query, document)
    if dry_run:
        lines, facts = advised(data, opened, corpus=corpus, budget=budget, overrides=columns)
        if as_json:
            return print_json(facts)
        print_text(console, "\n".join(f"{word:<12}{said}" for word, said in lines))
        return 0
    beside = Path() if is_on_hub(data) else Path(data).parent
    target = Path(to) if to else beside / f"{named_after(data)}.yaml"
    print_text(console, experiment_file(data, target, opened, corpus=corpus, budget=budget, overrides=columns))
    print_text(console, f"\n{'written':<12}{target}\n{'next':<12}noisyir run {shlex.quote(str(target))}")
    return 0
