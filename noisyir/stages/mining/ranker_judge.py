"""ranker_judge: which candidates a ranker finds relevant that the plan itself trained, its scores being log odds.

Source: RocketQA's denoised hard negatives (Qu et al., NAACL 2021, arXiv:2010.08191).
"""

from functools import partial

import numpy as np
import pyarrow as pa

from noisyir.costs.training import judging
from noisyir.engine.stage import Job, Stage
from noisyir.engine.story import told
from noisyir.mining.judges.ranker import RankerJudge
from noisyir.schemas.training import RANKER, VERDICTS
from noisyir.stages.mining.cross_judge import READ_BY_CROSS_ENCODERS, relevance, write_verdicts

_PAIR = ["query_id", "doc_id"]


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
    score[new] = relevance(job, judge, found.filter(pa.array(new)))
    write_verdicts(job, found, score)
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


RANKER_JUDGE = Stage(
    name="ranker_judge",
    version=1,
    params=RankerJudge,
    reads={
        "ranker": RANKER.all(),
        "judged": VERDICTS["query_id", "doc_id", "score"].each().or_none(),
        **READ_BY_CROSS_ENCODERS,
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
