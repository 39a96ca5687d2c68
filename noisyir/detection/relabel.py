"""Relabelling of flagged pairs with the document that was found instead of theirs."""

from collections.abc import Sequence

import pyarrow as pa

from noisyir.engine.tables import pair_ids


def gets_replacement(pairs: pa.Table, surest_first: Sequence[int], share: float) -> dict[int, bool]:
    """Of the surest that have a replacement, by their row: whether they get it, which it must be new to its query for.

    pairs: query_id, doc_id, replacement.  surest_first: the rows of those flagged; the first `share` of them, rounded,
    are the surest.  Where several rows of a query have the same replacement, the first row gets it.
    """
    # Taken is whatever the query is paired with, flagged or not: a pair called wrong must not come back.
    taken = set(pair_ids(pairs))
    queries, replacements = pairs["query_id"].to_pylist(), pairs["replacement"].to_pylist()
    found = {}
    for row in sorted(surest_first[: round(share * len(surest_first))]):
        if replacements[row] is not None:
            pair = queries[row], replacements[row]
            found[int(row)] = pair not in taken
            taken.add(pair)
    return found
