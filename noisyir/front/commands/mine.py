"""`noisyir mine`: mine hard negatives for a file of pairs, in the columns that trainers read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from noisyir.base.errors import ConfigError, StoreError
from noisyir.front.commands import (
    CorpusFile,
    DocumentColumn,
    QueryColumn,
    StoreUrl,
    Verbose,
    argument,
    open_store,
    option,
    split_settings,
    with_columns,
    written_formats,
)

_FORMAT = "sentence_transformers"
_DEFAULTS = ("mine.run=dense", "mine.sampler=topk")
_NO_COPIES = "mine.filters={max_positive_cosine: 0.95}"
_MINED = 4  # negatives of a query, unless they are the file's own


def run(
    data: Annotated[str, argument("PAIRS|DATASET", "a file of pairs, a data set's folder, or an experiment")],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as mine.sampler=simans")] = None,
    corpus: CorpusFile = None,
    query: QueryColumn = None,
    document: DocumentColumn = None,
    model: Annotated[str | None, option("MODEL", "rank by this model instead of the packaged one")] = None,
    per_query: Annotated[int | None, option("N", "negatives of a query (default: 4; all that the file gives)")] = None,
    pairs_as: Annotated[str, option("FORMAT", "write them in this format", "--as", complete=written_formats)] = _FORMAT,
    to: Annotated[str | None, option("PATH", "where they go (default: NAME-negatives, by the format)")] = None,
    verbose: Verbose = False,
    store: StoreUrl = None,
) -> int:
    """Mine hard negatives: documents that look like an answer to a query, and are not paired with it.

    Without settings it takes the documents that rank highest, without near copies of the query's own.

    example: noisyir mine pairs.csv --per-query 4 --as flagembedding
    """
    from noisyir.app.audit_data import experiment_to_audit, named_after
    from noisyir.app.console import observer_for
    from noisyir.app.pairs_export import export_mined, format_named
    from noisyir.app.runs import Execution, run_experiment
    from noisyir.engine.plan import Choice
    from noisyir.methods.experiments import load_runtime
    from noisyir.methods.plans.retrievers import mine_pairs

    variant = format_named(pairs_as)
    if not variant.holds_negatives:
        holding = [kind for kind, one in variant.variants().items() if one.written is not None and one.holds_negatives]
        raise ConfigError("front.format_without_negatives", pairs_as=pairs_as, holding=", ".join(holding))
    target = Path(to or f"{named_after(data)}-negatives{variant.written}")
    if target.exists():
        raise StoreError("front.target_exists", target=target)
    given = "mine.run=given" in (overrides or ())
    judged = any(text.startswith("mine.judges=") for text in overrides or ())
    defaults = [*_DEFAULTS, *([] if given and judged else [_NO_COPIES])]
    if per_query is not None or not given:
        defaults.append(f"mine.per_query={_MINED if per_query is None else per_query}")
    settings, machine = split_settings([*defaults, *with_columns(overrides, query, document)])
    exp = experiment_to_audit(data, settings, corpus=corpus, model=model).model_copy(update={"audit": None})
    opened = open_store(store)
    with observer_for(sys.stderr, verbose=verbose, phases=False) as observer:
        execution = Execution(store=opened, runtime=load_runtime(machine), observer=observer)
        outcome = run_experiment(exp, Choice(), execution, pipeline=mine_pairs)
    print(export_mined(opened, outcome, variant, target, exp))
    return 0
