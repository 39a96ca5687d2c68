"""Export of an experiment's measures as Markdown: systems with intervals, then differences with corrected p-values."""

from pathlib import Path

from noisyir.app.lookup import finished_comparison
from noisyir.base.pages.cells import markdown_table
from noisyir.engine.store import Store
from noisyir.evaluation.pages.summary import difference_rows, summary_rows

SUFFIX = ".md"


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write two tables."""
    comparison = store.builds.table(finished_comparison(store, name).results["comparison"])
    tables = [markdown_table(summary_rows(comparison), left=1), markdown_table(difference_rows(comparison), left=4)]
    target.write_text("\n".join(tables), encoding="utf-8")
    return f"{target}: {len(summary_rows(comparison)) - 1} systems"
