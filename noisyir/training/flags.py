"""The last flags of a detection and given weights, beside their pairs; and its estimate of the noise rate."""

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.engine.tables import aligned, beside


def last_epoch(table: pa.Table) -> pa.Table:
    """The rows (NOISE_FLAGS or NOISE_ESTIMATE) of the last epoch; there is one where the detection judged once."""
    return table.filter(pc.equal(table["epoch"], pc.max(table["epoch"])))


def last_estimate(table: pa.Table) -> dict[str, float]:
    """Name to value in the last epoch of a NOISE_ESTIMATE: noise rate, interval, mixture."""
    last = last_epoch(table)
    return dict(zip(last["name"].to_pylist(), last["value"].to_pylist(), strict=True))


def with_flags(pairs: pa.Table, flags: pa.Table) -> pa.Table:
    """The pairs, in their order, with what the last detection said of them.  DataError when it left one out."""
    last = last_epoch(flags).drop_columns(["epoch"])
    joined = beside(pairs, last, PAIR_KEY)
    if missing := joined["is_clean"].null_count:
        example = joined.filter(pc.is_null(joined["is_clean"])).slice(0, 1).select(["query_id", "doc_id"]).to_pylist()
        raise DataError("training.training_pairs_no_flag", missing=missing, num_rows=pairs.num_rows, example=example[0])
    return joined


def with_weights(pairs: pa.Table, weights: pa.Table) -> pa.Table:
    """The pairs, in their order, with what each counts by GIVEN_WEIGHTS; 1 for one that is not there (repaired)."""
    given = aligned(pairs, weights, PAIR_KEY)["weight"]
    return pairs.append_column("weight", pc.fill_null(given, pa.scalar(1.0, pa.float32())))
