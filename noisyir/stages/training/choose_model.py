"""choose_model: of several ways of training, the one that held-out pairs prefer; plain training where none is."""

import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from noisyir.engine.builds import Meta
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.eval.choice import choose
from noisyir.report.trials import told_trials
from noisyir.schemas.data import CORPUS, QRELS, QUERIES
from noisyir.schemas.training import CURVES, MODEL, TRIAL, TRIALS
from noisyir.training.settings import ChooseModelParams

if TYPE_CHECKING:
    import numpy as np

PLAIN = "dpr"
"""What is chosen unless another way is better; and what each is compared with."""


def choose_model(job: Job[ChooseModelParams]) -> None:
    """Rank the held-out queries by every trial's model; pass on the chosen way's model and curves, and the trials."""
    import numpy as np

    trials: dict[str, list[np.ndarray]] = {}
    for label, values in _gains(job).items():
        trials.setdefault(label.partition(":")[0], []).append(values)
    rows = choose(trials, PLAIN, job.params.alpha, same_queries=_same_queries(job))
    (chosen,) = (row["method"] for row in rows if row["chosen"])
    job.write("trials", pa.Table.from_pylist(rows, schema=TRIALS.schema))
    job.note("chosen", chosen)
    shutil.copytree(job.store.folder(job.refs("models")[chosen]), job.new_folder("model"), dirs_exist_ok=True)
    job.write("curves", job.tables("curves")[chosen])


def _same_queries(job: Job[ChooseModelParams]) -> bool:
    """Whether every trial ranks the same queries, those of dev, or each its own."""
    return not any(trial.num_rows for trial in job.tables("held").values())


def _gains(job: Job[ChooseModelParams]) -> "dict[str, np.ndarray]":
    """nDCG@10 of each held-out query by each trial's model: what experiments are measured by."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.training.job import held_out, held_relevance, searched_documents
    from noisyir.training.validation import dev_ranks, discounted_gains

    torch.set_num_threads(job.runtime.cpu_threads)
    found, models, documents = {}, job.refs("trials"), None
    asked = {number: held_relevance(job, trial) for number, trial in job.tables("held").items()}
    for number, relevance in asked.items():
        held = None
        for label in (label for label in models if label.partition(":")[2] == number):
            encoder = load_bi_encoder(job.store.folder(models[label]), job.runtime.device)
            if documents is None:
                documents = searched_documents(job, encoder, pa.concat_tables(asked.values())["doc_id"])
            held = held or held_out(job, encoder, relevance, documents)
            assert held is not None
            found[label] = discounted_gains(dev_ranks(encoder, held).cpu().numpy())
            job.progress(len(found), len(models), "models")
    return found


def _story(meta: Meta, store: Store) -> Iterator[str]:
    """What was tried, by how much each way differs from plain training, and what was chosen."""
    yield from told_trials(read_parts(store.fs, store.parts(meta.ref("trials"))))


CHOOSE_MODEL = Stage(
    name="choose_model",
    version=5,
    params=ChooseModelParams,
    reads={
        "models": MODEL.all().each(),
        "curves": CURVES.all().each(),
        "trials": MODEL.all().each(),
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        "held": TRIAL.all().each(),
    },
    writes={"model": MODEL, "curves": CURVES, "trials": TRIALS},
    run=choose_model,
    seeded=True,
    pool="gpu",
    story=_story,
)
