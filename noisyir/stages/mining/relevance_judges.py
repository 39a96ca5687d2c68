"""cross_judge, ranker_judge: which candidates a cross-encoder finds relevant, one given or the one that is trained.

Source: RocketQA's denoised hard negatives (Qu et al., NAACL 2021, arXiv:2010.08191), which drops what scores above 0.1.
"""

from collections.abc import Mapping
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
from noisyir.mining.judges.ranker import RankerJudge, RelevanceJudge
from noisyir.models.weights import classifier_digest, locate_classifier
from noisyir.schemas.data import CORPUS, QUERIES
from noisyir.schemas.training import CANDIDATES, RANKER, VERDICTS

if TYPE_CHECKING:
    from noisyir.models.cross_encoder import CrossEncoder

Rows = np.ndarray[Any, np.dtype[np.int64]]

_PAIR = ["query_id", "doc_id"]
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
    _write_verdicts(job, found, _relevance(job, judge, found))


def ranker_judge(job: Job[RankerJudge]) -> None:
    """Score every candidate as `cross_judge` does; what the same ranker has scored already is not read again."""
    import torch

    from noisyir.models.cross_encoder import load_cross_encoder
    from noisyir.models.ranker import ranker_max_len

    torch.set_num_threads(job.runtime.cpu_threads)
    folder, found = job.folder("ranker"), job.table("candidates")
    score = _scored_already(job, found)
    new = np.isnan(score)
    judge = load_cross_encoder(folder, ranker_max_len(folder), job.runtime.device)
    score[new] = _relevance(job, judge, found.filter(pa.array(new)))
    _write_verdicts(job, found, score)
    job.note("pairs_read", int(new.sum()))


def _scored_already(job: Job[RankerJudge], found: pa.Table) -> np.ndarray:
    """The scores, float32, that earlier verdicts give to these candidates, the first that does; NaN: none does."""
    score = np.full(len(found), np.nan, np.float32)
    numbered = found.select(_PAIR).append_column("row", pa.array(np.arange(len(found))))
    for said in job.tables("judged").values():
        earlier = numbered.join(said, _PAIR, join_type="inner")
        rows = earlier["row"].to_numpy()
        score[rows] = np.where(np.isnan(score[rows]), earlier["score"].to_numpy(), score[rows])
    return score


def _write_verdicts(job: Job[Any], found: pa.Table, score: np.ndarray) -> None:
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


def _relevance(job: Job[Any], judge: "CrossEncoder", found: pa.Table) -> np.ndarray:
    """The probability, float32, of each candidate (query_id, doc_id).

    Candidates whose query and document read alike are read once, so their scores are equal; blocks of pairs of texts,
    in the order of their ids.  DataError when the corpus or the queries lack what the candidates name.
    """
    from noisyir.models.cross_encoder import Texts
    from noisyir.retrieval.texts import passages_of

    texts = job.table("queries")
    asked = dict(zip(texts["query_id"].to_pylist(), texts["text"].to_pylist(), strict=True))
    query, queries = _numbered(found["query_id"], asked, "queries")
    document, documents = _numbered(found["doc_id"], passages_of(job.batches("corpus"), found["doc_id"]), "documents")
    keys, place = np.unique(query * len(documents) + document, return_inverse=True)
    logits, done = np.empty(len(keys), np.float32), 0

    def finished(count: int) -> None:
        nonlocal done
        done += count
        job.progress(done, len(keys), "pairs")

    for start in range(0, len(keys), _PAIRS_AT_ONCE):
        some = slice(start, start + _PAIRS_AT_ONCE)
        first, second = (numbers.tolist() for numbers in np.divmod(keys[some], len(documents)))
        pairs = Texts([queries[number] for number in first], [documents[number] for number in second])
        logits[some] = judge.logits(pairs, job.runtime.batch_tokens, finished)
    return np.exp(-np.logaddexp(0, -logits.astype(np.float64)))[place].astype(np.float32)


def _numbered(named: pa.ChunkedArray, texts: Mapping[str, str], source: str) -> tuple[Rows, list[str]]:
    """For each named id the number of its text, and each text once; numbered in the order of the ids."""
    by_id = dict(sorted(texts.items()))
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(text, len(number_of)) for text in by_id.values()], np.int64)
    places = pc.index_in(named, value_set=pa.array(by_id, pa.string()))
    if places.null_count:
        example = named.filter(pc.is_null(places))[0].as_py()
        raise DataError(
            f"no {example!r} among the {source}, which a candidate names: judge candidates found in these very texts"
        )
    return numbers[places.to_numpy()], list(number_of)


_READS = {
    "candidates": CANDIDATES["query_id", "doc_id"],
    "queries": QUERIES["query_id", "text"],
    "corpus": CORPUS["doc_id", "title", "text"],
}


CROSS_JUDGE = Stage(
    name="cross_judge",
    version=1,
    params=CrossEncoderJudge,
    reads=_READS,
    writes={"verdicts": VERDICTS},
    run=cross_judge,
    raw={"weights": lambda params: classifier_digest(params.weights, _SETTING)},
    pool="gpu",
    cost=judging,
    story=partial(
        told, "cross_judge", "A cross-encoder: {dropped:,} of {judged:,} candidate negatives were dropped as relevant."
    ),
)

RANKER_JUDGE = Stage(
    name="ranker_judge",
    version=1,
    params=RankerJudge,
    reads={
        "ranker": RANKER.all(),
        "judged": VERDICTS["query_id", "doc_id", "score"].each().or_none(),
        **_READS,
    },
    writes={"verdicts": VERDICTS},
    run=ranker_judge,
    pool="gpu",
    cost=judging,
    story=partial(
        told,
        "ranker_judge",
        "The trained ranker: {dropped:,} of {judged:,} candidate negatives were dropped as relevant.",
    ),
)
