"""ensemble: the answers of several readers as one."""

import numpy as np
import pyarrow as pa

from noisyir.engine.stage import Job, Stage
from noisyir.errors import DataError
from noisyir.readers.settings import EnsembleParams
from noisyir.schemas.reading import READINGS

_PLACE = ("doc_id", "start", "end")


def ensemble(job: Job[EnsembleParams]) -> None:
    """Add up over readers what each gives an answer: its softmax among the question's best; keep the highest sums.

    An answer is its text; its place is that of the reader which gives it most.  One that is not among a reader's best
    has nothing of it.  The score is the mean over readers; equals are in the order of their texts.
    """
    from noisyir.retrieval.texts import places

    tables = job.tables("readings")
    if not tables:
        raise DataError("ensemble: there are no readings: name readers in reader.ensemble")
    each = pa.concat_tables([table.append_column("share", pa.array(shares(table))) for table in tables.values()])
    answer = [("query_id", "ascending"), ("answer", "ascending")]
    each = each.sort_by([*answer, ("share", "descending"), *((name, "ascending") for name in _PLACE)])
    # rows lie by answer, the best place first: groups come in that order, and add up in it
    found = each.group_by(["query_id", "answer"], use_threads=False).aggregate(
        [("share", "sum"), *((name, "first") for name in _PLACE)]
    )
    found = found.rename_columns(["query_id", "answer", "share", *_PLACE])
    found = found.sort_by([("query_id", "ascending"), ("share", "descending"), ("answer", "ascending")])
    _, place = places(found)
    kept = found.append_column("rank", pa.array(place + 1, pa.int32())).filter(pa.array(place < job.params.n_best))
    score = pa.array(kept["share"].to_numpy() / len(tables), pa.float32())
    job.write("readings", kept.append_column("score", score))


def shares(readings: pa.Table) -> np.ndarray:
    """exp(s) / sum of exp(s) over the question's spans, of each row's score s, in float64."""
    question = readings["query_id"].combine_chunks().dictionary_encode().indices.to_numpy()
    scores = readings["score"].to_numpy().astype(np.float64)
    highest = np.full(int(question.max(initial=-1)) + 1, -np.inf)
    np.maximum.at(highest, question, scores)
    masses = np.exp(scores - highest[question])
    return np.asarray(masses / np.bincount(question, masses, len(highest))[question])


ENSEMBLE = Stage(
    name="ensemble",
    version=1,
    params=EnsembleParams,
    reads={"readings": READINGS.all().each()},
    writes={"readings": READINGS},
    run=ensemble,
    pool="driver",
)
