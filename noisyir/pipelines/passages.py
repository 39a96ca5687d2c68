"""Documents cut into passages: what trains and searches is given passages, and what measures is given documents."""

from typing import TypeVar

from noisyir.data.settings import ChunkParams
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.pipelines.experiment import Experiment
from noisyir.retrieval.settings import BestPassagesParams, Bm25Params, SearchParams
from noisyir.stages.data.chunk import CHUNK
from noisyir.stages.retrieval.best_passages import BEST_PASSAGES

P = TypeVar("P", SearchParams, Bm25Params)
_OF_DOCUMENTS = ("corpus", "pairs", "qrels")
_WHOLE = "whole_"


def in_passages(plan: Plan, exp: Experiment, data: Outputs) -> Outputs:
    """The data with its documents cut, where the experiment wants that; the tables of documents stay beside them."""
    if exp.chunk.words is None:
        return data
    read = {name: data[name] for name in (*_OF_DOCUMENTS, "queries", "answers", "given_negatives")}
    whole = {f"{_WHOLE}{name}": data[name] for name in _OF_DOCUMENTS}
    how = ChunkParams(words=exp.chunk.words, overlap=exp.chunk.overlap)  # how deep is searched cuts nothing
    return {**data, **whole, **plan.add(CHUNK, how, **read)}


def of_documents(data: Outputs) -> Outputs:
    """The data as it was before its documents were cut, if they were."""
    return {**data, **{name: data[f"{_WHOLE}{name}"] for name in _OF_DOCUMENTS if f"{_WHOLE}{name}" in data}}


def deep_enough(params: P, exp: Experiment) -> P:
    """A search for so many passages that enough documents are among them."""
    return params if exp.chunk.words is None else params.model_copy(update={"top_k": params.top_k * exp.chunk.depth})


def by_best_passage(plan: Plan, exp: Experiment, data: Outputs, run: Output, label: str) -> Output:
    """A run as one of documents, as many as `exp.search` says; as it stands where documents were not cut."""
    if "cut_passages" not in data:
        return run
    kept = BestPassagesParams(top_k=exp.search.top_k)
    return plan.add(BEST_PASSAGES, kept, label, run=run, passages=data["cut_passages"])["dense_run"]
