"""Ranking documents by one model: encode, index, search; documents whole or cut into passages."""

from typing import TYPE_CHECKING, TypeVar

from noisyir.data.settings import ChunkParams
from noisyir.data.stages.chunk import CHUNK
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.retrieval.settings import BestPassagesParams, Bm25Params, EncodeParams, HybridParams, SearchParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.keep_states import KEEP_STATES
from noisyir.retrieval.stages.search import BEST_PASSAGES, SEARCH

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment

P = TypeVar("P", SearchParams, Bm25Params, HybridParams)
_DOCUMENT_TABLES = ("corpus", "pairs", "qrels")
_WHOLE = "whole_"


def pick(outputs: Outputs, *names: str) -> dict[str, Output]:
    """Some of the outputs."""
    return {name: outputs[name] for name in names}


def encoded(plan: Plan, params: EncodeParams, data: Outputs, model: Output, label: str) -> Outputs:
    """The vectors of documents and queries, from kept states if there are some of the model and these texts."""
    texts = pick(data, "corpus", "queries")
    kept = states_behind(plan, model) if params.backend == "torch" else None
    made = kept and plan.step(kept.step).inputs
    states = {"states": kept} if made and all(made[name] == texts[name] for name in texts) else {}
    return plan.add(ENCODE, params, label, model=model, **texts, **states)


def states_behind(plan: Plan, model: Output) -> Output | None:
    """The kept states of a model, or of the one that it was trained from, if any."""
    found = plan.step(model.step).inputs.get("states")
    if isinstance(found, Output):
        return found
    kept = (step for step in plan.steps if step.stage.name == KEEP_STATES.name and step.inputs["model"] == model)
    return next((Output(step.name, step.stage.name, step.key, "lower_states") for step in kept), None)


def searched(
    plan: Plan, exp: "Experiment", params: SearchParams, data: Outputs, vectors: Outputs, label: str
) -> Outputs:
    """The index and the run of the encoded queries."""
    index = plan.add(INDEX, exp.index, label, doc_vectors=vectors["doc_vectors"])
    run = plan.add(SEARCH, params, label, query_vectors=vectors["query_vectors"], corpus=data["corpus"], **index)
    return {**index, **run}


def ranked(
    plan: Plan, exp: "Experiment", data: Outputs, model: Output, label: str, encode: EncodeParams | None = None
) -> Outputs:
    """One model's run of the held-out queries, and its index; `encode` replaces the experiment's."""
    vectors = encoded(plan, encode or exp.encode, data, model, label)
    return searched(plan, exp, deep_enough(exp.search, exp), data, vectors, label)


def in_passages(plan: Plan, exp: "Experiment", data: Outputs) -> Outputs:
    """The data with its documents cut if the experiment wants that; the tables of whole documents are kept."""
    if exp.chunk.words is None:
        return data
    read = pick(data, *_DOCUMENT_TABLES, "queries", "answers", "given_negatives")
    whole = {f"{_WHOLE}{name}": data[name] for name in _DOCUMENT_TABLES}
    params = ChunkParams(words=exp.chunk.words, overlap=exp.chunk.overlap)  # the depth of search cuts nothing
    return {**data, **whole, **plan.add(CHUNK, params, **read)}


def of_documents(data: Outputs) -> Outputs:
    """The data before its documents were cut, if they were."""
    whole = {name: f"{_WHOLE}{name}" for name in _DOCUMENT_TABLES if f"{_WHOLE}{name}" in data}
    return {**data, **{name: data[kept] for name, kept in whole.items()}}


def deep_enough(params: P, exp: "Experiment") -> P:
    """Settings that search for enough passages to hold the wanted number of documents."""
    return params if exp.chunk.words is None else params.model_copy(update={"top_k": params.top_k * exp.chunk.depth})


def by_best_passage(plan: Plan, exp: "Experiment", data: Outputs, run: Output, label: str) -> Output:
    """A run of `exp.search.top_k` documents; unchanged if documents were not cut."""
    if "cut_passages" not in data:
        return run
    params = BestPassagesParams(top_k=exp.search.top_k)
    return plan.add(BEST_PASSAGES, params, label, run=run, passages=data["cut_passages"])["dense_run"]
