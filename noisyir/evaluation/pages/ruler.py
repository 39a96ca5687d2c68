"""The page of corrected measures: what judgements say of systems, next to the labels."""

import numpy as np
from markupsafe import Markup

from noisyir.base.pages.cells import TextTable, templates
from noisyir.base.pages.charts import Estimate, interval_chart
from noisyir.evaluation.ruler import DRAWN_BY, Ruler

WIDTH = 640


def ruler_page(found: Ruler) -> str:
    """The page as HTML text."""
    corrected, systems = found.corrected(DRAWN_BY), found.pool.systems
    tests = map(corrected.interval, np.eye(len(systems))) if corrected.queries > 1 else ()
    main = [Estimate(name, *test[:3]) for name, test in zip(systems, tests, strict=False)]
    chart = Markup(interval_chart(main, width=WIDTH)) if main else ""
    title, table = " vs ".join(reversed(found.pool.named)), TextTable(found.rows(), left=2)
    template = templates("noisyir.evaluation.pages").get_template("ruler.html")
    return template.render(title=title, sentences=[*found.told()], table=table, chart=chart)
