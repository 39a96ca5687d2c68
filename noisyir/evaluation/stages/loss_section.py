"""loss_section: the losses that methods flagged pairs by, as pictures."""

import pyarrow as pa

from noisyir.data.artifacts import NOISE_TRUTH
from noisyir.detection.artifacts import PAIR_SCORES
from noisyir.engine.stage import Job, Stage
from noisyir.evaluation.artifacts import SECTIONS
from noisyir.evaluation.settings import LossSectionParams
from noisyir.training.artifacts import NOISE_FLAGS


def loss_section(job: Job[LossSectionParams]) -> None:
    """Draw the detections of each label; no section if there was none."""
    from noisyir.evaluation.pages.pair_losses import loss_figures, loss_page

    flags, truth, figures = job.tables("flags"), job.tables("truth"), []
    for label, scores in job.tables("scores").items():
        settings = job.params.detection[label]
        figures += loss_figures(label, scores, flags[label], truth[label], settings, job.params.shown)
    row = {"name": "losses", "heading": "Losses of pairs", "html": loss_page(figures), "markdown": ""}
    job.write("sections", pa.Table.from_pylist([row] if figures else [], schema=SECTIONS.schema))


LOSS_SECTION = Stage(
    name="loss_section",
    version=1,
    params=LossSectionParams,
    reads={
        "scores": PAIR_SCORES["query_id", "doc_id", "epoch", "score", "random_scores"].each(),
        "flags": NOISE_FLAGS["query_id", "doc_id", "epoch", "is_clean"].each(),
        "truth": NOISE_TRUTH["query_id", "doc_id", "is_noisy"].each(),
    },
    writes={"sections": SECTIONS},
    run=loss_section,
    pool="driver",
)
