"""`noisyir recommend`: how to train on a file of pairs, by the sets of the protocol that are like it."""

from __future__ import annotations

import shlex
from typing import Annotated

from noisyir.front.commands import ColumnSettings, CorpusFile, Json, StoreUrl, argument, open_store, option, print_json


def run(
    data: Annotated[str, argument("PAIRS|DATASET", "a file of pairs, or a data set's folder")],
    overrides: ColumnSettings = None,
    corpus: CorpusFile = None,
    budget: Annotated[str | None, option("TIME", "of a run, as 10m: a transformer where it is enough for one")] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Measure a file of pairs, and say how to train on it and what to expect; `init` writes the same down.

    example: noisyir recommend pairs.csv
    """
    from noisyir.app.data_check import check_data
    from noisyir.app.init import advice_for, most_wrong
    from noisyir.app.recommending import as_json as in_json
    from noisyir.app.recommending import passes_of, sentences

    opened = open_store(store)
    exp, why_model, advice, profile = advice_for(data, opened, corpus=corpus, budget=budget, overrides=overrides or ())
    leaks = check_data(data, beside={"corpus": corpus}).of("leaks")
    if as_json:
        counts = {one.name: one.count for one in leaks}
        return print_json({**in_json(advice, profile), "backbone": exp.model.backbone, "leaks": counts})
    lines = sentences(advice, profile)
    source = shlex.join([data, *(overrides or ()), *(["--corpus", corpus] if corpus else [])])
    most = most_wrong(opened, exp)
    met = ", ".join(f"{one.count:,} of {one.of:,} queries ({one.name})" for one in leaks)
    lines += [
        ("leaks", f"{met}: tests are too easy (noisyir check {source})" if met else "none between training and tests"),
        ("backbone", why_model),
        ("negatives", "from the batch: the protocol measures no mined ones"),
        ("budget", f"{passes_of(advice, exp.train.epochs)} passes over the documents of the pairs"),
        (
            "judge",
            f"50 pairs first: the rate of wrong pairs is not known (noisyir audit {source} --judge)"
            if most is None
            else f"done: at most {most:.0%} of the pairs are wrong by your judgements",
        ),
        ("next", f"noisyir init {source}"),
    ]
    for word, said in lines:
        print(f"{word:<12}{said}")
    return 0
