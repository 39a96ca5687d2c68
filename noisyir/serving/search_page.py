"""The search page: results of each system side by side, and why a document is among them."""

import re
from typing import Any

import numpy as np
from markupsafe import Markup

from noisyir.auditing.page import json_for_html
from noisyir.report.cells import templates
from noisyir.serving.live import LiveModel
from noisyir.serving.loading import ServedModel
from noisyir.serving.own_pages import inlined, page_headers

_SCRIPTS = ("texts.js", "search.js")
_STYLES = ("report.css", "search.css")
HEADERS = page_headers(_SCRIPTS, _STYLES)
_DEPTH = 100  # ranks that are told
_MOST_WORDS = 32  # of a query that are left out, one at a time


def page(model: ServedModel, *, has_key: bool) -> str:
    """The page as HTML text, without a text of the data."""
    systems = model.index.systems if model.index else []
    known = {"store": model.id, "systems": systems, "has_key": has_key, "audit": model.facts["audit"], "common": []}
    style, script = (Markup(inlined(names)) for names in (_STYLES, _SCRIPTS))
    told = {"model": model.id, "documents": len(model.index.documents) if model.index else 0, "systems": systems}
    return (
        templates()
        .get_template("search.html")
        .render(style=style, script=script, data=Markup(json_for_html(known)), **told)
    )


async def why(live: LiveModel, query: str, row: int) -> dict[str, Any]:
    """The document's place by each system, its score without each word of the query, and its training pairs' audit."""
    index = live.model.index
    assert index is not None
    places = {}
    for system in index.systems:
        found = await live.search(query, system, _DEPTH)
        place = found.rows.index(row) if row in found.rows else None
        places[system] = None if place is None else {"rank": place + 1, "score": found.scores[place]}
    parts = re.split(r"(\s+)", query.strip())
    words = list(range(0, len(parts), 2))[:_MOST_WORDS]
    without = ["".join(part for place, part in enumerate(parts) if place != word) for word in words]
    asked = (await live.embed([query, *without], "query")).vectors
    document = (await live.embed([index.passage(row)], "passage")).vectors[0]
    scores = np.asarray(asked @ document).tolist()
    told = [{"word": parts[word], "without": score} for word, score in zip(words, scores[1:], strict=True)]
    pairs = live.model.pairs_with(index.document(row)["doc_id"])
    return {"places": places, "score": scores[0], "words": told, "pairs": pairs}
