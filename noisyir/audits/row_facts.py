"""Facts about a query in the rows of a run's tables: a document, its rank, its score, and the event."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from noisyir.audits.reasons import chance
from noisyir.base.pages.cells import percent
from noisyir.detection.features import FEATURES
from noisyir.detection.rate_sentences import ASSUMED, beside

Row: TypeAlias = dict[str, Any]
ByArtifact: TypeAlias = Mapping[str, Sequence[Row]]

_RUNS = ("bm25_run", "dense_run", "fused_run", "reranked_run", "random_run")
_SAID_ELSEWHERE = ("noisy_pairs", "clean_pairs", "given_run", "gold_run", "evidence_pairs", "candidate_pool",
                   "repaired_flags", "standings")  # fmt: skip
_FEW, _ALL = 3, 10**9  # most documents that are named
_OF_FEATURES = {"cosine": "fit less by meaning", "bm25": "have a lower BM25 score", "overlap": "share fewer words"}
_ACTIONS = {"keep": "kept", "flag": "stays flagged", "relabel": "given to the query in place of a flagged document"}
_CALLED = {None: "not flagged", "suspect": "suspect", "wrong": "called wrong", "clean": "called clean"}
_USED = {True: ", and drawn as a negative", False: ", and not drawn as a negative", None: ""}
_IF_SO = " if wrong pairs are like the made-up ones of the detection"


class Fact(NamedTuple):
    """One line of an account; without a document it is about the whole query."""

    event: str
    doc_id: str | None = None
    rank: int | None = None
    score: float | None = None


class RowQuery(NamedTuple):
    """A question about rows of a build with these settings: about one pair (`doc_id`), or all `documents`."""

    doc_id: str | None
    documents: Sequence[str]
    params: Mapping[str, Any]

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """The rows about the document of the question; all if it names none."""
        return [row for row in rows if self.doc_id in (None, row.get("doc_id", self.doc_id))]


Event: TypeAlias = Callable[[Row, RowQuery], str]
Tell: TypeAlias = Callable[[Sequence[Row], RowQuery], list[Fact]]


def facts_of(artifact: str, rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    """Facts in a query's rows; the first rows as they are if their meaning is unknown."""
    return FACTS.get(artifact, _AS_IT_IS)(rows, asked) if rows else []


def documents_of(rows: ByArtifact) -> tuple[str, ...]:
    """The documents that a query is, was or should be paired with."""
    pairs = [row for name in ("pairs", "noisy_pairs", "repaired_pairs") for row in rows.get(name, ())]
    relevant = [row for row in rows.get("qrels", ()) if row["relevance"] > 0]
    return tuple(dict.fromkeys(row["doc_id"] for row in [*pairs, *relevant]))


def documents_named(rows: ByArtifact, documents: Sequence[str]) -> tuple[str, ...]:
    """These documents, the documents of the query's pairs, and their replacements in decisions."""
    named = [*documents, *(row["doc_id"] for name in ("pairs", "noisy_pairs") for row in rows.get(name, ()))]
    for row in (row for of_table in rows.values() for row in of_table if row.get("doc_id") in documents):
        named += [row.get("replacement"), row.get("best_other")]
        named += [*(row.get("better") or ())[:_FEW], *(row.get("competitors") or ())[:_FEW]]
    return tuple(dict.fromkeys(doc_id for doc_id in named if doc_id is not None))


def _rows(event: str | Event, absent: str = "", most: int = _ALL, doc_id: str = "doc_id", score: str = "score") -> Tell:
    """A fact for each row or `most`, by rank; `absent` is the event of a document in question that has no row."""
    say: Event = event if callable(event) else lambda row, _: event.format(**row)

    def tell(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
        found = sorted(asked.of(rows), key=lambda row: row.get("rank") or 0)
        if not found and absent and asked.doc_id:
            others = _list(list(dict.fromkeys(row["doc_id"] for row in rows)))
            return [Fact(absent.format(count=len(rows), others=others), asked.doc_id)]
        facts = [Fact(say(row, asked), row.get(doc_id), row.get("rank"), row.get(score)) for row in found[:most]]
        return [*facts, Fact(f"and {len(found) - most:,} more")] if len(found) > most else facts

    return tell


def _noise_truth(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    if not asked.params.get("rate"):
        return []
    noisy = [row for row in rows if row["is_noisy"]]
    if found := asked.of(rows):
        return _TRUTH(found, asked)
    return [Fact("no longer paired", asked.doc_id), *_TRUTH(noisy, asked._replace(doc_id=None))] if noisy else []


def _ranking(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    """The first document, and those in question."""
    places = {row["doc_id"]: row for row in rows}
    first = min(rows, key=lambda row: row["rank"])["doc_id"]
    facts = [
        Fact(f"of {len(rows):,} found", doc_id, places[doc_id]["rank"], places[doc_id]["score"])
        for doc_id in dict.fromkeys((first, *asked.documents))
        if doc_id in places
    ]
    lost = [doc_id for doc_id in asked.documents if doc_id not in places]
    return facts + [Fact(f"not among the first {len(rows):,}", doc_id) for doc_id in lost]


def _candidate(row: Row, asked: RowQuery) -> str:
    if row["positive"] is None or row["positive_score"] is None:
        return "may become a hard negative"
    return f"may become a hard negative; its positive {row['positive']} has {row['positive_score']:.3f}"


def _verdicts(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    dropped = sorted((row for row in rows if not row["keep"]), key=lambda row: row["bound"] - row["score"])
    if asked.doc_id is not None:
        return _VERDICT(rows, asked)
    return [Fact(f"{len(dropped):,} of {len(rows):,} candidates are dropped"), *_VERDICT(dropped, asked)]


def _verdict(row: Row, asked: RowQuery) -> str:
    reason = f" ({row['reason']})" if row["reason"] else ""
    return f"{'kept' if row['keep'] else 'dropped'}; its bound is {row['bound']:.3f}{reason}"


def _pair_score(row: Row, asked: RowQuery) -> str:
    by = asked.params.get("kind", "the loss of training")
    return f"epoch {row['epoch']}: suspicion by {by}{beside(row)}; higher is worse{_instead(row['best_other'])}"


def _pair_features(row: Row, asked: RowQuery) -> str:
    """The pair's place among all by each feature with a name; a feature is a rank's share less 1/2."""
    found = dict(zip(FEATURES, row["features"], strict=False))
    told = [f"{percent(found[name] + 0.5)} {words}" for name, words in _OF_FEATURES.items() if name in found]
    return f"of all pairs, {', '.join(told)}"


def _competitors(row: Row, asked: RowQuery) -> str:
    by_words = asked.params.get("kind") == "bm25_margin"
    unranked = "not found by the query's words" if by_words else f"beyond rank {asked.params.get('depth')}"
    found = zip(row["competitors"][:_FEW], row["competitor_similarities"], strict=False)
    others = ", ".join(f"{doc_id} {similarity:.3f}" for doc_id, similarity in found) or "none"
    return f"{'ranked among all documents' if row['rank'] else unranked}; others: {others}"


def _flag(row: Row, asked: RowQuery) -> str:
    threshold = asked.params.get("threshold", asked.params.get("detection", {}).get("threshold"))
    called = f"epoch {row['epoch']}: {'not ' * row['is_clean']}flagged, {_chance(row['p_clean'], _IF_SO)}"
    return f"{called} (not flagged from {threshold}){_instead(row['replacement'])}"


def _repaired_pairs(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    if found := asked.of(rows):
        return [Fact(_ACTIONS.get(row["action"], str(row["action"])), row["doc_id"]) for row in found]
    given = [row["doc_id"] for row in rows if row["action"] == "relabel"]
    return [Fact(f"no longer paired; {_list(given)} was given instead", asked.doc_id)] if given else []


def _audit(row: Row, asked: RowQuery) -> str:
    """A verdict, a chance with the assumption behind it, if people did not judge, and the reason."""
    ground = f" if wrong pairs have {ASSUMED[row['rests_on']]}" if row["rests_on"] in ASSUMED else ""
    return (
        f"{_CALLED[row['verdict']]}, {_chance(row['p_clean'], ground)}{_instead(row['replacement'])}: {row['reason']}"
    )


def _chance(p_clean: float | None, ground: str) -> str:
    return "no chance known" if p_clean is None else f"chance of being right {chance(p_clean)}{ground}"


def _passages(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    with_answer = sum(row["has_answer"] for row in rows)
    facts = [Fact(f"read in {len(rows):,} passages, {with_answer:,} of them with an answer")]
    return facts + (_PASSAGE(rows, asked) if asked.doc_id else [])


def _spans(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    passages = len({row["doc_id"] for row in rows})
    return [Fact(f"labelled in {passages:,} passages")] * (asked.doc_id is None) + _SPAN(rows, asked)


def _confidences(rows: Sequence[Row], asked: RowQuery) -> list[Fact]:
    """A reader's confidence in the labels of each passage, summed over its places."""
    last = max(row["update"] for row in rows)
    first, final = (_by_document(rows, update) for update in (0, last))
    best = max(final, key=lambda doc_id: (final[doc_id], doc_id))
    facts = [
        Fact(f"confidence after {last:,} updates, {first[doc_id]:.3f} at the start", doc_id, score=final[doc_id])
        for doc_id in asked.documents
        if doc_id in final
    ]
    if asked.doc_id and asked.doc_id not in final:
        facts = [Fact("no label, so no confidence", asked.doc_id)]
    return [*facts, Fact(f"most confidence, of {len(final):,} labelled passages", best, score=final[best])]


def _by_document(rows: Sequence[Row], update: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        if row["update"] == update:
            found[row["doc_id"]] = found.get(row["doc_id"], 0.0) + row["value"]
    return found


def _instead(doc_id: str | None) -> str:
    return f"; {doc_id} would be paired instead" if doc_id else ""


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


_AS_IT_IS = _rows(lambda row, _: ", ".join(f"{name} {value}" for name, value in row.items()), most=5)
_TRUTH = _rows(lambda row, _: f"put in on purpose ({row['kind']}), wrong" if row["is_noisy"] else "left as it was")
_VERDICT = _rows(_verdict, "not seen, but {count:,} others", most=_FEW)
_PASSAGE = _rows(lambda row, _: f"{'with' if row['has_answer'] else 'without'} an answer")
_SPAN = _rows("labelled {answer!r} at {start:,}", "no answer in it, but in {others}", most=_FEW)
# in the order of the account
FACTS: dict[str, Tell] = {
    "queries": _rows("in the split {split}"),
    "excluded": _rows("the {kind} was left out: {reason}", doc_id="id"),
    "answers": _rows(lambda row, _: f"answered by {_list([repr(alias) for alias in row['aliases']])}"),
    "pairs": _rows(
        lambda row, _: f"paired for {row['split']}" + (f", from {row['source']}" if row["source"] else ""),
        "not paired, unlike {others}",
    ),
    "qrels": _rows(
        lambda row, _: f"judged {'relevant' if row['relevance'] > 0 else 'not relevant'} ({row['relevance']})",
        "not judged",
    ),
    "noise_truth": _noise_truth,
    "hidden": _rows("hidden from training on purpose ({kind})", most=_FEW),
    "given_negatives": _rows("given as a negative", most=_FEW),
    "given_weights": _rows("weight of the pair in training", score="weight", most=_FEW),
    "trial": _rows("its pair is held out, and the method is chosen by it", most=_FEW),
    **dict.fromkeys(_RUNS, _ranking),
    "passages": _passages,
    "spans": _spans,
    "confusing": _rows("without the answer, {confusing} is like it", most=_FEW),
    "confidences": _confidences,
    "readings": _rows("answered {answer!r}", most=_FEW),
    "candidates": _rows(_candidate, "not among the {count:,} candidates for hard negatives", most=_FEW),
    "verdicts": _verdicts,
    "negatives": _rows("drawn as a hard negative", "not drawn as a hard negative; {count:,} others were", most=_FEW),
    "teacher_scores": _rows("by {teacher}; a higher score is more relevant", most=_FEW),
    "relevance": _rows("chance of being relevant", most=_FEW),
    "pair_scores": _rows(_pair_score),
    "pair_features": _rows(_pair_features),
    "competitors": _rows(_competitors, score="similarity"),
    "noise_flags": _rows(_flag),
    "repaired_pairs": _repaired_pairs,
    "audit_negatives": _rows(
        lambda row, _: f"likely relevant, confidence {chance(row['confidence'])}{_USED[row['used']]}: {row['reason']}",
        most=_FEW,
    ),
    "audit": _rows(_audit),
    "metrics": _rows("{measure} (split {split})", score="value"),
    **dict.fromkeys(_SAID_ELSEWHERE, lambda *_: []),
}
