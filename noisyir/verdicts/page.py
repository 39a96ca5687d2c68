"""The audit page: one self-contained file that works from disk; its table is vanilla JavaScript over JSON data."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int
from jinja2 import Environment
from markupsafe import Markup

from noisyir.noise.settings import DetectParams
from noisyir.report.pages import templates
from noisyir.verdicts.histogram import border, histogram
from noisyir.verdicts.reasons import chance
from noisyir.verdicts.rows import first_of_each
from noisyir.verdicts.settings import AuditParams
from noisyir.verdicts.suspects_page import Suspects, judge_rows, suspects_data
from noisyir.verdicts.words import Texts

_SOURCES = 12  # rows of the table of sources
_Z = 1.96  # standard deviations of a 95 % interval

# key, heading, kind of value; a column without any value is left out
_COLUMNS = [
    ("verdict", "verdict", "text"),
    ("p_clean", "p(clean)", "num"),
    ("score", "score", "num"),
    ("rank", "rank", "num"),
    ("source", "source", "text"),
    ("query", "query", "text"),
    ("document", "document", "text"),
]
_SUSPECT_COLUMNS = [
    ("judges", "not kept by", "text"),
    ("confidence", "confidence", "num"),
    ("score", "score", "num"),
    ("positive_score", "positive's", "num"),
    ("used", "drawn", "text"),
    ("query", "query", "text"),
    ("positive", "its positive", "text"),
    ("document", "candidate", "text"),
]


@dataclass(frozen=True)
class Making:
    """How the verdicts came about, where the builds behind them tell.

    judged: pairs judged by hand, whose verdicts are people's, and by which the others and the noise rate were set.
    """

    dataset: str | None
    detectors: Sequence[str]
    detect: DetectParams | None
    judged: int = 0


@dataclass(frozen=True)
class Audit:
    """What the page tells of: all pairs, the most suspect first; the rows shown, with reasons; texts; the estimate.

    suspects: candidates for negatives, where judges were asked about them.
    """

    pairs: pa.Table
    shown: pa.Table
    texts: Texts
    estimate: Mapping[str, float]
    making: Making
    suspects: Suspects | None = None


def render(params: AuditParams, audit: Audit) -> str:
    """The page as HTML text; the same input gives the same text."""
    pages = templates(percent=lambda share: f"{100 * share:.1f}", count=lambda number: f"{number:,}")
    script = _script(pages, audit)
    pairs, detect = audit.pairs, audit.making.detect
    is_clean = pc.equal(pairs["verdict"], "clean").to_numpy(zero_copy_only=False)
    # a Beta's moments do not draw it: its curve is no bell
    mixture = audit.estimate if not (detect and detect.method == "beta") else {}
    by_machine = ~pairs["by_hand"].to_numpy(zero_copy_only=False)
    scores = pairs["score"].to_numpy().astype(np.float64)
    return pages.get_template("audit.html").render(
        title=params.title or "Which training pairs are wrong",
        params=params,
        pairs=pairs.num_rows,
        shown=audit.shown.num_rows,
        queries=pc.count_distinct(pairs["query_id"]).as_py(),
        corpus=audit.texts.corpus,
        flagged=int((~is_clean).sum()),
        estimate=audit.estimate,
        making=audit.making,
        mixture="clean_mean" in mixture,
        histogram=Markup(histogram(scores, is_clean, mixture, border(scores[by_machine], is_clean[by_machine]))),
        sources=worst_sources(pairs)[:_SOURCES],
        source_count=pc.count_distinct(pairs["source"]).as_py(),
        columns=[column for column in _COLUMNS if column[0] == "document" or _has_values(audit.shown[column[0]])],
        **_about_suspects(params, audit.suspects),
        data=Markup(json_for_html(page_data(params, audit))),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _script(pages: Environment, audit: Audit) -> str:
    """The page's own JavaScript, with what the second table takes where there is one."""
    assert pages.loader
    names = ["audit.js", *(["audit_negatives.js"] if audit.suspects and audit.suspects.rows.num_rows else [])]
    return "\n".join(pages.loader.get_source(pages, name)[0] for name in names)


def _about_suspects(params: AuditParams, suspects: Suspects | None) -> dict[str, Any]:
    if suspects is None:
        return {"judges": []}
    rows, judges = suspects.rows, judge_rows(suspects.judges)
    return {
        "judges": judges,
        "together": judges[-1],
        "suspects": rows.num_rows,
        "promoted": suspects.sure(params.promote).num_rows,
        "suspect_columns": [column for column in _SUSPECT_COLUMNS if _has_values(rows[column[0]])],
    }


def page_data(params: AuditParams, audit: Audit) -> dict[str, Any]:
    """What audit.js reads: columns of rows that name documents by number, and each document's text once."""
    shown, documents = audit.shown, audit.texts.documents
    better, near = (
        first_of_each(shown[name].combine_chunks(), params.better) for name in ("better", "better_similarities")
    )
    named = [shown["doc_id"].combine_chunks(), better.flatten(), shown["replacement"].combine_chunks().drop_null()]
    named += [audit.suspects.named] if audit.suspects else []
    documents = documents.filter(pc.is_in(documents["doc_id"], value_set=pa.concat_arrays(named)))
    number = {doc_id: place for place, doc_id in enumerate(documents["doc_id"].to_pylist())}
    rows = {name: shown[name].to_pylist() for name in ("query_id", "source", "verdict", "rank", "duplicates", "reason")}
    rows |= {name: [_brief(value) for value in shown[name].to_pylist()] for name in ("p_clean", "score", "similarity")}
    rows["chance"] = [chance(value) for value in shown["p_clean"].to_pylist()]
    rows["query"] = pc.utf8_slice_codeunits(shown["query"], 0, params.text_chars).to_pylist()
    rows["document"] = [number[doc_id] for doc_id in shown["doc_id"].to_pylist()]
    rows["replacement"] = [number.get(doc_id) for doc_id in shown["replacement"].to_pylist()]
    rows["better"] = [
        [[number[doc_id], _brief(similarity)] for doc_id, similarity in zip(*pair, strict=True)]
        for pair in zip(better.to_pylist(), near.to_pylist(), strict=True)
    ]
    return {
        "id": _identity(audit.pairs),
        "rows": rows,
        "documents": {
            "id": documents["doc_id"].to_pylist(),
            "title": pc.utf8_slice_codeunits(documents["title"], 0, params.text_chars).to_pylist(),
            "text": pc.utf8_slice_codeunits(documents["text"], 0, params.text_chars).to_pylist(),
            "length": pc.utf8_length(documents["text"]).to_pylist(),
        },
        "common": sorted(audit.texts.common),
        **({"negatives": suspects_data(audit.suspects, number, params.text_chars)} if audit.suspects else {}),
    }


def worst_sources(pairs: pa.Table) -> list[dict[str, Any]]:
    """Sources by the least share of flagged pairs that their numbers allow, so that a small one does not lead by luck.

    Empty with fewer than two sources; pairs without source are not counted.
    """
    known = pairs.filter(pc.is_valid(pairs["source"]))
    wrong = pc.cast(pc.equal(known["verdict"], "wrong"), pa.int64())
    table = pa.table({"source": known["source"], "wrong": wrong})
    counted = table.group_by("source", use_threads=False).aggregate([("wrong", "count"), ("wrong", "sum")])
    if counted.num_rows < 2:
        return []
    size, flagged = counted["wrong_count"].to_numpy(), counted["wrong_sum"].to_numpy()
    low = wilson_low(flagged, size)
    rows = zip(counted["source"].to_pylist(), size.tolist(), flagged.tolist(), low.tolist(), strict=True)
    found = [{"source": name, "pairs": n, "flagged": k, "share": k / n, "low": bound} for name, n, k, bound in rows]
    return sorted(found, key=lambda row: (-row["low"], -row["flagged"], row["source"]))


def wilson_low(flagged: Int[np.ndarray, " source"], pairs: Int[np.ndarray, " source"]) -> Float[np.ndarray, " source"]:
    """Lower end of the 95 % interval of a share.  Source: Wilson, JASA 1927."""
    share = flagged / pairs
    centre = share + _Z**2 / (2 * pairs)
    half = _Z * np.sqrt(share * (1 - share) / pairs + _Z**2 / (4 * pairs**2))
    return np.asarray(np.maximum(0.0, (centre - half) / (1 + _Z**2 / pairs)))


def json_for_html(value: Any) -> str:
    """JSON that a script element can hold: without `<`, no text can end the element or open a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def _brief(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _has_values(column: pa.ChunkedArray) -> bool:
    return bool(column.null_count < len(column))


def _identity(pairs: pa.Table) -> str:
    """A name for the audited pairs, whatever their order, under which the browser keeps a person's verdicts."""
    total = hashlib.sha256()
    for pair in sorted(zip(pairs["query_id"].to_pylist(), pairs["doc_id"].to_pylist(), strict=True)):
        total.update("".join(f"{len(name)} {name}" for name in pair).encode())
    return total.hexdigest()[:16]
