"""One concept, one room; one word, one thing: names, rooms and sizes of the library, kept by machine."""

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import pytest

from tests.sources import ROOT, arrows, module_of, place, trees

# Figures that may fall and not rise; docs/decisions/0016 tells what they were and what they should become.
MOST_LINES, LEAST_MEDIAN, MOST_IMPORTS, MOST_WITH_ONE_IMPORTER = 61_508, 110, 0.089, 60

# Where the code of a method from a paper lies: the folder or module, and the words that only it may use in names.
ROOMS = {
    "NPC": (r"(?i)noisy_?pair_?correction|\bNpc(?!.*Params)\w*|train_npc", {"methods/npc", "losses/npc"}),
    "AR2": (r"(?i)train_ar2|adversarial_retriever|\bAr2(?!.*Params)\w*", {"methods/ar2", "losses/ar2"}),
    "TriSampler": (r"(?i)trisampler|triangle", {"mining"}),
    "CDS": (r"\bCds\w*|counterfactual|confusing_|span_set", {"readers"}),
    "sieve": (r"(?i)\bsieve", {"mining", "stages/mining"}),
}
SINGLE_WORDS = {"Found", "Judged", "Measured", "Asked", "Asking", "Wishes", "Purse", "Patience", "Sought", "Scored",
                "Making", "Watched", "Several", "Now", "Only", "Known", "Lacking", "Spent"}  # fmt: skip


def library() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in trees().items() if path.is_relative_to(ROOT / "noisyir")}


def definitions(tree: ast.AST) -> list[ast.ClassDef | ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef | ast.FunctionDef)]


def test_no_two_classes_share_a_name_and_none_is_a_participle():
    named = Counter(
        node.name for tree in library().values() for node in definitions(tree) if isinstance(node, ast.ClassDef)
    )
    assert not [name for name, count in named.items() if count > 1]
    assert not SINGLE_WORDS & named.keys()


def test_no_module_name_stands_more_than_twice():
    named = defaultdict(list)
    for path in library():
        named[path.stem].append(place(path))
    assert not {name: found for name, found in named.items() if len(found) > 2 and name not in ("__init__", "settings")}


def test_docstrings_open_with_the_thing():
    faults = []
    for path, tree in library().items():
        for node in [tree, *definitions(tree)]:
            if (ast.get_docstring(node) or "").startswith(("What ", "Which ")):
                faults.append(f"{place(path)}: {getattr(node, 'name', 'module')}")
    assert not faults


@pytest.mark.parametrize("method", ROOMS)
def test_a_method_from_a_paper_lies_in_two_rooms_at_most(method: str):
    """Its own definitions do; its settings lie with those of its layer, and pipelines name its stage."""
    words, rooms = ROOMS[method]
    assert len(rooms) <= 2
    found = {
        place(path).removeprefix("noisyir/").removesuffix(".py")
        for path, tree in library().items()
        for node in definitions(tree)
        if re.search(words, node.name) and path.name != "settings.py"
    }
    strangers = {name for name in found if not any(name.startswith(room) for room in rooms)}
    assert not strangers, strangers


def test_the_house_does_not_grow():
    lengths = [len(path.read_text().splitlines()) for path in library()]
    total = sum(lengths)
    assert total <= MOST_LINES
    assert median(lengths) >= LEAST_MEDIAN
    imported = sum(
        node.end_lineno - node.lineno + 1
        for tree in library().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    assert imported / total <= MOST_IMPORTS


def test_few_files_have_one_importer():
    importers = Counter(name for others in arrows().values() for name in others)
    modules = {module_of(path) for path in library()}
    assert len([name for name in modules if importers[name] == 1]) <= MOST_WITH_ONE_IMPORTER


def test_a_library_puts_nothing_on_the_path():
    assert not [place(path) for path in map(Path, library()) if "sys.path" in path.read_text()]
