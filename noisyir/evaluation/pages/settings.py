"""Settings of the pages that show results."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, NonNegativeFloat, NonNegativeInt

from noisyir.base.settings import Fraction, Location, Params, Split


class PublishedParams(Params):
    """A paper's number, shown next to ours."""

    system: str = Field(description="our system that it is compared with: a method, bm25, or METHOD_reranked")
    split: Split = Field("test", description="the split that it was measured on")
    measure: str = Field(description="as score names it: AnswerMatch@20 is the papers' R@20 of open questions")
    value: float = Field(description="in the measure's own unit: 0.86 for 86.0 %")
    source: str = Field(description="where it stands, and what differs")
    noise_rate: Fraction | None = Field(None, description="noise.rate that it was measured at; null: any")


def _one_each(rows: Any) -> Any:
    """Rows of one measure each, from rows that may have `values` by measure."""
    if not isinstance(rows, list | tuple):
        return rows
    found: list[Any] = []
    for row in rows:
        values = row.get("values") if isinstance(row, dict) else None
        rest = {name: row[name] for name in row if name != "values"} if isinstance(values, dict) else row
        each = values.items() if isinstance(values, dict) else ()
        found += [{**rest, "measure": measure, "value": value} for measure, value in each] or [row]
    return found


Published = Annotated[tuple[PublishedParams, ...], BeforeValidator(_one_each)]
"""Papers' numbers; a row may have `values: {MEASURE: VALUE, ...}` for several."""


class ReportParams(Params):
    """The report page."""

    title: str = Field("", description="the page's heading; the experiment's name if empty")
    alpha: Fraction = Field(0.05, description="largest Holm-corrected p-value that better or worse is said of")
    min_gain: NonNegativeFloat = Field(0.01, description="least gain that is called better, in the measure's own unit")
    examples: NonNegativeInt = Field(5, description="example pairs, wins and losses shown")
    corrected: Location = Field(None, description="folder of judged pools, from `compare --corrected`; null: none")
    settings: dict[str, Any] = Field(
        {}, description="the experiment's, filled in by the pipeline: to make the page again"
    )
    published: tuple[PublishedParams, ...] = Field((), description="the experiment's, filled in by the pipeline")
