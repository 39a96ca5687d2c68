"""Ranking documents by one model: encode, index, search."""

from typing import TYPE_CHECKING

from noisyir.engine.plan import Plan
from noisyir.engine.stage import Output, Outputs
from noisyir.retrieval.settings import EncodeParams, SearchParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.retrieval.stages.search import SEARCH

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment


def encoded(plan: Plan, params: EncodeParams, data: Outputs, model: Output, label: str) -> Outputs:
    """The vectors of documents and queries."""
    return plan.add(ENCODE, params, label, model=model, corpus=data["corpus"], queries=data["queries"])


def searched(
    plan: Plan, exp: "Experiment", params: SearchParams, data: Outputs, vectors: Outputs, label: str
) -> Outputs:
    """The index and the run of the encoded queries."""
    index = plan.add(INDEX, exp.index, label, doc_vectors=vectors["doc_vectors"])
    run = plan.add(SEARCH, params, label, query_vectors=vectors["query_vectors"], corpus=data["corpus"], **index)
    return {**index, **run}
