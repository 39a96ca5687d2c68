"""Relabelling of flagged pairs with the document found in place of theirs."""

from collections.abc import Sequence

import pyarrow as pa

from noisyir.engine.tables import pair_ids


def gets_replacement(pairs: pa.Table, surest_first: Sequence[int], share: float) -> dict[int, bool]:
    """Map each row of the surest pairs that have a replacement to whether it gets it, which must be new to its query.

    If several rows of a query have the same replacement, the first row gets it.

    Args:
        pairs: Table with query_id, doc_id and replacement.
        surest_first: Rows of the flagged pairs; the first `share` of them, rounded, are the surest.
    """
    # Includes flagged pairs of the query: a pair called wrong must not come back.
    taken = set(pair_ids(pairs))
    queries, replacements = pairs["query_id"].to_pylist(), pairs["replacement"].to_pylist()
    found = {}
    for row in sorted(surest_first[: round(share * len(surest_first))]):
        if replacements[row] is not None:
            pair = queries[row], replacements[row]
            found[int(row)] = pair not in taken
            taken.add(pair)
    return found
