"""Reader training stages: the initial reader, and training on labelled spans with the confidences over time."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.stage import Job, Stage, told
from noisyir.models.stages.init_model import digest_of_encoder, init_with_head
from noisyir.readers.artifacts import CONFIDENCES, CONFUSING, READER, SPANS
from noisyir.readers.settings import InitReaderParams, TrainReaderParams
from noisyir.training.artifacts import CURVES
from noisyir.training.stages.inputs import ready, training_context, write_curves

if TYPE_CHECKING:
    from noisyir.readers.instances import Instances
    from noisyir.readers.learning import Confidences
    from noisyir.readers.model import Reader

_SPAN = ["query_id", "doc_id", "start", "end"]


def init_reader(job: Job[InitReaderParams]) -> None:
    """Build the reader, save it, and record its newly initialised weights in the notes."""
    from noisyir.readers.model import initial_reader

    init_with_head(job, initial_reader, "reader")


INIT_READER = Stage(
    name="init_reader",
    version=1,
    params=InitReaderParams,
    reads={},
    writes={"reader": READER},
    run=init_reader,
    seeded=True,
    raw={"weights": partial(digest_of_encoder, kind="reader")},
    pool="driver",
)


def train_reader(job: Job[TrainReaderParams]) -> None:
    """Train on the spans of training questions; write the reader, its curves and, for CDS, the confidences."""
    from noisyir.readers.learning import train_reader as train
    from noisyir.readers.model import load_reader

    reader = ready(job, load_reader, "reader")
    instances, spans = _instances(job, reader)
    curves, confidences = train(reader, instances, job.params, training_context(job))
    reader.save(job.new_folder("reader"))
    write_curves(job, curves)
    _write_confidences(job, spans, confidences)


def _instances(job: Job[TrainReaderParams], reader: "Reader") -> "tuple[Instances, pa.Table]":
    """Return the training instances and their source spans; notes the counts before and after filtering."""
    from noisyir.readers.instances import training_instances
    from noisyir.retrieval.texts import texts_of

    queries = job.table("queries")
    asked = queries.filter(pc.equal(queries["split"], "train"))
    found = job.table("spans")
    spans = found.filter(pc.is_in(found["query_id"], value_set=asked["query_id"]))
    if not spans.num_rows:
        raise DataError("readers.no_training_question_labelled", num_rows=found.num_rows)
    confusing = _confusing(job)
    named = [*spans["doc_id"].chunks, *confusing["confusing"].chunks]
    passages = texts_of(job.batches("corpus"), pa.chunked_array(named, pa.string()))
    labelled = spans.num_rows
    if job.params.objective == "ds_top":
        spans = _top(spans, asked, passages, job.params.top_passages)
    instances, kept = training_instances(reader.tokenizer, spans, asked, passages, confusing)
    counts = {"questions": len(instances.questions), "instances": len(instances), "labelled": labelled}
    job.note("instances", {**counts, "windows": len(instances.window_question)})
    return instances, kept


def _confusing(job: Job[TrainReaderParams]) -> pa.Table:
    """Return the confusing passages; no rows if the objective does not use them."""
    if job.params.objective != "cds" or job.params.beta == 0.0 or job.params.confusing_share == 0.0:
        return CONFUSING.schema.empty_table().select(["query_id", "doc_id", "confusing"])
    if not job.has("confusing"):
        raise ConfigError("readers.reader_train_beta_needs", beta=job.params.beta)
    return job.table("confusing")


def _top(spans: pa.Table, queries: pa.Table, texts: Mapping[str, str], top: int) -> pa.Table:
    """Return the spans that DS-Top trains on.

    Raises:
        DataError: If there are none.
    """
    from noisyir.readers.answer_spans import overlap, top_spans

    asked = dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True))
    spans = spans.sort_by([(name, "ascending") for name in _SPAN])
    kept = [np.empty(0, bool)]
    for query_id, group in groupby(spans.select(_SPAN).to_pylist(), key=lambda row: row["query_id"]):
        rows = [(row["doc_id"], row["start"], row["end"]) for row in group]
        overlaps = [overlap(asked[query_id], texts[doc_id], start, end) for doc_id, start, end in rows]
        lengths = [len(texts[doc_id]) for doc_id, _, _ in rows]
        kept.append(top_spans(overlaps, [doc_id for doc_id, _, _ in rows], lengths, top))
    found = spans.filter(pa.array(np.concatenate(kept)))
    if not found.num_rows:
        raise DataError("readers.ds_top_none_spans", num_rows=spans.num_rows)
    return found


def _write_confidences(job: Job[TrainReaderParams], spans: pa.Table, confidences: "Confidences") -> None:
    """Write the confidences at the start and after each update; no rows for objectives without confidences."""
    history = zip(confidences.history, confidences.chances, strict=True) if job.params.objective == "cds" else []
    with job.writer("confidences") as out:
        for update, (values, chances) in enumerate(history):
            columns = {
                "update": pa.array(np.full(len(values), update), pa.int32()),
                "value": pa.array(values),
                "chance": pa.array(chances, from_pandas=True),  # NaN is null
            }
            out.append(pa.table({**{name: spans[name] for name in _SPAN}, **columns}))


def full_reader(params: TrainReaderParams, start: Mapping[str, Any]) -> Sequence[Any]:
    """Return its learner on full-length windows for a dry run."""
    from noisyir.readers.instances import full_instances
    from noisyir.readers.learning import ReaderLearner
    from noisyir.readers.model import Reader
    from noisyir.training import full_size

    init, files = start["reader"], {"tokenizer.json": full_size.stand_in_tokenizer()}
    model = full_size.bare_model(init, "AutoModelForQuestionAnswering", num_labels=2)
    reader = Reader(model, files, max_len=init.max_len, question_max_len=init.question_max_len)
    reader.at_once = full_size.ALL
    part = params.model_copy(
        update={"batch_size": min(params.questions_at_once or params.batch_size, params.batch_size)}
    )
    learner = ReaderLearner(reader, full_instances(reader.tokenizer, part), part, full_size.constant_rng)
    learner.parts = math.ceil(params.batch_size / part.batch_size)
    return [learner]


TRAIN_READER = Stage(
    name="train_reader",
    version=1,
    params=TrainReaderParams,
    reads={
        "reader": READER.all(),
        "spans": SPANS["query_id", "doc_id", "start", "end", "score"],
        "confusing": CONFUSING["query_id", "doc_id", "confusing"].or_none(),
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "text"],
    },
    writes={"reader": READER, "curves": CURVES, "confidences": CONFIDENCES},
    run=train_reader,
    seeded=True,
    pool="gpu",
    learners=full_reader,
    story=partial(
        told,
        "instances",
        "The reader learned from {instances:,} of {labelled:,} labelled spans, of {questions:,} questions.",
    ),
)
