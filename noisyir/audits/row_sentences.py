"""Sentences on rows about a query: one function for each table that a person may ask about."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from noisyir.audits.reasons import chance
from noisyir.detection.features import FEATURES
from noisyir.detection.rate_sentences import ASSUMED, beside

Row: TypeAlias = dict[str, Any]
ByArtifact: TypeAlias = Mapping[str, Sequence[Row]]

_FEW = 3  # most documents that are named
_OF_FEATURES = {"cosine": "fit less by meaning", "bm25": "have a lower BM25 score", "overlap": "share fewer words"}
_ACTIONS = {
    "keep": "{} is kept",
    "flag": "{} stays flagged",
    "relabel": "{} was given to the query in place of a flagged document",
}
_CALLED = {None: "not flagged", "suspect": "suspect", "wrong": "called wrong", "clean": "called clean"}
_IF_SO = " if wrong pairs are like the made-up ones of the detection"


class RowQuery(NamedTuple):
    """A question about rows of a build with these settings: about one pair (`doc_id`), or all `documents`."""

    doc_id: str | None
    documents: Sequence[str]
    params: Mapping[str, Any]
    stage: str = ""

    def of(self, rows: Sequence[Row]) -> list[Row]:
        """The rows about the document of the question; all if it names none."""
        return [row for row in rows if self.doc_id in (None, row.get("doc_id", self.doc_id))]


Speak: TypeAlias = Callable[[Sequence[Row], RowQuery], list[str]]


def describe(artifact: str, rows: Sequence[Row], asked: RowQuery) -> tuple[list[str], list[Row]]:
    """Sentences about a query's rows (none if their meaning is unknown), and the rows in question."""
    speak = SENTENCES.get(artifact)
    return (speak(rows, asked) if speak and rows else []), asked.of(rows)


def documents_of(rows: ByArtifact) -> tuple[str, ...]:
    """The documents that a query is, was or should be paired with."""
    pairs = [row for name in ("pairs", "noisy_pairs", "repaired_pairs") for row in rows.get(name, ())]
    relevant = [row for row in rows.get("qrels", ()) if row["relevance"] > 0]
    return tuple(dict.fromkeys(row["doc_id"] for row in [*pairs, *relevant]))


def documents_named(rows: ByArtifact, documents: Sequence[str]) -> tuple[str, ...]:
    """These documents, those of the query's pairs, and their replacements in decisions."""
    named = [*documents, *(row["doc_id"] for name in ("pairs", "noisy_pairs") for row in rows.get(name, ()))]
    for row in (row for of_table in rows.values() for row in of_table if row.get("doc_id") in documents):
        named += [row.get("replacement"), row.get("best_other")]
        named += [*(row.get("better") or ())[:_FEW], *(row.get("competitors") or ())[:_FEW]]
    return tuple(dict.fromkeys(doc_id for doc_id in named if doc_id is not None))


def _each(template: str) -> Speak:
    """The same sentence for every row."""
    return lambda rows, asked: [template.format(**row) for row in rows]


def _of_documents(template: str) -> Speak:
    """The same sentence for the document in question, or for the first few."""
    return lambda rows, asked: [template.format(**row) for row in asked.of(rows)[:_FEW]]


def _answers(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    return [f"answered by {_list([repr(alias) for alias in row['aliases']])}" for row in rows]


def _pairs(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if found := asked.of(rows):
        return [
            f"paired with {row['doc_id']} for {row['split']}" + (f", from {row['source']}" if row["source"] else "")
            for row in found
        ]
    return [f"not paired with {asked.doc_id}, but with {_list([row['doc_id'] for row in rows])}"]


def _qrels(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if found := asked.of(rows):
        return [
            f"{row['doc_id']} is judged {'relevant' if row['relevance'] > 0 else 'not relevant'} ({row['relevance']})"
            for row in found
        ]
    return [f"{asked.doc_id} is not judged"]


def _noise_truth(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    """Nothing if no noise was injected."""
    if not asked.params.get("rate"):
        return []
    if found := asked.of(rows):
        return [_truth(row) for row in found]
    return [f"no longer paired with {asked.doc_id}: {_truth(row)}" for row in rows if row["is_noisy"]]


def _truth(row: Row) -> str:
    if row["is_noisy"]:
        return f"replaced on purpose: {row['doc_id']} was put in ({row['kind']}), so the pair is wrong"
    return f"its pair with {row['doc_id']} was left as it was"


def _said_elsewhere(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    """Nothing, because another table says it."""
    return []


def _ranking(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    places = {row["doc_id"]: row for row in rows}
    first = min(rows, key=lambda row: row["rank"])["doc_id"]
    says = [
        f"{doc_id} at rank {places[doc_id]['rank']:,} of {len(rows):,} (score {places[doc_id]['score']:.3f})"
        if doc_id in places
        else f"{doc_id} is not among the first {len(rows):,}"
        for doc_id in asked.documents
    ]
    return says if places[first]["doc_id"] in asked.documents else [*says, f"{first} comes first"]


def _candidates(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if asked.doc_id is None:
        ranked = sorted(rows, key=lambda row: row["rank"])
        return [f"candidates for hard negatives: {_list([row['doc_id'] for row in ranked])}"]
    if found := asked.of(rows):
        return [f"{row['doc_id']} may become a hard negative: rank {row['rank']:,}{_scored(row)}" for row in found]
    return [f"{asked.doc_id} is not among the {len(rows):,} candidates for hard negatives"]


def _scored(row: Row) -> str:
    if row["score"] is None:
        return ""
    beside = f", and its positive {row['positive']} {row['positive_score']:.3f}" if row["positive"] else ""
    return f", it scores {row['score']:.3f}{beside}"


def _verdicts(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if asked.doc_id is None:
        dropped = [
            row["doc_id"] for row in sorted(rows, key=lambda row: row["bound"] - row["score"]) if not row["keep"]
        ]
        names = f": {_list(dropped)}" if dropped else ""
        return [f"{asked.stage} drops {len(dropped):,} of {len(rows):,} candidates{names}"]
    if found := asked.of(rows):
        return [_verdict(asked.stage, row) for row in found]
    return [f"{asked.stage} did not see {asked.doc_id}, only {len(rows):,} others"]


def _verdict(judge: str, row: Row) -> str:
    says = f"{judge} {'keeps' if row['keep'] else 'drops'} {row['doc_id']}: score {row['score']:.3f}"
    reason = f" ({row['reason']})" if row["reason"] else ""
    return f"{says}, and its bound is {row['bound']:.3f}{reason}"


def _negatives(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if asked.doc_id is None:
        return [f"hard negatives: {_list([row['doc_id'] for row in rows])}"]
    if asked.of(rows):
        return [f"{asked.doc_id} was drawn as a hard negative"]
    return [f"{asked.doc_id} was not drawn as a hard negative; {len(rows):,} others were"]


def _pair_scores(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    by = asked.params.get("kind", "the loss of training")
    return [
        f"{row['doc_id']}, epoch {row['epoch']}: suspicion {row['score']:.3f} by {by}{beside(row)}; "
        f"a higher one is more suspicious{_instead(row['best_other'])}"
        for row in asked.of(rows)
    ]


def _pair_features(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    """The pair's place among all by each feature with a name; a feature is a rank's share less 1/2."""
    says = []
    for row in asked.of(rows):
        found = dict(zip(FEATURES, row["features"], strict=False))
        told = [f"{100 * (found[name] + 0.5):.0f} % {words}" for name, words in _OF_FEATURES.items() if name in found]
        says.append(f"{row['doc_id']}: of all pairs, {', '.join(told)}")
    return says


def _competitors(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    by_words = asked.params.get("kind") == "bm25_margin"
    unranked = "not found by the query's words" if by_words else f"beyond rank {asked.params.get('depth')}"
    says = []
    for row in asked.of(rows):
        place = f"at rank {row['rank']:,} of all documents" if row["rank"] else unranked
        found = zip(row["competitors"][:_FEW], row["competitor_similarities"], strict=False)
        others = ", ".join(f"{doc_id} {similarity:.3f}" for doc_id, similarity in found) or "none"
        says.append(f"{row['doc_id']} {place} (similarity {row['similarity']:.3f}); others: {others}")
    return says


def _noise_flags(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    threshold = asked.params.get("threshold", asked.params.get("detection", {}).get("threshold"))
    return [
        f"{row['doc_id']}, epoch {row['epoch']}: {'flagged' if not row['is_clean'] else 'not flagged'}, "
        f"{_chance(row['p_clean'], _IF_SO)} (not flagged from {threshold}){_instead(row['replacement'])}"
        for row in asked.of(rows)
    ]


def _repaired_pairs(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if found := asked.of(rows):
        return [_ACTIONS.get(row["action"], f"{{}}: {row['action']}").format(row["doc_id"]) for row in found]
    given = [row["doc_id"] for row in rows if row["action"] == "relabel"]
    return [f"no longer paired with {asked.doc_id}; {_list(given)} was given instead"] if given else []


def _audit(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    return [
        f"{row['doc_id']} is {_CALLED[row['verdict']]}, {_chance(row['p_clean'], _ground(row['rests_on']))}"
        f"{_instead(row['replacement'])}: {row['reason']}"
        for row in asked.of(rows)
    ]


def _ground(rests_on: str | None) -> str:
    """The assumption behind a chance, in a clause; empty if people judged."""
    return f" if wrong pairs have {ASSUMED[rests_on]}" if rests_on in ASSUMED else ""


def _chance(p_clean: float | None, ground: str) -> str:
    return "no chance known" if p_clean is None else f"chance of being right {chance(p_clean)}{ground}"


def _audit_negatives(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    if asked.doc_id is None:
        return [f"likely relevant candidates: {_list([row['doc_id'] for row in rows])}"]
    used = {True: ", and was drawn as a negative", False: ", and was not drawn as a negative", None: ""}
    return [
        f"{row['doc_id']} is likely relevant, confidence {chance(row['confidence'])}{used[row['used']]}: "
        f"{row['reason']}"
        for row in asked.of(rows)
    ]


def _spans(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    """The labelled places of the document, or of the question."""
    found = asked.of(rows)
    if not found:
        return [f"no answer in {asked.doc_id}, but in {_list(_documents(rows))}"]
    places = _list([f"{row['answer']!r} at {row['start']:,}" for row in found])
    where = asked.doc_id or f"{len(_documents(rows)):,} passages"
    return [f"labelled in {where}: {places}"]


def _passages(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    with_answer = sum(row["has_answer"] for row in rows)
    says = [f"read in {len(rows):,} passages, {with_answer:,} of them with an answer"]
    for row in asked.of(rows) if asked.doc_id else ():
        says.append(
            f"{row['doc_id']} is number {row['rank']:,} of them, {'with' if row['has_answer'] else 'without'} one"
        )
    return says


def _confusing(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    found = sorted(asked.of(rows), key=lambda row: (row["doc_id"], row["rank"]))
    if asked.doc_id is None or not found:
        return []
    return [f"like {asked.doc_id} but without the answer: {_list([row['confusing'] for row in found])}"]


def _confidences(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    """A reader's confidence in the labels of each passage, summed over its places."""
    last = max(row["update"] for row in rows)
    first, final = (_by_document(rows, update) for update in (0, last))
    best = max(final, key=lambda doc_id: (final[doc_id], doc_id))
    says = [
        f"confidence in {doc_id} {first[doc_id]:.3f} at the start, {final[doc_id]:.3f} after {last:,} updates"
        for doc_id in asked.documents
        if doc_id in final
    ]
    says += [f"no label in {asked.doc_id}, so no confidence"] if asked.doc_id and asked.doc_id not in final else []
    return [*says, f"most confidence in {best}: {final[best]:.3f}, of {len(final):,} labelled passages"]


def _by_document(rows: Sequence[Row], update: int) -> dict[str, float]:
    found: dict[str, float] = {}
    for row in rows:
        if row["update"] == update:
            found[row["doc_id"]] = found.get(row["doc_id"], 0.0) + row["value"]
    return found


def _readings(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    ranked = sorted(rows, key=lambda row: row["rank"])
    if asked.doc_id is not None:
        return [f"{row['answer']!r} in {row['doc_id']} is answer {row['rank']:,}" for row in asked.of(ranked)[:_FEW]]
    return [f"answered {row['answer']!r} from {row['doc_id']} (score {row['score']:.3f})" for row in ranked[:1]]


def _documents(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row["doc_id"] for row in rows))


def _metrics(rows: Sequence[Row], asked: RowQuery) -> list[str]:
    by_split: dict[str, list[str]] = {}
    for row in rows:
        by_split.setdefault(row["split"], []).append(f"{row['measure']} {row['value']:.3f}")
    return [f"{', '.join(values)} (split {split})" for split, values in by_split.items()]


def _instead(doc_id: str | None) -> str:
    return f"; {doc_id} would be paired instead" if doc_id else ""


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FEW:,} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


# in the order of the account
SENTENCES: dict[str, Speak] = {
    "queries": _each("in the split {split}"),
    "excluded": _each("the {kind} {id} was left out: {reason}"),
    "answers": _answers,
    "pairs": _pairs,
    "qrels": _qrels,
    "noisy_pairs": _said_elsewhere,
    "clean_pairs": _said_elsewhere,
    "noise_truth": _noise_truth,
    "hidden": _of_documents("{doc_id} was hidden from training on purpose ({kind})"),
    "given_negatives": _of_documents("{doc_id} was given as a negative"),
    "given_weights": _of_documents("its pair with {doc_id} has the weight {weight:.2f} in training"),
    "trial": _of_documents("its pair with {doc_id} is held out, and the method is chosen by it"),
    "bm25_run": _ranking,
    "dense_run": _ranking,
    "fused_run": _ranking,
    "reranked_run": _ranking,
    "random_run": _ranking,
    "given_run": _said_elsewhere,
    "gold_run": _said_elsewhere,
    "evidence_pairs": _said_elsewhere,
    "passages": _passages,
    "spans": _spans,
    "confusing": _confusing,
    "confidences": _confidences,
    "readings": _readings,
    "candidates": _candidates,
    "verdicts": _verdicts,
    "negatives": _negatives,
    "candidate_pool": _said_elsewhere,
    "teacher_scores": _of_documents("{teacher} gives {doc_id} the score {score:.3f}; a higher one is more relevant"),
    "relevance": _of_documents("{doc_id} is relevant with a chance of {score:.2f}"),
    "pair_scores": _pair_scores,
    "pair_features": _pair_features,
    "competitors": _competitors,
    "noise_flags": _noise_flags,
    "repaired_pairs": _repaired_pairs,
    "repaired_flags": _said_elsewhere,
    "audit_negatives": _audit_negatives,
    "audit": _audit,
    "metrics": _metrics,
    "standings": _said_elsewhere,
}
