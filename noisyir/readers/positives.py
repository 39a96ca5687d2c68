"""The passage of each question that a reader believes in most: its opinion on a retriever's positives."""

import pyarrow as pa
import pyarrow.compute as pc


def most_believed(confidences: pa.Table) -> pa.Table:
    """The passage whose places have most confidence together, of each question, by query_id.

    confidences: CONFIDENCES (query_id, doc_id, update, value).  Gives query_id, doc_id, `confidence` at the last update
    and `confidence_at_start`, shares of the question's between 0 and 1.  Among equals the first at the start wins, then
    the smaller id.
    """
    last = pc.max(confidences["update"])
    now, start = (
        confidences.filter(pc.equal(confidences["update"], update))
        .group_by(["query_id", "doc_id"], use_threads=False)
        .aggregate([("value", "sum")])
        .rename_columns(["query_id", "doc_id", name])
        for name, update in (("confidence", last), ("confidence_at_start", 0))
    )
    passages = now.join(start, ["query_id", "doc_id"]).sort_by(
        [("query_id", "ascending"), ("confidence", "descending"), ("confidence_at_start", "descending"),
         ("doc_id", "ascending")]
    )  # fmt: skip
    first = passages.group_by("query_id", use_threads=False).aggregate(
        [(name, "first") for name in ("doc_id", "confidence", "confidence_at_start")]
    )
    return first.rename_columns(passages.column_names)
