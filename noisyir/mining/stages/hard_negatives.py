"""mine: hard negatives for the training queries, drawn from their candidates.

pseudo_label: additional training pairs of queries and candidates that a ranker is confident are relevant to them.

Source: RocketQA's data augmentation (Qu et al., NAACL 2021, arXiv:2010.08191); candidates below its lower bound become
negatives when negatives are mined for these pairs.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Float, Int

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import ConfigError
from noisyir.data.artifacts import NOISY_PAIRS, PAIRS, QUERIES
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Job, Stage, told
from noisyir.engine.store import Store
from noisyir.engine.tables import semi_join, with_values
from noisyir.mining.artifacts import CANDIDATES, VERDICTS
from noisyir.mining.candidates import Candidates, Mask, Rows
from noisyir.mining.draw import draw, shares
from noisyir.mining.settings import MineParams, PseudoLabelParams
from noisyir.retrieval.texts import places
from noisyir.training.artifacts import NEGATIVES, PSEUDO_PAIRS

_BEST_FIRST = [("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")]
_CANDIDATES_AT_ONCE = 65536  # their arrays fit into the CPU cache


def mine(job: Job[MineParams]) -> None:
    """Weight and draw the candidates kept by all judges and filters; the result does not depend on their order."""
    table, candidates = _by_ids(job)
    kept, removed = np.ones(len(candidates), bool), {}
    filtered = ((kind, chosen.keeps(candidates)) for kind, chosen in job.params.filters.items())
    for name, keeps in (*_judged(job, table), *filtered):
        removed[name] = int((kept & ~keeps).sum())
        kept &= keeps
    candidates = candidates.take(kept)
    drawn = negatives(candidates, job.params, job.rng("draw"), job.rng("transitional"))
    pairs = table.select(PAIR_KEY).take(np.flatnonzero(kept)[drawn.rows])
    weight, draw = pa.array(drawn.weight, pa.float32()), pa.array(drawn.draw, pa.int32())
    job.write("negatives", with_values(pairs, weight=weight, draw=draw))
    fallbacks = dict(list(drawn.by.items())[1:])
    pairs = job.table("pairs")
    training = pc.count_distinct(pairs.filter(pc.equal(pairs["split"], "train"))["query_id"]).as_py()
    full = int((np.bincount(candidates.query[drawn.rows]) >= job.params.per_query).sum())
    job.note(
        "negatives",
        {
            "candidates": table.num_rows,
            "removed": removed,
            "drawn": len(drawn.rows),
            "filled_up_by": fallbacks,
            "fallback_rate": sum(fallbacks.values()) / max(1, len(drawn.rows)),
            "queries": training,
            "queries_with_too_few": training - full,
        },
    )


def _judged(job: Job[MineParams], table: pa.Table) -> "Iterator[tuple[str, Mask]]":
    """For each judge, in the order of `mine.judges`, the candidates it keeps; those it did not see are removed."""
    judges, given = job.params.judges, job.tables("verdicts")
    if unheard := sorted(set(judges) ^ set(given)):
        raise ConfigError("mining.mine_judges_given_verdicts", judges=list(judges), given=list(given), unheard=unheard)
    for judge in judges:
        yield judge, semi_join(table, given[judge].filter(given[judge]["keep"]))


def _by_ids(job: Job[MineParams]) -> tuple[pa.Table, "Candidates"]:
    """Candidates in the order of their ids, and as arrays.

    Raises:
        ConfigError: If scores are needed and missing.
    """
    params, table = job.params, job.table("candidates")
    if params.needs_scores and table["score"].null_count:
        wants = f"filters.{next(iter(params.filters))}" if params.filters else f"sampler={params.sampler.kind}"
        raise ConfigError("mining.mine_needs_scores_give", wants=wants)
    query, document = _numbers(table["query_id"]), _numbers(table["doc_id"])
    order = np.argsort(query * (document.max(initial=0) + 1) + document)
    scores = {name: table[name].to_numpy() for name, kind in CANDIDATES.columns.items() if kind == pa.float32()}
    return table.take(order), Candidates(query, document, table["rank"].to_numpy(), **scores).take(order)


def _numbers(ids: pa.ChunkedArray) -> "Rows":
    """Numbers of the ids from 0, in the order of the ids."""
    encoded = ids.combine_chunks().dictionary_encode()
    place_of = pc.rank(encoded.dictionary).to_numpy().astype(np.int64) - 1
    numbers: Rows = place_of[encoded.indices.to_numpy()]
    return numbers


def _story(meta: Meta, store: Store) -> Iterator[str]:
    if note := meta.notes.get("negatives"):
        by = ", ".join(f"{name} {count:,}" for name, count in note["removed"].items() if count) or "none"
        yield f"Hard negatives: of {note['candidates']:,} candidates were removed: {by}."


MINE = Stage(
    name="mine",
    version=3,
    params=MineParams,
    reads={
        "candidates": CANDIDATES.all(),
        "pairs": PAIRS["query_id", "split"],
        "verdicts": VERDICTS["query_id", "doc_id", "keep"].each().or_none(),
    },
    writes={"negatives": NEGATIVES},
    run=mine,
    seeded=True,
    story=_story,
)


def pseudo_label(job: Job[PseudoLabelParams]) -> None:
    """Write all given pairs, then the new ones ordered by query and probability.

    Only training queries get any. Queries with the text of a dev or test query are excluded because their pairs would
    leak held-out answers.
    """
    params, pairs, verdicts = job.params, job.table("pairs"), job.table("verdicts")
    asked = _may_be_paired(job.table("queries"))
    may = pc.and_(
        pc.greater(verdicts["score"], pa.scalar(params.min_positive, pa.float32())),
        pc.is_in(verdicts["query_id"], value_set=asked),
    )
    sure = verdicts.filter(may)
    sure = sure.filter(pa.array(~semi_join(sure, pairs))).sort_by(_BEST_FIRST).combine_chunks()
    made = sure.filter(pa.array(places(sure)[1] < (params.per_query or len(sure))))
    job.write("pseudo_pairs", pa.concat_tables([_columns(pairs, None), _columns(made, "train")]))
    count = {name: pc.count_distinct(found["query_id"]).as_py() for name, found in (("of", verdicts), ("to", made))}
    job.note("pseudo_pairs", {"made": len(made), "queries_judged": count["of"], "queries_paired": count["to"]})


def _may_be_paired(queries: pa.Table) -> pa.ChunkedArray:
    training = pc.equal(queries["split"], "train")
    held_out = queries.filter(pc.invert(training))["text"]
    return queries.filter(pc.and_(training, pc.invert(pc.is_in(queries["text"], value_set=held_out))))["query_id"]


def _columns(pairs: pa.Table, split: str | None) -> pa.Table:
    """The pairs in the artifact's columns; `split` is the split of new pairs, None for given ones."""
    if split is not None:
        pairs = pairs.append_column("split", pa.array([split] * len(pairs), pa.string()))
    for name, kind in PSEUDO_PAIRS.columns.items():
        if name not in pairs.column_names:
            pairs = pairs.append_column(name, pa.nulls(len(pairs), kind))
    return pairs.select(list(PSEUDO_PAIRS.columns)).cast(PSEUDO_PAIRS.schema)


PSEUDO_LABEL = Stage(
    name="pseudo_label",
    version=1,
    params=PseudoLabelParams,
    reads={
        "verdicts": VERDICTS["query_id", "doc_id", "score"],
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split", "source"],
        "queries": QUERIES["query_id", "text", "split"],
    },
    writes={"pseudo_pairs": PSEUDO_PAIRS},
    run=pseudo_label,
    story=partial(told, "pseudo_pairs", "Pseudo-labels: {made:,} pairs were added."),
)


@dataclass(frozen=True)
class Negatives:
    """Negatives ordered by query and draw.

    Attributes:
        rows: Positions among the candidates.
        draw: Number of the draw within its query, from 0.
        weight: Probability of being the first draw by the sampler's own weights.
        by: Number drawn from each tier, by name.
    """

    rows: Int[np.ndarray, " drawn"]
    draw: Int[np.ndarray, " drawn"]
    weight: Float[np.ndarray, " drawn"]
    by: dict[str, int]


def negatives(
    candidates: Candidates, params: MineParams, rng: np.random.Generator, transitional: np.random.Generator
) -> Negatives:
    """Draw from candidates in the order of their ids; `transitional` is for TriSampler's first stage."""
    rows, number, weight = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    sampler, per_query = params.sampler, params.per_query
    by = dict.fromkeys(sampler.with_fallbacks(candidates.take(slice(0)), per_query, transitional), 0)
    for start, block in candidates.blocks(_CANDIDATES_AT_ONCE):
        weights = sampler.with_fallbacks(block, per_query, transitional)
        drawn = draw(weights.values(), block.query, block.document, per_query, rng)
        rows.append(start + drawn.rows)
        number.append(drawn.draw)
        weight.append(shares(weights[sampler.kind], block.query)[drawn.rows])
        for name, count in zip(by, np.bincount(drawn.tier, minlength=len(by)).tolist(), strict=True):
            by[name] += count
    return Negatives(np.concatenate(rows), np.concatenate(number), np.concatenate(weight), by)
