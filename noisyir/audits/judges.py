"""How sure the judges are that a candidate for a hard negative is relevant."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float

PAIR = ["query_id", "doc_id"]
Margins = Float[np.ndarray, " verdict"]


class JudgeVerdict(NamedTuple):
    """The judges' word: every verdict, and the candidates that at least one does not keep, the surest first.

    verdicts: query_id, doc_id, judge, score, bound, keep.
    against: query_id, doc_id, judges (how many do not keep it), confidence.
    judged: how many candidates at least one judge was shown.
    """

    verdicts: pa.Table
    against: pa.Table
    judged: int


def standing(margins: Margins) -> Margins:
    """Of one judge's verdicts, the share that lie less far above their bound than each: 0 to 1, without a unit.

    margins: score - bound.
    """
    share: Margins = np.searchsorted(np.sort(margins), margins) / max(1, len(margins))
    return share


def what_judges_say(verdicts: Mapping[str, pa.Table]) -> JudgeVerdict:
    """The verdicts (VERDICTS, by judge) put together; neither the judges' order nor that of their rows matters.

    A candidate's confidence is the mean of its verdicts' standings, those of judges that keep it included.
    """
    said = pa.concat_tables(_of_one(judge, verdicts[judge]) for judge in sorted(verdicts))
    found = said.group_by(PAIR, use_threads=False).aggregate([("standing", "mean"), ("against", "sum")])
    against = pa.table(
        {
            **{name: found[name] for name in PAIR},
            "judges": found["against_sum"].cast(pa.int32()),
            "confidence": found["standing_mean"],
        }
    )
    order = [("judges", "descending"), ("confidence", "descending"), *((name, "ascending") for name in PAIR)]
    against = against.filter(pc.greater(against["judges"], 0)).sort_by(order)
    return JudgeVerdict(said.drop_columns(["standing", "against"]), against, found.num_rows)


def _of_one(judge: str, table: pa.Table) -> pa.Table:
    score, bound = (table[name].to_numpy().astype(np.float64) for name in ("score", "bound"))
    return (
        table.select([*PAIR, "score", "bound", "keep"])
        .append_column("judge", pa.repeat(judge, table.num_rows))
        .append_column("standing", pa.array(standing(score - bound), pa.float64()))
        .append_column("against", pc.invert(table["keep"]).cast(pa.int64()))
    )
