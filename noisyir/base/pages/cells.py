"""Cells of tables: numbers as pages, Markdown and the terminal write them, and tables of such cells."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import jinja2
import numpy as np
import pyarrow as pa
from markupsafe import Markup

NONE = "\N{EN DASH}"  # for a missing value


@dataclass(frozen=True)
class TextTable:
    """Rows of text, headings first; the first `left` columns are words, aligned left."""

    rows: Sequence[Sequence[str]] = ()
    left: int = 0

    def __bool__(self) -> bool:
        return len(self.rows) > 1


NO_TABLE = TextTable()


@dataclass(frozen=True)
class Figure:
    """A chart with its caption: a name, and a remark in a lower voice."""

    name: str
    about: str
    chart: Markup


@dataclass(frozen=True)
class Section:
    """A stage's section of a page: anchor, heading, HTML, and perhaps the same as Markdown."""

    name: str
    heading: str
    html: Markup
    markdown: str


def sections_in(tables: Iterable[pa.Table]) -> list[Section]:
    """The sections in tables of SECTIONS."""
    return [Section(**{**row, "html": Markup(row["html"])}) for table in tables for row in table.to_pylist()]


def number(value: float | None) -> str:
    """A measure to three places."""
    return NONE if value is None else f"{value:.3f}"


def percent(share: float | None, places: int = 0) -> str:
    """A share in percent, as the docs write it: 50 %."""
    return NONE if share is None else f"{100 * share:.{places}f} %"


def rate_as_set(rate: float) -> str:
    """A noise rate as in settings: 50 %, 2.5 %."""
    return f"{100 * rate:g} %"


def signed(value: float) -> str:
    """A difference to three places with its sign, a true minus; 0.000 has none."""
    text = f"{value:+.3f}"
    return "0.000" if float(text) == 0 else text.replace("-", "\N{MINUS SIGN}")


def badge(said: str, seeds: int = 1) -> str:
    """The words of a badge for a verdict, with the number of seeds if they merely suggest it."""
    few = f" ({seeds} seed{'s' if seeds > 1 else ''})" if said.startswith("suggests") else ""
    words = {"unclear": "not told apart", "equal": "the same", "slight": "told apart, but small"}
    return words.get(said, said.removeprefix("suggests ") + few).upper()


def p_value(value: float) -> str:
    """A p-value to three places, never zero."""
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def shorten(text: str, length: int) -> str:
    """The beginning of a text, with an ellipsis if it was cut."""
    return text if len(text) <= length else text[: length - 1] + "…"


def difference_cells(row: Mapping[str, Any]) -> list[str]:
    """A test's difference, its interval and its corrected p."""
    low, high = signed(row["difference_low"]), signed(row["difference_high"])
    return [signed(row["difference"]), f"[{low}, {high}]", p_value(row["p_holm"])]


def mean_and_std(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation over seeds, the latter 0 for a single one."""
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def mean_with_std(values: Sequence[float]) -> str:
    """Mean over seeds to three places, with the standard deviation if there are several."""
    mean, std = mean_and_std(values)
    return f"{mean:.3f} ± {std:.3f}" if len(values) > 1 else f"{mean:.3f}"


def markdown_table(rows: Sequence[Sequence[str]], *, left: int) -> str:
    """Rows as a Markdown table; the first is its heading, the first `left` columns are aligned left."""
    head, *body = ([cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows)
    rule = [":--" if place < left else "--:" for place in range(len(head))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, rule, *body)) + "\n"


@cache
def templates(room: str, **filters: Callable[..., Any]) -> jinja2.Environment:
    """A Jinja environment with the templates of a room and the shared ones, compiled once, and these filters."""
    found = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(room), jinja2.PackageLoader("noisyir.base.pages")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters |= filters
    return found
