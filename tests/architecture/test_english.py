"""The library's docstrings and comments, in English that reads once: a translator's habits only fall."""

import ast
import io
import re
import tokenize
from functools import cache

import pytest

from tests.sources import ROOT, nodes, place, trees

# Each habit, and how often docstrings and comments of noisyir/ still have it.  Lower a figure when you mend some.
MOST = {
    r"\bwhat (?:it|is|the|a|an|was|has|they|each|one)\b": 7,
    r"\bwhere (?:there|it|one|none|nothing|no|they|a|an|the)\b": 6,
    r"\w+Error,? (?:for|where|when|as|of|if|unless)\b": 18,
    r"\b(?:those|that) (?:of|that|which)\b": 4,
    r"\b(?:whose|of which|of whom)\b": 6,
    r"\b(?:beside|lies|lie|told|asked|nobody|anew)\b|\bas it stands\b|\bas they stand\b|\bso many\b": 18,
    r", for (?:it|they|the|a|an|that|each|one|no)\b": 28,
}


@cache
def prose() -> str:
    """All docstrings and comments of the library, one a line."""
    found = []
    for path, parts in nodes().items():
        if not path.is_relative_to(ROOT / "noisyir"):
            continue
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found += [ast.get_docstring(node) or "" for node in parts if isinstance(node, documented)]
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        found += [token.string for token in tokens if token.type == tokenize.COMMENT]
    return "\n".join(" ".join(text.split()) for text in found)


@pytest.mark.parametrize("habit", MOST)
def test_a_habit_of_translation_does_not_spread(habit: str):
    assert len(re.findall(habit, prose(), re.IGNORECASE)) <= MOST[habit]


def test_a_share_is_written_as_the_docs_write_it():
    """50 %, by `percent`, and never 50%."""
    texts = {path: ast.unparse(tree) for path, tree in trees().items()}
    texts |= {path: path.read_text() for path in (ROOT / "noisyir").rglob("errors.toml")}
    assert not [place(path) for path, text in texts.items() if re.search(r":[.\d]*%}|\d%(?![\w(])", text)]
