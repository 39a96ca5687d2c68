"""Tables that the stage audit_negatives reads: every query of the audit's world has three candidates and two judges."""

from typing import Any

import pyarrow as pa

from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.training.artifacts import NEGATIVES
from tests.unit.stages.audit_world import audit_tables
from tests.world import table

COPY = "copy"  # a document with the words of d0, but for one


def suspect_tables(queries: int = 6, *, spice: str = "", drawn: bool = True, scored: bool = True) -> dict[str, Any]:
    """Query n's positive is document n; its candidates are n + 1, n + 2 and n + 3, ranked so; of q0 also COPY, last.

    Norms are 2, so that a cosine is a quarter of the inner product.  The sieve is shown all and drops COPY and what
    q1 ranks first; the cross-encoder is shown q0's alone and drops COPY and d2.  Of each query the last is drawn, and
    of q1 what it ranks first.
    """
    given = audit_tables(queries, spice=spice)
    corpus = given["corpus"]
    title, text = (corpus[name][0].as_py() for name in ("title", "text"))
    copy = pa.Table.from_pylist(
        [{"doc_id": COPY, "doc_row": queries, "title": title, "text": text.replace("matter", "stuff")}], corpus.schema
    )
    ids = [(f"q{n}", f"d{(n + by) % queries}", n, by) for n in range(queries) for by in (1, 2, 3)]
    candidates = [
        (query, doc, by, f"d{n}", 0.7 - by / 10, 0.64, 2 - by / 2, 2.0, 2.0, 2.0) for query, doc, n, by in ids
    ]
    candidates.append(("q0", COPY, 4, "d0", 0.71, 0.64, 3.8, 2.0, 2.0, 2.0))
    if not scored:
        candidates = [(*row[:3], *[None] * 7) for row in candidates]
    dropped = {("q0", COPY): 0.9, ("q1", "d2"): 0.7}
    sieve = [(query, doc, dropped.get((query, doc), 0.1 * by), 0.5) for query, doc, _, by in [*ids, ("q0", COPY, 0, 0)]]
    cross = [("q0", COPY, 0.95, 0.1), ("q0", "d1", 0.02, 0.1), ("q0", "d2", 0.3, 0.1), ("q0", "d3", 0.01, 0.1)]
    verdicts = {
        name: table(VERDICTS, [(*row, row[2] <= row[3], "by score") for row in rows])
        for name, rows in {"sieve": sieve, "cross_encoder": cross}.items()
    }
    negatives = [(query, doc, 0.5, 0) for query, doc, _, by in ids if by == 3 or (query, by) == ("q1", 1)]
    return {
        "corpus": pa.concat_tables([corpus, copy]),
        "queries": given["queries"],
        "pairs": given["pairs"].set_column(1, "doc_id", pa.array([f"d{n}" for n in range(queries)])),
        "candidates": table(CANDIDATES, candidates),
        "verdicts": verdicts,
        **({"negatives": table(NEGATIVES, negatives)} if drawn else {}),
    }
