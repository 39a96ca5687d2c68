"""The page of corrected measures: what judgements say of systems, next to the labels."""

from collections.abc import Sequence

from markupsafe import Markup

from noisyir.base.pages.cells import TextTable, templates
from noisyir.base.pages.charts import Estimate, interval_chart

WIDTH = 640


def ruler_page(title: str, sentences: Sequence[str], rows: Sequence[Sequence[str]], main: Sequence[Estimate]) -> str:
    """The page as HTML text.

    Args:
        sentences: The result in sentences, the most important one first.
        rows: A row for each measure and system, headings first.
        main: Corrected values of the main measure; empty if there are too few judgements.
    """
    chart = Markup(interval_chart(main, width=WIDTH)) if main else ""
    template = templates("noisyir.evaluation.pages").get_template("ruler.html")
    return template.render(title=title, sentences=sentences, table=TextTable(rows, left=2), chart=chart)
