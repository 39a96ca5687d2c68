"""cross_judge: which candidates a cross-encoder finds relevant.

Source: RocketQA's denoised hard negatives (Qu et al., NAACL 2021, arXiv:2010.08191), which drops what scores above 0.1.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.costs.training import judging
from noisyir.engine.stage import Job, Stage
from noisyir.engine.story import told
from noisyir.errors import DataError
from noisyir.mining.judges.cross_encoder import CrossEncoderJudge
from noisyir.mining.judges.ranker import RelevanceJudge
from noisyir.models.weights import classifier_digest, locate_classifier
from noisyir.schemas.data import CORPUS, QUERIES
from noisyir.schemas.training import CANDIDATES, VERDICTS

if TYPE_CHECKING:
    from noisyir.models.cross_encoder import CrossEncoder

Rows = np.ndarray[Any, np.dtype[np.int64]]

_SETTING = "judges.cross_encoder.weights"
_PAIRS_AT_ONCE = 16384  # sorted by length and read together
_REASONS = {True: "a cross-encoder finds it irrelevant", False: "a cross-encoder finds it relevant"}


def cross_judge(job: Job[CrossEncoderJudge]) -> None:
    """Score every candidate by the probability that it is relevant, and keep what is not above the bound."""
    import torch

    from noisyir.models.cross_encoder import load_cross_encoder

    torch.set_num_threads(job.runtime.cpu_threads)
    folder = locate_classifier(job.params.weights, _SETTING)
    judge = load_cross_encoder(folder, job.params.max_len, job.runtime.device)
    found = job.table("candidates")
    write_verdicts(job, found, relevance(job, judge, found))


def write_verdicts(job: Job[Any], found: pa.Table, score: np.ndarray) -> None:
    """Write the verdicts on these candidates by their probabilities, float32, of being relevant."""
    params: RelevanceJudge = job.params
    bound = np.full(len(found), params.max_relevance, np.float32)
    keep = pa.array(score <= bound)
    job.write(
        "verdicts",
        found.append_column("score", pa.array(score))
        .append_column("bound", pa.array(bound))
        .append_column("keep", keep)
        .append_column("reason", pc.if_else(keep, _REASONS[True], _REASONS[False])),
    )
    job.note(job.step.stage.name, {"judged": len(found), "dropped": pc.sum(pc.invert(keep)).as_py() or 0})


def relevance(job: Job[Any], judge: "CrossEncoder", found: pa.Table) -> np.ndarray:
    """The probability, float32, of each candidate (query_id, doc_id).

    Candidates whose query and document read alike are read once, so their scores are equal; blocks of pairs of texts,
    in the order of their ids.  DataError when the corpus or the queries lack what the candidates name.
    """
    from noisyir.models.cross_encoder import Texts

    query, queries = _queries(job, found)
    document, documents = _documents(job, found)
    keys, place = np.unique(query * len(documents) + document, return_inverse=True)
    logits, done = np.empty(len(keys), np.float32), 0

    def finished(count: int) -> None:
        nonlocal done
        done += count
        job.progress(done, len(keys), "pairs")

    for start in range(0, len(keys), _PAIRS_AT_ONCE):
        some = slice(start, start + _PAIRS_AT_ONCE)
        asked, read = (numbers.tolist() for numbers in np.divmod(keys[some], len(documents)))
        texts = Texts([queries[number] for number in asked], [documents[number] for number in read])
        logits[some] = judge.logits(texts, job.runtime.batch_tokens, finished)
    probability: np.ndarray = np.exp(-np.logaddexp(0, -logits.astype(np.float64)))[place].astype(np.float32)
    return probability


def _queries(job: Job[Any], found: pa.Table) -> tuple[Rows, list[str]]:
    queries = job.table("queries")
    return _numbered(found["query_id"], queries["query_id"].to_pylist(), queries["text"].to_pylist(), "queries")


def _documents(job: Job[Any], found: pa.Table) -> tuple[Rows, list[str]]:
    from noisyir.models.tokens import passage_text

    wanted = found["doc_id"].unique()
    ids: list[str] = []
    texts: list[str] = []
    for batch in job.batches("corpus"):
        some = batch.filter(pc.is_in(batch["doc_id"], value_set=wanted))
        ids += some["doc_id"].to_pylist()
        texts += map(passage_text, some["title"].to_pylist(), some["text"].to_pylist())
    return _numbered(found["doc_id"], ids, texts, "documents")


def _numbered(named: pa.ChunkedArray, ids: list[str], texts: list[str], source: str) -> tuple[Rows, list[str]]:
    """For each named id the number of its text, and each text once; numbered in the order of the ids."""
    by_id = sorted(zip(ids, texts, strict=True))
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(text, len(number_of)) for _, text in by_id], np.int64)
    places = pc.index_in(named, value_set=pa.array([name for name, _ in by_id], pa.string()))
    if places.null_count:
        example = named.filter(pc.is_null(places))[0].as_py()
        raise DataError(
            f"no {example!r} among the {source}, which a candidate names: judge candidates found in these very texts"
        )
    return numbers[places.to_numpy()], list(number_of)


READ_BY_CROSS_ENCODERS = {
    "candidates": CANDIDATES["query_id", "doc_id"],
    "queries": QUERIES["query_id", "text"],
    "corpus": CORPUS["doc_id", "title", "text"],
}


def _weights_digest(params: CrossEncoderJudge) -> str:
    return classifier_digest(params.weights, _SETTING)


CROSS_JUDGE = Stage(
    name="cross_judge",
    version=1,
    params=CrossEncoderJudge,
    reads=READ_BY_CROSS_ENCODERS,
    writes={"verdicts": VERDICTS},
    run=cross_judge,
    raw={"weights": _weights_digest},
    pool="gpu",
    cost=judging,
    story=partial(
        told,
        "cross_judge",
        "A cross-encoder: {dropped:,} of {judged:,} candidate negatives were dropped as relevant.",
    ),
)
