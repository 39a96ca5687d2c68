"""`noisyir recommend`: how to train on a file of pairs, by the sets of the protocol that are like it."""

from __future__ import annotations

from typing import Annotated

from noisyir.commands import CorpusFile, Json, StoreUrl, argument, open_store, option, print_json


def run(
    data: Annotated[str, argument("PAIRS|DATASET", "a file of pairs, or a data set's folder")],
    corpus: CorpusFile = None,
    budget: Annotated[str | None, option("TIME", "of a run, as 10m: a transformer where it is enough for one")] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Measure a file of pairs, and say how to train on it and what to expect; `init` writes the same down.

    example: noisyir recommend pairs.csv
    """
    from noisyir.app.init import advice_for
    from noisyir.app.recommending import as_json as in_json
    from noisyir.app.recommending import passes_of, sentences

    exp, why_model, advice, profile = advice_for(data, open_store(store), corpus=corpus, budget=budget)
    if as_json:
        return print_json({**in_json(advice, profile), "backbone": exp.model.backbone})
    lines = sentences(advice, profile)
    lines += [
        ("backbone", why_model),
        ("negatives", "from the batch: the protocol measures no mined ones"),
        ("budget", f"{passes_of(advice, exp.train.epochs)} passes over the documents of the pairs"),
        ("judge", f"50 pairs first: the rate of wrong pairs is not known (noisyir audit {data} --judge)"),
        ("next", f"noisyir init {data}"),
    ]
    for word, said in lines:
        print(f"{word:<12}{said}")
    return 0
