"""Export of an experiment's measures as LaTeX: systems with intervals, then differences with corrected p-values."""

import re
from collections.abc import Sequence
from pathlib import Path

from noisyir.app.lookup import finished_comparison
from noisyir.engine.store import Store
from noisyir.evaluation.pages.summary import difference_rows, summary_rows

SUFFIX = ".tex"
_SPECIAL = re.compile(r"[&%$#_{}]")
_WRITTEN = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$"}
_MINUS, _DASH = "\N{MINUS SIGN}", "\N{EN DASH}"


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write two tabulars with booktabs rules."""
    comparison = store.builds.table(finished_comparison(store, name).results["comparison"])
    tables = [tabular(summary_rows(comparison), left=1), tabular(difference_rows(comparison), left=4)]
    target.write_text("% needs \\usepackage{booktabs}\n" + "\n\n".join(tables) + "\n", encoding="utf-8")
    return f"{target}: {len(summary_rows(comparison)) - 1} systems; \\input it, with \\usepackage{{booktabs}}"


def tabular(rows: Sequence[Sequence[str]], left: int) -> str:
    """Format text rows, headings first, as a tabular; all columns but the first `left` are numeric."""
    lines = [" & ".join(map(escaped, row)) + r" \\" for row in rows]
    columns = "l" * left + "r" * (len(rows[0]) - left)
    body = "\n".join(lines[1:])
    return f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{lines[0]}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}"


def escaped(text: str) -> str:
    """Escape a text for LaTeX."""
    plain = _SPECIAL.sub(lambda found: f"\\{found[0]}", "".join(f"\0{ord(c)}\0" if c in _WRITTEN else c for c in text))
    for sign, written in _WRITTEN.items():
        plain = plain.replace(f"\0{ord(sign)}\0", written)
    return plain.replace(_MINUS, "$-$").replace(_DASH, "--")
