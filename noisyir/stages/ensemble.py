"""ensemble: the answers of several readers as one."""

import numpy as np
import pyarrow as pa

from noisyir.config import EnsembleParams
from noisyir.errors import DataError
from noisyir.schemas import READINGS
from noisyir.stage import Job, Stage

_SPAN = ["query_id", "doc_id", "start", "end"]


def ensemble(job: Job[EnsembleParams]) -> None:
    """Add up over readers what each gives a span: its softmax among the question's best; keep the highest sums.

    A span that is not among a reader's best has nothing of it.  The score is the mean over readers; equals are in the
    order of document ids and places.
    """
    from noisyir.retrieval.runs import places

    tables = job.tables("readings")
    if not tables:
        raise DataError("ensemble: there are no readings: name readers in reader.ensemble")
    each = [table.append_column("share", pa.array(shares(table))) for table in tables.values()]
    summed = pa.concat_tables(each).group_by([*_SPAN, "answer"], use_threads=False).aggregate([("share", "sum")])
    order = [("query_id", "ascending"), ("share_sum", "descending"), *((name, "ascending") for name in _SPAN[1:])]
    summed = summed.sort_by(order).combine_chunks()
    _, place = places(summed)
    kept = summed.append_column("rank", pa.array(place + 1, pa.int32())).filter(pa.array(place < job.params.n_best))
    score = pa.array(kept["share_sum"].to_numpy() / len(tables), pa.float32())
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
)
