"""README and all of docs/ keep to the style sheet: short sentences, and phrases that a newcomer reads once."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.unit.test_site import in_menu

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
HELD = [README, ROOT / "CONTRIBUTING.md", ROOT / "infra" / "README.md", ROOT / "benchmarks" / "README.md"]
HELD += sorted(DOCS.rglob("*.md"))
LONG = 25  # words of a sentence
SHARE, OF_RECORDS = 0.10, 0.15  # of a page's sentences that may be longer; of a record's or a decision's
FEW = 3  # long sentences that any page may have
MOST_WORDS, MOST_OF_ALL = 27_000, 48_000
PHRASES = re.compile(
    r"\b(?:what (?:it|they|the|a|is|was|were)|whose|(?:says?|tells?) (?:which|what)"
    r"|so that|beside|those (?:of|that)|that of"
    r"|wherever|whatever|whichever|of (?:its|one's) own|nobody|anew|is read(?!-)|nothing else|no other|at once"
    r"|stands? (?:in|beside|for)|taken (?:for|as|to be)|(?:by|with|to|of) which|or else|(?:is|are) told"
    r"|the (?:surer|surest|likelier|likeliest)|made (?:of|from|anew)|whoever|but for|all the same|nowhere"
    r"|asked about|bears? out|in truth)\b"
)
_CODE = re.compile(r"^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE)


def prose(page):
    """A page without code, tables, headings, and addresses of links; inline code counts as one word."""
    text = re.sub(r"`[^`\n]+`", "code", _CODE.sub("", page.read_text(encoding="utf-8")))
    text = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)
    return "\n".join(line for line in text.splitlines() if not line.startswith(("|", "#", "    ")))


def sentences(page):
    """Its sentences; an item of a list begins one."""
    parts = re.split(r"(?<=[.!?:])[*\")]*\s+|\n\n+|\n(?=\s*(?:[-*]|\d+\.) )", prose(page))
    return [part for part in parts if re.search(r"\w", part)]


@pytest.mark.parametrize("page", HELD, ids=lambda page: str(page.relative_to(ROOT)))
def test_sentences_are_short_and_plain(page):
    said = sentences(page)
    long = [one for one in said if len(one.split()) > LONG]
    share = OF_RECORDS if page.is_relative_to(DOCS / "record") or page.is_relative_to(DOCS / "decisions") else SHARE
    assert len(long) <= max(FEW, share * len(said)), "\n".join(long)
    lines = enumerate(_CODE.sub(lambda code: "\n" * code[0].count("\n"), page.read_text()).splitlines(), 1)
    assert not [f"{page.name}:{at}: {found[0]}" for at, line in lines for found in PHRASES.finditer(line)]


def messages(module: Path) -> Iterator[tuple[int, str]]:
    """Line and text of the strings of four words or more; a string that stands alone is for readers of code."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            if node.value.count(" ") >= 3:
                yield node.lineno, node.value


@pytest.mark.parametrize(
    "folder", sorted(path.name for path in (ROOT / "noisyir").iterdir() if path.is_dir() and not path.is_symlink())
)
def test_messages_and_descriptions_of_settings_are_plain(folder):
    said = [(path, *one) for path in (ROOT / "noisyir" / folder).rglob("*.py") for one in messages(path)]
    assert not [f"{path.name}:{at}: {found[0]}" for path, at, text in said for found in PHRASES.finditer(text)]


def test_readme_is_read_in_two_minutes():
    lines = README.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 150
    shown = [re.sub(r"\]\([^)]*\)", "]", line) for line in lines if not line.startswith("|")]
    assert max(len(line) for line in shown) <= 130


def test_the_site_is_no_longer_than_a_person_reads():
    """Outside Reference, Record and decisions, and all of it."""
    menu = {
        name: entry for part in yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"] for name, entry in part.items()
    }
    told = [page for name in menu.keys() - {"Reference", "Record"} for page in in_menu(menu[name])]
    counted = [README, *(ROOT / "docs" / page for page in told if not page.startswith("decisions/"))]
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in counted) <= MOST_WORDS
    assert sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.rglob("*.md")) <= MOST_OF_ALL


def test_the_measure_sees_long_sentences_and_phrases(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# What it is\n\nA short one. " + "word " * 26 + "end. Whose?\n\n- an item\n- another\n\n```\nwhose\n```\n"
    )
    assert [len(one.split()) > LONG for one in sentences(page)] == [False, True, False, False, False]
    assert PHRASES.search("people whose pairs") and PHRASES.search("what it does") and not PHRASES.search("What is it?")
