"""Ranking documents by one model: encode, index, search; documents whole or cut into passages."""

from dataclasses import dataclass, field
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


@dataclass
class Part:
    """A part of a plan: its steps share an experiment, data, and the beginning of their names.

    Attributes:
        label: That beginning; empty if the plan has one such part.
    """

    plan: Plan
    exp: "Experiment"
    data: Outputs
    label: str = field(default="", kw_only=True)

    @property
    def texts(self) -> Outputs:
        """The queries and the documents."""
        return pick(self.data, "queries", "corpus")

    def name(self, label: str) -> str:
        """A step's label in the plan."""
        return ":".join(each for each in (self.label, label) if each)

    def within(self, label: str, exp: "Experiment | None" = None) -> "Part":
        """A part of this one, of another experiment if one is given."""
        return Part(self.plan, exp or self.exp, self.data, label=self.name(label))


def encoded(part: Part, params: EncodeParams, model: Output, label: str) -> Outputs:
    """The vectors of documents and queries, from kept states if there are some of the model and these texts."""
    texts = part.texts
    kept = states_behind(part.plan, model) if params.backend == "torch" else None
    made = kept and part.plan.step(kept.step).inputs
    states = {"states": kept} if made and all(made[name] == texts[name] for name in texts) else {}
    return part.plan.add(ENCODE, params, part.name(label), model=model, **texts, **states)


def states_behind(plan: Plan, model: Output) -> Output | None:
    """The kept states of a model, or of the one that it was trained from, if any."""
    found = plan.step(model.step).inputs.get("states")
    if isinstance(found, Output):
        return found
    kept = (step for step in plan.steps if step.stage.name == KEEP_STATES.name and step.inputs["model"] == model)
    return next((Output(step.name, step.stage.name, step.key, "lower_states") for step in kept), None)


def searched(part: Part, params: SearchParams, vectors: Outputs, label: str) -> Outputs:
    """The index and the run of the encoded queries."""
    plan, name = part.plan, part.name(label)
    index = plan.add(INDEX, part.exp.index, name, doc_vectors=vectors["doc_vectors"])
    read = {"query_vectors": vectors["query_vectors"], "corpus": part.data["corpus"], **index}
    return {**index, **plan.add(SEARCH, params, name, **read)}


def ranked(part: Part, model: Output, label: str, encode: EncodeParams | None = None) -> Outputs:
    """One model's run of the held-out queries, and its index; `encode` replaces the experiment's."""
    vectors = encoded(part, encode or part.exp.encode, model, label)
    return searched(part, deep_enough(part.exp.search, part.exp), vectors, label)


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


def by_best_passage(part: Part, run: Output, label: str) -> Output:
    """A run of `exp.search.top_k` documents; unchanged if documents were not cut."""
    if "cut_passages" not in part.data:
        return run
    params, passages = BestPassagesParams(top_k=part.exp.search.top_k), part.data["cut_passages"]
    return part.plan.add(BEST_PASSAGES, params, part.name(label), run=run, passages=passages)["dense_run"]
