"""Hard negatives of the training queries, mined with one model: ranked, judged, and drawn."""

from collections.abc import Mapping
from dataclasses import dataclass

from noisyir.config import Experiment, RandomRunParams
from noisyir.methods.searching import encoded, searched
from noisyir.plan import Output, Outputs, Plan
from noisyir.stages.bm25 import BM25
from noisyir.stages.bm25_index import BM25_INDEX
from noisyir.stages.candidates import CANDIDATES
from noisyir.stages.mine import MINE
from noisyir.stages.random_run import RANDOM_RUN


@dataclass(frozen=True)
class Mined:
    """What one mining wrote: all candidates, what each judge said of them, and those drawn."""

    candidates: Output
    verdicts: Mapping[str, Output]
    negatives: Output


def mine(plan: Plan, exp: Experiment, data: Outputs, model: Output, pairs: Output, label: str) -> Mined:
    """Rank the training queries as `mine.run` says, and draw; scores are the model's, whoever ranks.

    Of BM25's ranking they are computed if drawing needs them.
    """
    params, own = exp.mine, f"{label}:train" if label else "train"
    training = exp.encode.model_copy(update={"splits": ("train",)})
    vectors: Outputs = {}
    if params.run == "dense":
        vectors = encoded(plan, training, data, model, own)
        search = exp.search.model_copy(update={"top_k": params.rank_to})
        run = searched(plan, exp, search, data, vectors, own)["dense_run"]
    else:
        run = _model_free(plan, exp, data)
        if params.needs_scores:
            vectors = encoded(plan, training, data, model, own)
    candidates = plan.add(
        CANDIDATES,
        params.candidates(),
        label,
        run=run,
        pairs=pairs,
        **_texts(data),
        answers=data["answers"],
        doc_vectors=vectors.get("doc_vectors"),
        query_vectors=vectors.get("query_vectors"),
    )["candidates"]
    drawn = plan.add(MINE, params, label, pairs=pairs, candidates=candidates)
    return Mined(candidates, {}, drawn["negatives"])


def _model_free(plan: Plan, exp: Experiment, data: Outputs) -> Output:
    """The training queries' run by BM25, or at random over the whole corpus."""
    if exp.mine.run == "random":
        return plan.add(RANDOM_RUN, RandomRunParams(top_k=exp.mine.rank_to), **_texts(data))["random_run"]
    lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
    params = exp.bm25.model_copy(update={"splits": ("train",), "top_k": exp.mine.rank_to})
    return plan.add(BM25, params, "train", queries=data["queries"], **lexical)["bm25_run"]


def _texts(data: Outputs) -> Outputs:
    return {name: data[name] for name in ("queries", "corpus")}
