"""The last epoch of a detection's flags and noise estimate, and given weights, joined to pairs."""

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import DataError
from noisyir.engine.tables import aligned, beside


def last_epoch(table: pa.Table) -> pa.Table:
    """Return the rows (NOISE_FLAGS or NOISE_ESTIMATE) of the last epoch."""
    return table.filter(pc.equal(table["epoch"], pc.max(table["epoch"])))


def last_estimate(table: pa.Table) -> dict[str, float]:
    """Return the last epoch of a NOISE_ESTIMATE by name: noise rate, interval, mixture."""
    last = last_epoch(table)
    return dict(zip(last["name"].to_pylist(), last["value"].to_pylist(), strict=True))


def with_flags(pairs: pa.Table, flags: pa.Table) -> pa.Table:
    """Join the flags of the last epoch to the pairs, in their order.

    Raises:
        DataError: If a pair has no flag.
    """
    last = last_epoch(flags).drop_columns(["epoch"])
    joined = beside(pairs, last, PAIR_KEY)
    if missing := joined["is_clean"].null_count:
        example = joined.filter(pc.is_null(joined["is_clean"])).slice(0, 1).select(["query_id", "doc_id"]).to_pylist()
        raise DataError("training.unflagged_pairs", missing=missing, pairs=pairs.num_rows, example=example[0])
    return joined


def with_weights(pairs: pa.Table, weights: pa.Table) -> pa.Table:
    """Join GIVEN_WEIGHTS to the pairs, in their order; a pair without one (repaired) weighs 1."""
    given = aligned(pairs, weights, PAIR_KEY)["weight"]
    return pairs.append_column("weight", pc.fill_null(given, pa.scalar(1.0, pa.float32())))
