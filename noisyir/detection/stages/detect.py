"""detect: which pairs are wrong according to their scores, and how many."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.artifact import PAIR_KEY
from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import NOISY_PAIRS
from noisyir.detection.artifacts import KEPT_BY_NULL, NOISE_ESTIMATE, PAIR_SCORES
from noisyir.detection.combine import Scores, combined
from noisyir.detection.guarantee import guaranteed_by_null
from noisyir.detection.null import named_null
from noisyir.detection.rate_sentences import NOT_SAID
from noisyir.detection.relabel import gets_replacement
from noisyir.detection.settings import NULLS, DetectParams, RepairParams
from noisyir.detection.verdicts import Detection
from noisyir.detection.verdicts import detect as judge
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Job, Stage, told
from noisyir.engine.store import Store
from noisyir.engine.tables import aligned, semi_join, with_values
from noisyir.training.artifacts import NOISE_FLAGS, REPAIRED_FLAGS, REPAIRED_PAIRS
from noisyir.training.flags import with_flags


def detect(job: Job[DetectParams]) -> None:
    """Judge the pairs of each epoch separately; the scores of several detectors are combined into one."""
    summary = {}
    with (
        job.writer("noise_flags") as flags,
        job.writer("noise_estimate") as estimates,
        job.writer("kept_by_null") as bounds,
    ):
        for epoch, tables in _by_epoch(job.tables("scores")):
            scores = combined([_scores(table) for table in tables], named_null(job.params.assume))
            found = judge(scores, job.params)
            flags.append(_flags(tables, scores.observed, found))
            estimates.append(_rows(epoch, found.estimate))
            bounds.append(_bounds(epoch, scores, job.params))
            summary[str(epoch)] = {"pairs": len(scores.observed), **found.estimate}
    job.note("detection", summary)
    job.note("result", f"{(~found.is_clean).sum():,} of {len(scores.observed):,} pairs flagged by scores alone")


def _by_epoch(scores: dict[str, pa.Table]) -> list[tuple[int, list[pa.Table]]]:
    """Group the tables by epoch, with rows aligned to the first table.

    Tables with a single epoch each are grouped together whatever their epochs, under the last of these.
    """
    if not scores:
        raise ConfigError("detection.detect_no_scores_pairs")
    epochs = {label: sorted(table["epoch"].unique().to_pylist()) for label, table in scores.items()}
    if empty := [label for label, found in epochs.items() if not found]:
        raise DataError("detection.detect_scores_no_rows", empty=empty)
    last = max(found[-1] for found in epochs.values())
    if all(len(found) == 1 for found in epochs.values()):
        return [(last, _aligned(scores))]
    first = next(iter(epochs))
    for label, found in epochs.items():
        if found != epochs[first]:
            raise DataError(
                "detection.detect_scores_epochs_scores", first=first, epochs=epochs[first], label=label, found=found
            )
    return [
        (epoch, _aligned({label: table.filter(pc.equal(table["epoch"], epoch)) for label, table in scores.items()}))
        for epoch in epochs[first]
    ]


def _aligned(scores: dict[str, pa.Table]) -> list[pa.Table]:
    """Reorder the tables' rows to the order of the first.

    Raises:
        DataError: If the tables are not of the same pairs.
    """
    (first, given), *others = scores.items()
    for label, table in others:
        common = int(semi_join(given, table).sum())
        if not common == table.num_rows == given.num_rows:
            raise DataError(
                "detection.detect_scores_different_pairs",
                first=first,
                label=label,
                num_rows=given.num_rows,
                num_rows_2=table.num_rows,
                common=common,
            )
    return [given, *(aligned(given, table, PAIR_KEY) for _, table in others)]


def _scores(table: pa.Table) -> Scores:
    nulls = {null: draws(table[f"{null}_scores"]) for null in NULLS if not table[f"{null}_scores"].null_count}
    return Scores(table["score"].to_numpy(), nulls)


def draws(column: pa.ChunkedArray) -> np.ndarray:
    """Convert lists of equal length to (pair, draw)."""
    lists = column.combine_chunks()
    return np.asarray(lists.flatten().to_numpy(zero_copy_only=False).reshape(len(lists), -1))


def _flags(tables: list[pa.Table], scores: np.ndarray, found: Detection) -> pa.Table:
    return pa.table(
        {
            "query_id": tables[0]["query_id"],
            "doc_id": tables[0]["doc_id"],
            "epoch": pc.max_element_wise(*(table["epoch"] for table in tables)),
            "score": pa.array(scores, pa.float32()),
            "p_clean": pa.nulls(len(scores), pa.float32()) if found.p_clean is None else pa.array(found.p_clean),
            "is_clean": pa.array(found.is_clean),
            "replacement": pc.coalesce(*(table["best_other"] for table in tables)),
        }
    )


def _rows(epoch: int, estimate: dict[str, float]) -> pa.Table:
    names, values = list(estimate), list(estimate.values())
    return pa.table({"epoch": pa.repeat(epoch, len(names)), "name": names, "value": values})


def _bounds(epoch: int, scores: Scores, params: DetectParams) -> pa.Table:
    """Bounds of one epoch; no rows if no null is assumed by name."""
    if (assumed := named_null(params.assume)) is None:
        return KEPT_BY_NULL.schema.empty_table()
    found = guaranteed_by_null(scores, assumed)
    columns = {"epoch": np.full(len(found.kept), epoch), "kept": found.kept, "bound": found.bound}
    return pa.table(columns).cast(KEPT_BY_NULL.schema)


def _story(meta: Meta, store: Store) -> Iterator[str]:
    if note := meta.notes.get("detection"):
        found = note[max(note, key=int)]
        flagged = round(found["flagged"] * found["pairs"])
        yield f"Detection: {flagged:,} of {found['pairs']:,} pairs were flagged; {NOT_SAID}."


DETECT = Stage(
    name="detect",
    version=6,
    params=DetectParams,
    reads={"scores": PAIR_SCORES.all().each()},
    writes={"noise_flags": NOISE_FLAGS, "noise_estimate": NOISE_ESTIMATE, "kept_by_null": KEPT_BY_NULL},
    run=detect,
    story=_story,
)


def repair(job: Job[RepairParams]) -> None:
    """Relabel the surest share of the flagged pairs that have a replacement; write pairs and matching flags.

    A relabelled pair counts as clean. If the query already has the replacement, the pair stays flagged.
    """
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    judged = with_flags(training, job.table("flags"))
    chosen = relabelled(judged, job.params.relabel)
    doc_ids = pc.if_else(pa.array(chosen), judged["replacement"], judged["doc_id"])
    is_clean = pc.or_(judged["is_clean"], pa.array(chosen))
    action = pc.if_else(pa.array(chosen), "relabel", pc.if_else(judged["is_clean"], "keep", "flag"))
    columns = {
        "p_clean": pc.if_else(pa.array(chosen), 1.0, judged["p_clean"]),
        "epoch": pa.array(np.zeros(judged.num_rows, np.int32)),
        "is_clean": is_clean,
        "replacement": pa.nulls(judged.num_rows, pa.string()),
    }
    repaired = with_values(judged, doc_id=doc_ids, action=action)
    job.write("repaired_pairs", repaired.select(["query_id", "doc_id", "split", "action"]))
    job.write("repaired_flags", with_values(repaired.select(["query_id", "doc_id", "score"]), **columns))
    job.note("repair", {"relabelled": int(chosen.sum()), "flagged": int(pc.sum(pc.invert(is_clean)).as_py() or 0)})


def relabelled(judged: pa.Table, share: float) -> np.ndarray:
    """Select the flagged rows to relabel: the share `share` of highest score, if their replacement is new to the query.

    Orders by score rather than p_clean, because p_clean is exactly 0 for many.
    """
    flagged = np.flatnonzero(~judged["is_clean"].to_numpy(zero_copy_only=False))
    highest_first = flagged[np.argsort(-judged["score"].to_numpy()[flagged], kind="stable")]
    chosen = np.zeros(judged.num_rows, bool)
    chosen[[row for row, gets in gets_replacement(judged, highest_first.tolist(), share).items() if gets]] = True
    return chosen


REPAIR = Stage(
    name="repair",
    version=1,
    params=RepairParams,
    reads={
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "score", "p_clean", "is_clean", "replacement"],
    },
    writes={"repaired_pairs": REPAIRED_PAIRS, "repaired_flags": REPAIRED_FLAGS},
    run=repair,
    story=partial(told, "repair", "Repair: {relabelled:,} pairs got another document; {flagged:,} stay flagged."),
)
