"""The audit page: one self-contained file that works from disk; its table is vanilla JavaScript over JSON data."""

import hashlib
import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup, escape

from noisyir.audits.columns import COLUMNS, FLAGGED, in_table
from noisyir.audits.keeping import Keeping
from noisyir.audits.own_pages import OwnPage, sha256
from noisyir.audits.pair_evidence import first_of_each
from noisyir.audits.reasons import chance
from noisyir.audits.settings import AuditParams
from noisyir.audits.suspects_page import Suspects, brief, shown_columns, values_for_script
from noisyir.audits.texts import PairTexts, names_nothing
from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.base.pages.cells import templates
from noisyir.detection.null import named_null
from noisyir.detection.rate import wilson
from noisyir.detection.rate_sentences import ASSUMED, NOT_KNOWN, by_each_null, why_none_is_flagged
from noisyir.detection.score_chart import border, histogram
from noisyir.detection.settings import DetectParams, Null
from noisyir.engine.tables import pair_ids

_BETTER = ("better", "better_similarities")
_FILE_ROWS = 'data-file-rows="{}"'
_SLIPPED = 'id="slipped" hidden>'
_ROWS_AT_ONCE = 65_536  # as Python objects
_SOURCES = 12  # rows of the table of sources
_FILTERS: dict[str, Callable[[Any], str]] = {
    "percent": lambda share: f"{100 * share:.1f}",
    "count": lambda number: f"{number:,}",
    "sentence": lambda clause: clause[:1].upper() + clause[1:],
}


@dataclass(frozen=True)
class VerdictProvenance:
    """The provenance of the verdicts, as far as the builds behind them tell.

    Attributes:
        judged: Number of pairs judged by hand.
        sampled: Number of these that were drawn at random and gave the noise rate.
        border: Whether judgements set the border of the other verdicts.
        repeated: Repeated rows, which count once.
        called_wrong: Number of other pairs that the data calls wrong itself.
        columns: The file's columns by meaning.
        mapped: Whether a person named the columns.
    """

    dataset: str | None
    detectors: Sequence[str]
    detect: DetectParams | None
    judged: int = 0
    sampled: int = 0
    border: bool = False
    repeated: int = 0
    called_wrong: int = 0
    columns: Mapping[str, str] = field(default_factory=dict)
    mapped: bool = False

    @property
    def assumed(self) -> Null | None:
        """The assumed kind of null pairs, if one is named."""
        return named_null(self.detect.assume) if self.detect else None


@dataclass(frozen=True)
class AuditPage:
    """Contents of the page.

    Attributes:
        pairs: All pairs, the most suspect first.
        shown: The rows shown, with reasons.
        suspects: Candidates for negatives that judges call relevant; None without judges.
    """

    pairs: pa.Table
    shown: pa.Table
    texts: PairTexts
    estimate: Mapping[str, float]
    provenance: VerdictProvenance
    keeping: Keeping
    suspects: Suspects | None = None


def render(params: AuditParams, audit: AuditPage) -> str:
    """The page as HTML text; the same input gives the same text."""
    page = templates("noisyir.audits", **_FILTERS).get_template("audit.html")
    script = _script(audit)
    pairs, detect = audit.pairs, audit.provenance.detect
    flagged = pc.is_in(pairs["verdict"], value_set=pa.array(FLAGGED)).to_numpy(zero_copy_only=False)
    provenance = audit.provenance
    assumed = ASSUMED[provenance.assumed] if provenance.assumed and not provenance.border else ""
    # a Beta's moments do not draw it: its curve is no bell
    mixture = audit.estimate if not (detect and detect.method == "beta") else {}
    by_machine = ~pairs["by_hand"].to_numpy(zero_copy_only=False)
    scores = pairs["score"].to_numpy().astype(np.float64)
    return page.render(
        title=params.title or f"Which {params.audited} are wrong",
        params=params,
        pairs=pairs.num_rows,
        shown=audit.shown.num_rows,
        queries=pc.count_distinct(pairs["query_id"]).as_py(),
        corpus=audit.texts.corpus,
        flagged=int(flagged.sum()),
        assumed=assumed,
        none_flagged=why_none_is_flagged(audit.estimate),
        estimate=audit.estimate,
        rates=by_each_null(audit.estimate) if "rate" in audit.estimate else [],
        not_known=NOT_KNOWN,
        **_commands(params, provenance.columns if provenance.mapped else {}),
        provenance=provenance,
        keeping=audit.keeping,
        mixture="clean_mean" in mixture,
        histogram=Markup(histogram(scores, flagged, mixture, border(scores[by_machine], flagged[by_machine]))),
        sources=worst_sources(pairs)[:_SOURCES],
        source_count=pc.count_distinct(pairs["source"]).as_py(),
        columns=shown_columns(in_table(f", if {assumed}" if assumed else ""), audit.shown),
        **(audit.suspects.summary(params.promote) if audit.suspects else {"judges": []}),
        data=Markup(json_for_html(page_data(params, audit, assumed))),
        script=script,
        script_hash=sha256(script),
    )


def _commands(params: AuditParams, columns: Mapping[str, str]) -> dict[str, str]:
    """Commands to type next, with the columns that a person named."""
    mapped = {name: columns[name] for name in ("query", "document") if name in columns}
    named = [part for name, column in mapped.items() for part in (f"--{name}", column)]
    check = ["--map", ",".join(map("=".join, mapped.items()))] if mapped else []
    file = params.title or "FILE"
    return {
        "judge_command": shlex.join(["noisyir", "audit", file, *named, "--judge"]),
        "check_command": shlex.join(["noisyir", "check", file, *check]),
    }


def _script(audit: AuditPage) -> Markup:
    """The page's own JavaScript, also for the second table if there is one."""
    second = ["audit_negatives.js"] if audit.suspects and audit.suspects.rows.num_rows else []
    return OwnPage("noisyir.audits", ("texts.js", "audit.js", *second), ()).script


def documents_shown(pairs: pa.Table, suspects: Suspects | None, better: int) -> pa.Array:
    """Ids of the documents that a page with these rows shows."""
    fits_better = first_of_each(pairs["better"].combine_chunks(), better).flatten()
    replacements = pairs["replacement"].combine_chunks().drop_null()
    of_suspects = [suspects.named] if suspects else []
    return pa.concat_arrays([pairs["doc_id"].combine_chunks(), fits_better, replacements, *of_suspects])


def page_data(params: AuditParams, audit: AuditPage, assumed: str = "") -> dict[str, Any]:
    """Data of audit.js: columns of rows that name documents by number, and each document's text once.

    `assumed` are the assumed documents of wrong pairs in words, empty without an assumption.
    """
    shown, documents = audit.shown, audit.texts.documents
    named = documents_shown(shown, audit.suspects, params.better)
    documents = documents.filter(pc.is_in(documents["doc_id"], value_set=named))
    number = {doc_id: place for place, doc_id in enumerate(documents["doc_id"].to_pylist())}
    as_they_are = [column for column in COLUMNS if column.on_page]
    numbers = [column.name for column in as_they_are if pa.types.is_floating(column.type)]
    rows = values_for_script(shown, [column.name for column in as_they_are if column.name not in numbers], numbers)
    rows["chance"] = [chance(value) for value in shown["p_clean"].to_pylist()]
    rows["query"] = pc.utf8_slice_codeunits(shown["query"], 0, params.text_chars).to_pylist()
    rows["document"] = [number[doc_id] for doc_id in shown["doc_id"].to_pylist()]
    vague = [names_nothing(query, audit.texts.common) for query in shown["query"].to_pylist()]
    suggested = zip(shown["replacement"].to_pylist(), vague, strict=True)
    rows["replacement"] = [None if unknown else number.get(doc_id) for doc_id, unknown in suggested]
    rows["better"] = [
        [[number[doc_id], near] for doc_id, near in zip(ids[: params.better], brief(similarities), strict=False)]
        for ids, similarities in zip(*(shown[name].to_pylist() for name in _BETTER), strict=True)
    ]
    lengths, most = pc.utf8_length(documents["text"]).to_pylist(), params.text_chars
    texts = {name: pc.utf8_slice_codeunits(documents[name], 0, most).to_pylist() for name in ("title", "text")}
    return {
        "id": identity(audit.pairs),
        "pairs": audit.pairs.num_rows,
        "rows": rows,
        "documents": {"id": documents["doc_id"].to_pylist(), **texts, "length": lengths},
        "common": sorted(audit.texts.common),
        "keeping": _for_slider(audit.keeping),
        "condition": f" if wrong pairs have {assumed}" if assumed else "",
        **({"negatives": audit.suspects.for_script(number, params.text_chars)} if audit.suspects else {}),
    }


def with_file_rows(page: str, rows: Sequence[int | None], slip: str | None = None) -> str:
    """The page with the row in the user's file of each pair that it shows, on which its build does not depend.

    `slip` is a sentence on documents that have slipped.
    """
    said = _SLIPPED if slip is None else f'id="slipped"><strong>{escape(_FILTERS["sentence"](slip))}.</strong>'
    return page.replace(_FILE_ROWS.format("[]"), _FILE_ROWS.format(json.dumps(rows)), 1).replace(_SLIPPED, said, 1)


def _for_slider(keeping: Keeping) -> dict[str, Any] | None:
    """Numbers of pairs kept and bounds on their wrong share; null if unknown."""
    if (bounds := keeping.bounds) is None:
        return None
    kept, bound = bounds.kept.tolist(), brief(bounds.bound.tolist())
    return {"kept": kept, "bound": bound, "confidence": bounds.confidence, "condition": keeping.condition}


def worst_sources(pairs: pa.Table) -> list[dict[str, Any]]:
    """Sources by the lower bound of their flagged share, so that a small one does not lead by luck.

    Empty with fewer than two sources; pairs without source do not count.
    """
    known = pairs.filter(pc.is_valid(pairs["source"]))
    wrong = pc.cast(pc.is_in(known["verdict"], value_set=pa.array(FLAGGED)), pa.int64())
    table = pa.table({"source": known["source"], "wrong": wrong})
    counted = table.group_by("source", use_threads=False).aggregate([("wrong", "count"), ("wrong", "sum")])
    if counted.num_rows < 2:
        return []
    rows = zip(*(counted[name].to_pylist() for name in ("source", "wrong_count", "wrong_sum")), strict=True)
    found = [
        {"source": name, "pairs": n, "flagged": k, "share": k / n, "low": wilson(k / n, n, 0.95)[0]}
        for name, n, k in rows
    ]
    return sorted(found, key=lambda row: (-row["low"], -row["flagged"], row["source"]))


def json_for_html(value: Any) -> str:
    """JSON that a script element can hold: without `<`, no text can end the element or open a comment."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def identity(pairs: pa.Table) -> str:
    """A name for the audited pairs in any order, under which the browser keeps verdicts."""
    total = hashlib.sha256()
    ordered = pairs.select(PAIR_KEY).sort_by(BY_PAIR)
    for batch in ordered.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for pair in pair_ids(pa.Table.from_batches([batch])):
            total.update("".join(f"{len(name)} {name}" for name in pair).encode())
    return total.hexdigest()[:16]
