"""Prefect flows: `from noisyir.flows import train_retriever`.  They call pipelines and never restate the graph.

Each can be called, served and deployed, and be part of other flows; `stage` gives single stages for flows of one's own.
"""

import noisyir.tasks  # noqa: F401 - switches telemetry off before prefect is imported

# isort: split
from noisyir.flows.bench_noise import bench_noise
from noisyir.flows.chained import stage
from noisyir.flows.denoise import denoise
from noisyir.flows.fetch import fetch
from noisyir.flows.nightly import nightly
from noisyir.flows.promote import promote
from noisyir.flows.refresh_corpus import refresh_corpus
from noisyir.flows.single_stage import single_stage
from noisyir.flows.train_reader import train_reader
from noisyir.flows.train_retriever import train_retriever

__all__ = [
    "bench_noise",
    "denoise",
    "fetch",
    "nightly",
    "promote",
    "refresh_corpus",
    "single_stage",
    "stage",
    "train_reader",
    "train_retriever",
]
