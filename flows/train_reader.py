"""The flow of experiments that train readers: the one for retrievers, under a name of its own."""

from functools import partial

from noisyir.flows.experiment import run_watched
from noisyir.flows.train_retriever import train_retriever

train_reader = train_retriever.with_options(
    name="train_reader", description="Train readers on distant labels, compare their answers, and track it."
)
vars(train_reader).update(__module__=__name__, __name__="train_reader")  # the entrypoint of deployments
run_experiment = partial(run_watched, train_reader)
