"""What a detection said last, and what weights were given, beside their pairs; and its estimate of the noise rate."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.errors import DataError


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
    numbered = pairs.append_column("row", pa.array(np.arange(pairs.num_rows)))
    joined = numbered.join(last, ["query_id", "doc_id"], join_type="left outer").sort_by("row").drop_columns(["row"])
    if missing := joined["is_clean"].null_count:
        example = joined.filter(pc.is_null(joined["is_clean"])).slice(0, 1).select(["query_id", "doc_id"]).to_pylist()
        raise DataError(
            f"{missing:,} of {pairs.num_rows:,} training pairs have no flag, for example {example[0]}: "
            "detect on these very pairs"
        )
    return joined


def with_weights(pairs: pa.Table, weights: pa.Table) -> pa.Table:
    """The pairs, in their order, with what each counts by GIVEN_WEIGHTS; 1 for one that is not there (repaired)."""
    numbered = pairs.append_column("row", pa.array(np.arange(pairs.num_rows)))
    joined = numbered.join(weights, ["query_id", "doc_id"], join_type="left outer").sort_by("row").drop_columns(["row"])
    whole = pc.fill_null(joined["weight"], pa.scalar(1.0, pa.float32()))
    return joined.set_column(joined.schema.get_field_index("weight"), "weight", whole)
