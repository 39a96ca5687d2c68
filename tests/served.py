"""A small experiment with a model, an index and BM25, and a server of it on a port of its own."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa
import torch
import uvicorn

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.settings import Params
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.methods.plans.experiment import Experiment
from noisyir.models.artifacts import MODEL, RANKER
from noisyir.models.bi_encoder import BiEncoder
from noisyir.retrieval.artifacts import LEXICAL_INDEX
from noisyir.retrieval.settings import Bm25IndexParams, Bm25Params, EncodeParams, IndexParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.retrieval.stages.index import INDEX
from noisyir.serving.options import ServeOptions
from noisyir.serving.server import application
from tests.tiny_models import static_encoder

DOCUMENTS = 200
http = httpx.Client(trust_env=False, verify=False, timeout=60)  # certificates would be read again for each call
NAME = "world"


class Nothing(Params):
    """No settings."""


def words(number: int) -> list[str]:
    """Five words of a document, the same each time."""
    return [f"w{word}" for word in np.random.default_rng(number).choice(60, 5, replace=False)]


def corpus() -> pa.Table:
    rows = range(DOCUMENTS)
    return pa.table(
        {
            "doc_id": [f"d{n}" for n in rows],
            "doc_row": pa.array(rows, pa.int32()),
            "title": [f"w{n % 60}" if n % 2 else "" for n in rows],
            "text": [" ".join(words(n)) for n in rows],
        }
    )


def random_encoder(seed: int = 0, dim: int = 16, similarity: str = "cosine", *, shared: bool = True) -> BiEncoder:
    vectors = torch.randn(60, dim, generator=torch.Generator().manual_seed(seed))
    return static_encoder(vectors, similarity, shared=shared)


def make_world(
    store: Store, encoder: BiEncoder, *, ranker: Path | None = None, name: str = NAME, documents: pa.Table | None = None
) -> Store:
    """Run an experiment that keeps this model, with its documents (of none, those of `corpus`) encoded and indexed."""

    def data(job: Job[Nothing]) -> None:
        job.write("corpus", corpus() if documents is None else documents)
        queries = {"query_id": ["q0", "q1"], "text": ["w1 w2", "w3"], "split": ["dev", "test"]}
        job.write("queries", pa.table(queries))

    def model(job: Job[Nothing]) -> None:
        encoder.save(job.new_folder("model"))

    def trained_ranker(job: Job[Nothing]) -> None:
        folder = job.new_folder("ranker")
        for path in ranker.iterdir():
            (folder / path.name).write_bytes(path.read_bytes())

    def read(job: Job[Nothing]) -> None:
        job.new_folder("ranker")

    reads = {"lexical_index": LEXICAL_INDEX.all()}  # as a detector does, whose settings are not those of BM25
    another_reader = Stage(f"reader_{name}", 1, Nothing, reads, {"ranker": RANKER}, read)
    given = Stage("given", 1, Nothing, {}, {"corpus": CORPUS, "queries": QUERIES}, data)
    made = Stage(f"made_{name}", 1, Nothing, {}, {"model": MODEL}, model)

    def planned(exp: Experiment) -> Plan:
        plan = Plan(exp.seed)
        texts, of = plan.add(given, Nothing()), plan.add(made, Nothing())["model"]
        vectors = plan.add(ENCODE, EncodeParams(), model=of, **texts)
        index = plan.add(INDEX, IndexParams(), doc_vectors=vectors["doc_vectors"])["index"]
        terms = plan.add(BM25_INDEX, Bm25IndexParams(engine="bm25s"), corpus=texts["corpus"])["lexical_index"]
        plan.add(BM25, Bm25Params(k1=1.2), lexical_index=terms, queries=texts["queries"])
        plan.add(another_reader, Nothing(), lexical_index=terms)
        kept = {"model": of, "index": index}
        if ranker:
            kept["ranker"] = plan.add(Stage("ranked", 1, Nothing, {}, {"ranker": RANKER}, trained_ranker), Nothing())[
                "ranker"
            ]
        plan.keep(**kept)
        return plan

    run_experiment(Experiment(name=name), Choice(), Execution(store=store), pipeline=planned)
    return store


@contextmanager
def serving(options: ServeOptions) -> Iterator[str]:
    """A server in this process, and its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(application(options), log_level="warning", access_log=False))
    thread = threading.Thread(target=server.run, args=([listening],), daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server ended"
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


def options(store: Store, **more: object) -> ServeOptions:
    return ServeOptions(**{"model": NAME, "store": store.url, "threads": 1, "wait_ms": 1.0, **more})
