"""Kinds of columns, and those that many tables share."""

import pyarrow as pa

STRING, I32, F32, F64, BOOL = pa.string(), pa.int32(), pa.float32(), pa.float64(), pa.bool_()
STRINGS, FLOATS = pa.list_(STRING), pa.list_(F32)
PAIR = {"query_id": STRING, "doc_id": STRING}
PAIR_KEY = ("query_id", "doc_id")
RUN = {**PAIR, "rank": I32, "score": F32}
