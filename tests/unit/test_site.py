"""The documentation's site: its menu has each page, each link leads somewhere, and it asks nothing of the network."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from noisyir.engine.known_stages import known_stages
from noisyir.front import cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READ = [
    *PAGES,
    *sorted((ROOT / "benchmarks").glob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "infra/README.md")),
]
_FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s#]*)(?:#([^)\s]+))?\)")
_NAMED = re.compile(r"(?<!/)\bdocs/(?:[\w-]+/)?[\w-]+\.md")
_ELSEWHERE = re.compile(
    r'<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*stylesheet"[^>]*href="(?:https?:)?//'
)
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def in_menu(entry):
    """The pages of a part of the menu, in its order."""
    if isinstance(entry, str):
        return [entry]
    return [page for inner in (entry.values() if isinstance(entry, dict) else entry) for page in in_menu(inner)]


def anchors(page):
    """The names of a page's headings, as GitHub and MkDocs make them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", found).strip().lower() for found in _HEADING.findall(text))
    return {re.sub(r"[\s]", "-", re.sub(r"[^\w\s-]", "", heading)) for heading in plain}


def test_the_menu_has_each_page_once():
    menu = in_menu(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    assert sorted(menu) == [page.relative_to(DOCS).as_posix() for page in PAGES]


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files_and_headings_that_are_there(page):
    for path, anchor in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), f"{path}#{anchor}"


def test_pages_that_messages_name_are_there():
    code = (path for part in ("noisyir", "tests", "bench", "infra") for path in (ROOT / part).rglob("*.py"))
    named = {
        (place, path.name)
        for path in code
        for place in re.findall(r"(?<!/)\bdocs/(?:[\w-]+/)?[\w-]+\.md", path.read_text())
    }
    assert named
    assert not [one for one in named if not (ROOT / one[0]).exists()]


def typed(page):
    """The commands of `noisyir` that a page shows, without their comments and without continued or elided ones."""
    for block in re.findall(
        r"^```(?:bash|yaml|)\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r"&&|\|\|?|>>? ", line.partition("  #")[0]):
                found = re.match(r"(?:[$\d*]+ |- run: )*(noisyir [a-z-]+.*)", command.strip())
                if found and "..." not in found[1]:
                    yield shlex.split(re.split(r"   +", found[1])[0])


@pytest.mark.parametrize("page", READ, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_are_ones_that_noisyir_takes(page):
    for words in typed(page):
        group, path = cli._group(), words[1:]
        while hasattr(group, "commands"):
            name, *path = path
            group = group.commands[name]
        group.make_context(name, list(path))  # TyperException where an option or an argument is not there


def test_readme_names_what_is_made_run_and_deployed_by_names_that_are_there():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    made = set(
        re.findall(r"\bmake ([a-z-]+)(?=`|\s|$)", " ".join(re.findall(r"`make [a-z-]+`|^make .*$", readme, re.M)))
    )
    assert {"demo", "test", "up", "down"} <= made <= targets
    declared = yaml.safe_load((ROOT / "infra/prefect.yaml").read_text())["deployments"]
    deployments = {f"{one['entrypoint'].rpartition('.')[2]}/{one['name']}" for one in declared}
    named = set(re.findall(r"\b(?:train_retriever|single_stage)/[\w-]+", readme))
    assert {"train_retriever/on-demand", "single_stage/on-demand"} == named <= deployments


def test_the_picture_of_the_pipeline_has_the_pools_of_its_stages():
    drawn = dict(re.findall(r'data-stage="(\w+)" data-pool="(\w+)"', (DOCS / "pictures/pipeline.svg").read_text()))
    known = known_stages()
    assert len(drawn) > 8
    assert drawn == {name: known[name].pool for name in drawn}


@pytest.mark.slow
def test_the_site_builds_offline_and_loads_nothing_from_elsewhere(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    nowhere = {name: "http://127.0.0.1:9" for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")}
    done = subprocess.run(command, cwd=ROOT, env=os.environ | nowhere, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.relative_to(tmp_path).as_posix(): page.read_text() for page in tmp_path.rglob("*.html")}
    assert len(pages) >= len(PAGES)
    assert not [name for name, text in pages.items() if _ELSEWHERE.search(text)]
    assert not [path for path in tmp_path.rglob("*.css") if re.search(r"url\(\W?https?:|@import", path.read_text())]
    settings = pages["reference/settings.html"]
    assert "detect.threshold" in settings and "reader.train.epochs" in settings and "task.train" not in settings
    assert "noisyir store verify" in pages["reference/commands.html"]
    assert "NoiseDetector" in pages["reference/api.html"]
    assert "<math" in pages[next(name for name in pages if name.endswith("evaluation.html"))]
