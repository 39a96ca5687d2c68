"""The house: which rooms there are, who may import whom, and how large things may grow."""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from tests.sources import ROOT, arrows, module_of, nodes, place, trees

# The rooms of noisyir, lowest first: a module imports from its own room and from those before it.
ROOMS = ["base", "engine", "data", "models", "retrieval", "training", "corruption", "detection", "mining", "evaluation",
         "audits", "methods", "registry", "app", "serving", "readers", "front"]  # fmt: skip
# Inside a room, lowest first: what is set, what is computed, what a page shows, the stages that do it, and their plans.
INSIDE = ["settings", "mathematics", "pages", "stages", "plans"]
# Lines of noisyir, arrows between rooms, and floors, as they were when this was written: a feature names what it cuts.
MOST_LINES, MOST_ARROWS, MOST_FLOORS = 65_028, 100, 13
MAX_FILE_LINES, MAX_FUNCTION_LINES = 400, 45
# Where the code of a method from a paper is: folders or modules, and the words that only it may use in names.
PAPERS = {
    "NPC": (r"(?i)noisy_?pair_?correction|\bNpc(?!.*Params)\w*|train_npc", {"methods/npc", "training/losses/npc"}),
    "AR2": (r"(?i)train_ar2|adversarial_retriever|\bAr2(?!.*Params)\w*", {"methods/ar2", "training/losses/ar2"}),
    "TriSampler": (r"(?i)trisampler|triangle", {"mining"}),
    "CDS": (r"\bCds\w*|counterfactual|confusing_|span_set", {"readers"}),
    "sieve": (r"(?i)\bsieve", {"mining"}),
}


def library() -> dict[Path, ast.Module]:
    return {path: tree for path, tree in trees().items() if path.is_relative_to(ROOT / "noisyir")}


def room_of(module: str) -> str | None:
    """The folder that a module is in; None for the front doors, which stand in the hall."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and (ROOT / "noisyir" / parts[1]).is_dir() else None


@cache
def room_arrows() -> dict[str, set[str]]:
    """The other rooms that each room imports from."""
    found: dict[str, set[str]] = {room: set() for room in ROOMS}
    for module, others in arrows().items():
        here = room_of(module)
        if here:
            found[here] |= {there for other in others if (there := room_of(other)) and there != here}
    return found


def floor_inside(module: str) -> int:
    """How high a module stands in its room."""
    below = module.split(".")[2:]
    if not below:
        return INSIDE.index("mathematics")  # a room's own first lines
    if "stages" in below:
        return INSIDE.index("stages")
    if below[-1] == "pipeline":
        return INSIDE.index("plans")
    if "pages" in below or below[-1] in ("page", "server") or below[-1].endswith("_page"):
        return INSIDE.index("pages")
    settings = {"settings", "artifacts"} & {below[0], below[-1]}
    return INSIDE.index("settings" if settings and not brings_variants(module) else "mathematics")


def brings_variants(module: str) -> bool:
    """Whether settings name a family of variants, each with its settings and its function in one place."""
    return any(variants_in(other) for other in arrows().get(module, ()))


@cache
def variants_in(module: str) -> bool:
    return any(
        isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "home"
        for path in library() if module_of(path) == module for node in nodes()[path]
    )  # fmt: skip


def test_every_module_is_in_a_room():
    assert {room_of(module) for module in arrows()} - {None} <= set(ROOMS)
    strangers = {path.stem for path in (ROOT / "noisyir").glob("*.py")} - {"__init__", "losses"}
    assert not strangers


def test_a_room_imports_from_those_before_it():
    faults = [
        f"{module} imports {other}, above it"
        for module, others in arrows().items()
        for other in sorted(others)
        if (here := room_of(module)) and (there := room_of(other)) and ROOMS.index(there) > ROOMS.index(here)
    ]
    assert not faults


def test_inside_a_room_settings_come_before_mathematics_pages_stages_and_plans():
    faults = [
        f"{module} imports {other}"
        for module, others in arrows().items()
        for other in sorted(others)
        if room_of(module) and room_of(module) == room_of(other) and floor_inside(other) > floor_inside(module)
    ]
    assert not faults


def test_rooms_have_few_arrows_and_floors():
    found = room_arrows()
    assert sum(map(len, found.values())) <= MOST_ARROWS
    floors: dict[str, int] = {}
    for room in ROOMS:
        floors[room] = 1 + max((floors[other] for other in found[room]), default=0)
    assert max(floors.values()) <= MOST_FLOORS


def test_no_two_classes_of_a_room_share_a_name():
    named = Counter(
        (room_of(module_of(path)), node.name)
        for path in library()
        for node in nodes()[path]
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert not [name for name, count in named.items() if count > 1]


@pytest.mark.parametrize("paper", PAPERS)
def test_the_code_of_a_paper_is_in_two_places_at_most(paper: str):
    """Its own definitions are; settings stay with settings, and plans name stages."""
    words, places = PAPERS[paper]
    assert len(places) <= 2
    found = {
        place(path).removeprefix("noisyir/").removesuffix(".py")
        for path in library()
        for node in nodes()[path]
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
        and re.search(words, node.name)
        and path.name != "settings.py"
    }
    assert not {name for name in found if not any(name.startswith(each) for each in places)}


def test_the_house_does_not_grow():
    assert sum(len(path.read_text().splitlines()) for path in library()) <= MOST_LINES


def test_files_and_functions_stay_readable():
    faults = []
    for path, found in nodes().items():
        length = len(path.read_text().splitlines())
        if length > MAX_FILE_LINES:
            faults.append(f"{place(path)} has {length} lines")
        for node in found:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                docstring = ast.get_docstring(node, clean=False) or ""
                lines = (node.end_lineno or 0) - node.lineno + 1 - len(docstring.splitlines())
                if lines > MAX_FUNCTION_LINES:
                    faults.append(f"{place(path)}: {node.name} has {lines} lines")
    assert not faults


def test_constants_stand_at_the_top_or_after_what_they_use():
    """A constant between two definitions is told of neither: it stands at the top, or below a definition it needs."""
    faults = []
    for path, tree in library().items():
        defined: set[str] = set()
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                defined.add(node.name)
            elif defined and isinstance(node, ast.Assign | ast.AnnAssign):
                used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
                if not used & defined:
                    faults.append(f"{place(path)}:{node.lineno}")
                defined |= {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    assert not faults


def test_every_folder_says_what_is_there():
    """In a sentence that also says what is not: whoever brings new code learns where it goes."""
    faults = []
    for path, tree in trees().items():
        if path.name == "__init__.py" and path != ROOT / "noisyir" / "__init__.py":
            text = " ".join((ast.get_docstring(tree) or "").split())
            if not re.search(r"\b(no|not|nor|never|nothing|none|only|alone|elsewhere)\b", text, re.IGNORECASE):
                faults.append(f"{place(path)}: {text or 'no docstring'}")
    assert not faults


def test_a_library_puts_nothing_on_the_path():
    assert not [place(path) for path in library() if "sys.path" in path.read_text()]
