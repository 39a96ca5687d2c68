"""Ranking measures of ir-measures on Arrow tables, always per query.

Tie rule: the rank column decides, scores never.  Same-id rule: see `ranked`.
"""

import re
import string
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import ConfigError, did_you_mean
from noisyir.base.settings import Split, with_promotion

if TYPE_CHECKING:
    from ir_measures import Measure

Judgements = Mapping[str, Mapping[str, int]]


def ranked(run: pa.Table, query_ids: Collection[str], *, ignore_same_id: bool = False) -> pa.Table:
    """The run's rows of these queries, by query and rank, ranks counted again from 1.

    ignore_same_id drops a hit whose document id is the query's id before ranks are counted: BEIR's rule for
    collections whose queries are themselves documents.
    """
    keep = pc.is_in(run["query_id"], pa.array(list(query_ids), pa.string()))
    if ignore_same_id:
        keep = pc.and_(keep, pc.not_equal(run["query_id"], run["doc_id"]))
    run = run.filter(keep).sort_by([("query_id", "ascending"), ("rank", "ascending")]).combine_chunks()
    sizes = query_sizes(run)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = pa.array(np.arange(run.num_rows) - starts + 1, pa.int32())
    return run.set_column(run.column_names.index("rank"), "rank", ranks)


def query_sizes(run: pa.Table) -> np.ndarray:
    """Rows of each query of a table that is ordered by query, in that order."""
    lengths = pc.run_end_encode(run["query_id"].combine_chunks()).run_ends.to_numpy() if run.num_rows else []
    return np.diff(lengths, prepend=0).astype(np.int64)


def ranking(run: pa.Table) -> Iterator[tuple[str, list[str]]]:
    """(query id, its document ids, best first) of a run that `ranked` gave."""
    sizes = query_sizes(run)
    ends = np.cumsum(sizes)
    query_ids, doc_ids = run["query_id"].take(ends - sizes).to_pylist(), run["doc_id"].to_pylist()
    for query_id, end, size in zip(query_ids, ends, sizes, strict=True):
        yield query_id, doc_ids[end - size : end]


def judged(qrels: pa.Table, query_ids: Collection[str]) -> dict[str, dict[str, int]]:
    """Judgements of those queries among `query_ids` that have at least one relevant document (relevance >= 1)."""
    wanted: dict[str, dict[str, int]] = {query_id: {} for query_id in query_ids}
    columns = (qrels[name].to_pylist() for name in ("query_id", "doc_id", "relevance"))
    for query_id, doc_id, relevance in zip(*columns, strict=True):
        if query_id in wanted:
            wanted[query_id][doc_id] = relevance
    return {query_id: found for query_id, found in sorted(wanted.items()) if max(found.values(), default=0) >= 1}


def per_query(run: pa.Table, judgements: Judgements, measures: Sequence[str]) -> pa.Table:
    """measure, query_id and value for every measure and judged query; a query that the run lacks counts 0.

    run: query_id, doc_id, rank, as `ranked` gives it.  judgements: query id to {document id: relevance}.
    measures: ir-measures' names; ConfigError for one that is unknown or that no installed provider computes.
    """
    import ir_measures

    parsed = {name: parse(name) for name in measures}
    # Providers sort by score and break ties each in their own way: scores that fall with the rank leave no tie.
    falling = [-float(rank) for rank in range(run.num_rows)]
    rankings = {
        query_id: dict(zip(doc_ids, falling, strict=False))
        for query_id, doc_ids in ranking(run)
        if query_id in judgements
    }
    places = {query_id: place for place, query_id in enumerate(judgements)}
    values = {measure: np.zeros(len(places)) for measure in parsed.values()}
    try:
        for found in ir_measures.iter_calc(list(values), judgements, rankings):
            values[found.measure][places[found.query_id]] = found.value
    except ValueError as error:
        raise ConfigError(
            "retrieval.score_measures_cannot_compute", measures=", ".join(measures), error=error
        ) from error
    return pa.table(
        {
            "measure": pa.array(np.repeat(list(parsed), len(places)), pa.string()),
            "query_id": pa.array(list(places) * len(parsed), pa.string()),
            "value": pa.array(np.concatenate([values[measure] for measure in parsed.values()]), pa.float64()),
        }
    )


def searched_for(run: pa.Table, query_ids: Collection[str]) -> bool:
    """Whether the run has documents for any of these queries; of a split that was left out it has none."""
    return bool(pc.any(pc.is_in(run["query_id"], value_set=pa.array(query_ids, pa.string()))).as_py())


def query_groups(judgements: Judgements) -> dict[str, str]:
    """The document by which a query is one draw with others: its most relevant one, of several the most asked for.

    Questions about one paragraph are right and wrong together, so that counting each as a draw of its own would take
    chance for knowledge.
    """
    askers = Counter(doc_id for found in judgements.values() for doc_id, relevance in found.items() if relevance >= 1)
    return {
        query_id: min(found, key=lambda doc_id: (-found[doc_id], -askers[doc_id], doc_id))
        for query_id, found in judgements.items()
    }


def asked_splits(splits: Sequence[Split], queries: pa.Table) -> tuple[Split, ...]:
    """The splits to score: these, and that of promotion where the data has one."""
    there = queries["split"].unique().to_pylist()
    return tuple(split for split in with_promotion(splits) if split in splits or split in there)


def with_means(values: pa.Table, split: str, groups: Mapping[str, str]) -> pa.Table:
    """The values of a split's queries, and after them each measure's mean, as METRICS has them.

    groups: of the queries; one that is not there is its own.
    """
    means = values.group_by("measure", use_threads=False).aggregate([("value", "mean")])
    nobody = pa.nulls(means.num_rows, pa.string())
    means = pa.table({"measure": means["measure"], "query_id": nobody, "value": means["value_mean"]})
    both = pa.concat_tables([values, means])
    shared = [query_id and groups.get(query_id, query_id) for query_id in both["query_id"].to_pylist()]
    both = both.append_column("split", pa.repeat(split, both.num_rows))
    return both.append_column("group", pa.array(shared, pa.string()))


def parse(name: str) -> "Measure":
    """The measure of that name in ir-measures' grammar; ConfigError, with a suggestion, for any other."""
    import ir_measures

    try:
        measure = ir_measures.parse_measure(name)
        measure.validate_params()  # type: ignore[no-untyped-call]
        return measure
    except (NameError, ValueError, AssertionError, KeyError, TypeError) as error:
        known: dict[str, Any] = ir_measures.measures.registry
        base = name.partition("@")[0]
        hint = "" if base in known else did_you_mean(base, sorted(known))
        raise ConfigError("retrieval.score_measures_not_measure", name=name, hint=hint) from error


# An id may hold spaces, which a TREC file cannot: these characters are written as %XX.
_UNSAFE = {ord(char): quote(char) for char in "% \t\n\r\v\f\x1c\x1d\x1e\x1f\x85\xa0\u2028\u2029"}


def write_run(run: pa.Table, path: Path) -> None:
    """Write `query_id Q0 doc_id rank score noisyir` lines of a run in the order of `measures.ranked`.

    trec_eval ranks by score alone, so equal scores are lowered by the least float32 step: its order is ours.
    """
    run = run.combine_chunks()
    scores = pa.array(strictly_falling(run["score"].to_numpy(), query_sizes(run)), pa.float32())
    columns = (_escaped(run["query_id"]), "Q0", _escaped(run["doc_id"]), run["rank"], scores, "noisyir")
    texts = [column if isinstance(column, str) else column.cast(pa.string()) for column in columns]
    lines = pc.binary_join_element_wise(*texts, " ")
    path.write_text("".join(f"{line}\n" for line in lines.to_pylist()), encoding="utf-8", newline="\n")


def write_qrels(judgements: Mapping[str, Mapping[str, int]], path: Path) -> None:
    """Write `query_id 0 doc_id relevance` lines, sorted."""
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for query_id, found in sorted(judgements.items()):
            out.writelines(
                f"{_escape(query_id)} 0 {_escape(doc_id)} {grade}\n" for doc_id, grade in sorted(found.items())
            )


def strictly_falling(scores: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Scores (float32) with every one that does not fall below its predecessor in the same query lowered until it does.

    sizes: rows of each query, in order.  float32 values, taken as integers in their own order, step by one.
    """
    steps = _ordinal(scores.astype(np.float32))
    place = np.arange(len(steps))
    for end, size in zip(np.cumsum(sizes), sizes, strict=True):
        one = slice(end - size, end)
        steps[one] = np.minimum.accumulate(steps[one] + place[one]) - place[one]
    return _from_ordinal(steps)


def _ordinal(values: np.ndarray) -> np.ndarray:
    bits = (values + np.float32(0)).view(np.int32).astype(np.int64)  # + 0 makes the two zeros one
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def _from_ordinal(steps: np.ndarray) -> np.ndarray:
    bits = np.where(steps < 0, (-steps) | 0x80000000, steps)
    return bits.astype(np.uint32).view(np.float32)


def _escape(name: str) -> str:
    return name.translate(_UNSAFE)


def _escaped(column: pa.ChunkedArray) -> pa.Array:
    """Ids as they are written; each distinct one is looked at once."""
    coded = column.combine_chunks().dictionary_encode()
    names = pa.array([_escape(name) for name in coded.dictionary.to_pylist()], pa.string())
    return names.take(coded.indices)


Normalisation = Literal["squad", "triviaqa"]
_PUNCTUATION = set(string.punctuation)
_QUOTES = {"\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}", "\N{ACUTE ACCENT}", "`"}
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str, by: Normalisation) -> str:
    """Lower case, without punctuation and the articles a, an, the, words parted by one space.

    squad deletes punctuation, triviaqa puts a space in its place and counts four quotation marks to it.  Sources:
    evaluate-v1.1.py (Rajpurkar et al., 2016); evaluation_utils.py of TriviaQA (Joshi et al., 2017).
    """
    text = text.lower()
    if by == "squad":
        text = "".join(character for character in text if character not in _PUNCTUATION)
    else:
        text = "".join(" " if character in _PUNCTUATION | _QUOTES else character for character in text)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """1 where the answer equals one of the references after normalisation, else 0."""
    return float(normalised(answer, by) in [normalised(reference, by) for reference in references])


def best_f1(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """The highest token F1 with any of the references; 0 without references."""
    return max((f1(answer, reference, by) for reference in references), default=0.0)


def f1(answer: str, reference: str, by: Normalisation) -> float:
    """2 P R / (P + R) over the bags of normalised words; 0 where they share none."""
    given, wanted = (normalised(text, by).split() for text in (answer, reference))
    shared = sum((Counter(given) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)
