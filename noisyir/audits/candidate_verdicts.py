"""How sure the judges are that a candidate for a hard negative is relevant."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.engine.tables import with_values

Margins = Float[np.ndarray, " verdict"]


class JudgeVerdict(NamedTuple):
    """The judges' verdicts together.

    Attributes:
        verdicts: query_id, doc_id, judge, score, bound, keep.
        against: Candidates that a judge drops, surest first: query_id, doc_id, judges (number against), confidence.
        judged: Number of candidates with any verdict.
    """

    verdicts: pa.Table
    against: pa.Table
    judged: int


def standing(margins: Margins) -> Margins:
    """The share of one judge's verdicts with a smaller margin (score - bound) than each."""
    share: Margins = np.searchsorted(np.sort(margins), margins) / max(1, len(margins))
    return share


def what_judges_say(verdicts: Mapping[str, pa.Table]) -> JudgeVerdict:
    """The verdicts (VERDICTS, by judge) put together, whatever the order of judges and rows.

    A candidate's confidence is the mean standing of all its verdicts.
    """
    said = pa.concat_tables(_of_one(judge, verdicts[judge]) for judge in sorted(verdicts))
    found = said.group_by(PAIR_KEY, use_threads=False).aggregate([("standing", "mean"), ("against", "sum")])
    against = pa.table(
        {
            **{name: found[name] for name in PAIR_KEY},
            "judges": found["against_sum"].cast(pa.int32()),
            "confidence": found["standing_mean"],
        }
    )
    order = [("judges", "descending"), ("confidence", "descending"), *BY_PAIR]
    against = against.filter(pc.greater(against["judges"], 0)).sort_by(order)
    return JudgeVerdict(said.drop_columns(["standing", "against"]), against, found.num_rows)


def _of_one(judge: str, table: pa.Table) -> pa.Table:
    score, bound = (table[name].to_numpy().astype(np.float64) for name in ("score", "bound"))
    return with_values(
        table.select([*PAIR_KEY, "score", "bound", "keep"]),
        judge=pa.repeat(judge, table.num_rows),
        standing=pa.array(standing(score - bound), pa.float64()),
        against=pc.invert(table["keep"]).cast(pa.int64()),
    )
