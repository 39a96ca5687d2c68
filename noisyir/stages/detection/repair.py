"""repair: flagged pairs get the document that was found instead, the surest first; the others stay flagged."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.data.flags import with_flags
from noisyir.detection.relabel import gets_replacement
from noisyir.detection.settings import RepairParams
from noisyir.engine.stage import Job, Stage
from noisyir.engine.story import told
from noisyir.schemas.data import NOISY_PAIRS
from noisyir.schemas.noise import NOISE_FLAGS, REPAIRED_FLAGS, REPAIRED_PAIRS


def repair(job: Job[RepairParams]) -> None:
    """Relabel the surest share of the flagged pairs that have a replacement; write pairs, and flags that fit them.

    A relabelled pair counts as clean.  One whose replacement the query has already is left flagged.
    """
    pairs = job.table("pairs")
    training = pairs.filter(pc.equal(pairs["split"], "train"))
    judged = with_flags(training, job.table("flags"))
    chosen = relabelled(judged, job.params.relabel)
    doc_ids = pc.if_else(pa.array(chosen), judged["replacement"], judged["doc_id"])
    is_clean = pc.or_(judged["is_clean"], pa.array(chosen))
    action = pc.if_else(pa.array(chosen), "relabel", pc.if_else(judged["is_clean"], "keep", "flag"))
    judged = judged.set_column(judged.schema.get_field_index("doc_id"), "doc_id", doc_ids)
    job.write("repaired_pairs", judged.select(["query_id", "doc_id", "split"]).append_column("action", action))
    job.write(
        "repaired_flags",
        judged.select(["query_id", "doc_id", "score", "p_clean"])
        .set_column(3, "p_clean", pc.if_else(pa.array(chosen), 1.0, judged["p_clean"]))
        .append_column("epoch", pa.array(np.zeros(judged.num_rows, np.int32)))
        .append_column("is_clean", is_clean)
        .append_column("replacement", pa.nulls(judged.num_rows, pa.string())),
    )
    job.note("repair", {"relabelled": int(chosen.sum()), "flagged": int(pc.sum(pc.invert(is_clean)).as_py() or 0)})


def relabelled(judged: pa.Table, share: float) -> np.ndarray:
    """Which rows to relabel: of the flagged, `share` with the highest scores, if their replacement is new to the query.

    The score and not p_clean orders them, for p_clean is the same 0 for many.
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
