"""The losses that pairs were flagged by, as histograms with the fitted mixture."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from markupsafe import Markup

from noisyir.base.pages.cells import Figure, percent, templates
from noisyir.detection.combine import Scores
from noisyir.detection.score_chart import border, histogram
from noisyir.detection.settings import DetectParams
from noisyir.detection.verdicts import detect
from noisyir.engine.tables import aligned, matrix, semi_join

_DETECTION, _WIDTH = ("query_id", "doc_id", "epoch"), 520


def epochs_shown(epochs: Sequence[int], most: int) -> list[int]:
    """At most `most` of the epochs, evenly spread, the first and the last among them."""
    places = np.linspace(0, len(epochs) - 1, min(most, len(epochs)))
    return [epochs[place] for place in np.unique(places.round().astype(int))]


def loss_figures(
    label: str, scores: pa.Table, flags: pa.Table, truth: pa.Table, params: DetectParams, most: int
) -> list[Figure]:
    """A histogram for each of at most `most` detections, with the mixture that they fitted.

    The wrong pairs by `truth` have another tone, or the flagged ones without added noise.

    Source: Zhang et al. (NPC), Findings of EMNLP 2023, Figure 4.
    """
    put_in, figures = truth.filter(truth["is_noisy"]), []
    for epoch in epochs_shown(sorted(scores["epoch"].unique().to_pylist()), most):
        found = scores.filter(pc.equal(scores["epoch"], epoch))
        losses, random = found["score"].to_numpy(), matrix(found["random_scores"])
        flagged = ~aligned(found, flags, _DETECTION)["is_clean"].to_numpy(zero_copy_only=False).astype(bool)
        wrong = semi_join(found, put_in) if len(put_in) else flagged
        estimate = detect(Scores(losses, {"random": random}), params).estimate
        chart = histogram(
            losses, flagged, estimate, border(losses, flagged), wrong=wrong, axis="loss, nats", width=_WIDTH
        )
        about = f"{percent(float(flagged.mean()), 1)} flagged" + ("" if len(put_in) else "; hatched: the flagged pairs")
        figures.append(Figure(f"{label}, after {epoch} epoch{'s' if epoch != 1 else ''}", about, Markup(chart)))
    return figures


def loss_page(figures: Sequence[Figure]) -> str:
    """The section; each picture has its own pattern, because an id stands once on a page."""
    named = [
        replace(each, chart=Markup(str(each.chart).replace('id="hatch"', f'id="hatch{number or ""}"')))
        for number, each in enumerate(figures)
    ]
    return templates("noisyir.evaluation.pages").get_template("pair_losses.html").render(figures=named)
