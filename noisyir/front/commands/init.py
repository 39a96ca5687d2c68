"""`noisyir init`: an experiment for a file of one's own, to run at once and to change."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from noisyir.front.commands import (
    ColumnSettings,
    CorpusFile,
    DocumentColumn,
    QueryColumn,
    StoreUrl,
    argument,
    open_store,
    option,
    with_columns,
)


def run(
    data: Annotated[str, argument("PAIRS|DATASET", "a file of pairs, or a data set's folder; hf://ORG/NAME")],
    overrides: ColumnSettings = None,
    to: Annotated[str | None, option("FILE", "the experiment's file (default: next to the data, as .yaml)")] = None,
    corpus: CorpusFile = None,
    query: QueryColumn = None,
    document: DocumentColumn = None,
    budget: Annotated[str | None, option("TIME", "of a run, as 10m: a transformer where it is enough for one")] = None,
    store: StoreUrl = None,
) -> int:
    """Write an experiment that trains on your own pairs: the findings and the choices are comments.

    example: noisyir init pairs.csv && noisyir run pairs.yaml
    """
    from noisyir.app.init import experiment_file
    from noisyir.app.label_audit import named_after
    from noisyir.engine.hub import is_on_hub

    beside = Path() if is_on_hub(data) else Path(data).parent
    target = Path(to) if to else beside / f"{named_after(data)}.yaml"
    found = experiment_file(
        data,
        target,
        open_store(store),
        corpus=corpus,
        budget=budget,
        overrides=with_columns(overrides, query, document),
    )
    print(found)
    typed = shlex.quote(str(target))
    print(f"\n{'written':<12}{target}")
    print(f"{'next':<12}noisyir audit {typed}    which of the pairs are wrong\n{'':<12}noisyir run {typed}")
    return 0
