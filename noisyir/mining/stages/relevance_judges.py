"""cross_judge, ranker_judge: which candidates a cross-encoder, given or trained here, finds relevant.

Source: RocketQA's denoised hard negatives (Qu et al., NAACL 2021, arXiv:2010.08191), which drops candidates above 0.1.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.remote.shards import Block, blocks_of
from noisyir.engine.stage import Job, Piecewise, Stage, told
from noisyir.engine.tables import aligned, with_values
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.mining.judges import CrossEncoderJudge, RankerJudge, RelevanceJudge
from noisyir.models.artifacts import RANKER
from noisyir.models.weights import classifier_digest, locate_classifier

Rows = np.ndarray[Any, np.dtype[np.int64]]

_SETTING = "judges.cross_encoder.weights"
_PAIRS_AT_ONCE = 16384  # sorted by length and read together
_REASONS = {True: "a cross-encoder finds it irrelevant", False: "a cross-encoder finds it relevant"}
_READS = {
    "candidates": CANDIDATES["query_id", "doc_id"],
    "queries": QUERIES["query_id", "text"],
    "corpus": CORPUS["doc_id", "title", "text"],
}


def cross_judge(job: Job[CrossEncoderJudge]) -> None:
    """Score every candidate by its probability of being relevant, and keep those not above the bound."""
    found = job.table("candidates")
    _write_verdicts(job, found, _relevance(job, found, cross_shards))


def cross_shards(job: Job[CrossEncoderJudge], blocks: Sequence[Block]) -> Iterator[pa.Table]:
    """Logits of some blocks of candidates, by the given classifier."""
    folder = locate_classifier(job.params.weights, _SETTING)
    return block_logits(job, folder, job.params.max_len, job.table("candidates"), blocks)


def ranker_judge(job: Job[RankerJudge]) -> None:
    """Score every candidate as `cross_judge` does, reusing scores that the same ranker has already given."""
    found = job.table("candidates")
    score = _scored_already(job, found)
    new = np.isnan(score)
    score[new] = _relevance(job, found.filter(pa.array(new)), ranker_shards)
    _write_verdicts(job, found, score)
    job.note("pairs_read", int(new.sum()))


def ranker_shards(job: Job[RankerJudge], blocks: Sequence[Block]) -> Iterator[pa.Table]:
    """Logits of some blocks of the new candidates, by the ranker."""
    from noisyir.models.ranker import ranker_max_len

    folder, found = job.folder("ranker"), job.table("candidates")
    new = found.filter(pa.array(np.isnan(_scored_already(job, found))))
    return block_logits(job, folder, ranker_max_len(folder), new, blocks)


def _scored_already(job: Job[RankerJudge], found: pa.Table) -> np.ndarray:
    """float32 scores of these candidates from the first earlier verdicts that include them; NaN if none do."""
    score = np.full(len(found), np.nan, np.float32)
    for said in job.tables("judged").values():
        earlier = pc.fill_null(aligned(found, said, PAIR_KEY)["score"], np.nan).to_numpy()
        score = np.where(np.isnan(score), earlier, score).astype(np.float32)
    return score


def _write_verdicts(job: Job[Any], found: pa.Table, score: np.ndarray) -> None:
    """Write the verdicts on these candidates from their float32 probabilities of being relevant."""
    params: RelevanceJudge = job.params
    bound = np.full(len(found), params.max_relevance, np.float32)
    keep = pa.array(score <= bound)
    reason = pc.if_else(keep, _REASONS[True], _REASONS[False])
    job.write("verdicts", with_values(found, score=pa.array(score), bound=pa.array(bound), keep=keep, reason=reason))
    job.note(job.step.stage.name, {"judged": len(found), "dropped": pc.sum(pc.invert(keep)).as_py() or 0})


def _relevance(job: Job[Any], found: pa.Table, shards: Piecewise[Block]) -> np.ndarray:
    """float32 probability of each candidate (query_id, doc_id)."""
    return np.exp(-np.logaddexp(0, -pair_logits(job, found, shards).astype(np.float64))).astype(np.float32)


def pair_logits(job: Job[Any], found: pa.Table, shards: Piecewise[Block]) -> np.ndarray:
    """float32 logit of each candidate (query_id, doc_id); `shards` reads blocks of them."""
    pairs = _Pairs.of(job, found)
    blocks = blocks_of("logits", len(pairs.keys), _PAIRS_AT_ONCE)
    parts = job.spread(shards, blocks, total=len(pairs.keys), unit="pairs")
    logits = np.concatenate([np.empty(0, np.float32), *(pq.read_table(part)["logit"].to_numpy() for part in parts)])
    return logits[pairs.place]


def block_logits(
    job: Job[Any], folder: Path, max_len: int, found: pa.Table, blocks: Sequence[Block]
) -> Iterator[pa.Table]:
    """A classifier's logits of some blocks of text pairs, as a column `logit`."""
    import torch

    from noisyir.models.cross_encoder import TextPairs, load_cross_encoder

    torch.set_num_threads(job.runtime.cpu_threads)
    judge, pairs = load_cross_encoder(folder, max_len, job.runtime.device), _Pairs.of(job, found)
    for block in blocks:
        keys = pairs.keys[slice(*block)]
        first, second = (numbers.tolist() for numbers in np.divmod(keys, len(pairs.documents)))
        texts = TextPairs([pairs.queries[number] for number in first], [pairs.documents[number] for number in second])
        yield pa.table({"logit": judge.logits(texts, job.runtime.batch_tokens)})


class _Pairs(NamedTuple):
    """Text pairs of candidates; identical ones are read once, so their scores are equal.

    Attributes:
        keys: query * documents + document, from the numbers of their texts, in the order of the ids.
        place: Position in `keys` of each candidate's pair.
    """

    keys: Rows
    place: Rows
    queries: list[str]
    documents: list[str]

    @classmethod
    def of(cls, job: Job[Any], found: pa.Table) -> "_Pairs":
        """Build from candidates (query_id, doc_id)."""
        from noisyir.retrieval.texts import passages_of

        texts = job.table("queries")
        asked = dict(zip(texts["query_id"].to_pylist(), texts["text"].to_pylist(), strict=True))
        query, queries = _numbered(found["query_id"], asked, "queries")
        read = passages_of(job.batches("corpus"), found["doc_id"])
        document, documents = _numbered(found["doc_id"], read, "documents")
        keys, place = np.unique(query * len(documents) + document, return_inverse=True)
        return cls(keys, place, queries, documents)


def _numbered(named: pa.ChunkedArray, texts: Mapping[str, str], source: str) -> tuple[Rows, list[str]]:
    """Text number of each named id, and each text once, numbered in the order of the ids."""
    by_id = dict(sorted(texts.items()))
    number_of: dict[str, int] = {}
    numbers = np.array([number_of.setdefault(text, len(number_of)) for text in by_id.values()], np.int64)
    places = pc.index_in(named, value_set=pa.array(by_id, pa.string()))
    if places.null_count:
        example = named.filter(pc.is_null(places))[0].as_py()
        raise DataError("mining.no_among_candidate_names", example=example, source=source)
    return numbers[places.to_numpy()], list(number_of)


CROSS_JUDGE = Stage(
    name="cross_judge",
    version=1,
    params=CrossEncoderJudge,
    reads=_READS,
    writes={"verdicts": VERDICTS},
    run=cross_judge,
    raw={"weights": lambda params: classifier_digest(params.weights, _SETTING)},
    pool="gpu",
    spreads=True,
    story=partial(
        told, "cross_judge", "A cross-encoder: {dropped:,} of {judged:,} candidate negatives were dropped as relevant."
    ),
)

RANKER_JUDGE = Stage(
    name="ranker_judge",
    version=1,
    params=RankerJudge,
    reads={"ranker": RANKER.all(), "judged": VERDICTS["query_id", "doc_id", "score"].each().or_none(), **_READS},
    writes={"verdicts": VERDICTS},
    run=ranker_judge,
    pool="gpu",
    spreads=True,
    story=partial(
        told,
        "ranker_judge",
        "The trained ranker: {dropped:,} of {judged:,} candidate negatives were dropped as relevant.",
    ),
)
