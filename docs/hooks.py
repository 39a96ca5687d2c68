"""Steps of the site's build: the first page, links into the code, formulas, commands and settings.

MkDocs calls the functions named on_*.  Markdown stays plain: GitHub shows each page, too.
"""

import ast
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from griffe import Alias, Extension, Object
from pydantic.fields import FieldInfo

from noisyir.base.settings import Params
from noisyir.base.variants import Variant

ROOT = Path(__file__).parents[1]
RULES = ROOT / "tests" / "architecture" / "test_rooms.py"
CODE = "https://github.com/noisyir/noisyir/blob/main/"
_LINK = re.compile(r"(\]\()((?!https?:|#|mailto:)[^)\s#]+)(#[^)\s]*)?(\))")
_IMAGE = re.compile(r'(src=")(docs/)')
_FORMULA = re.compile(r"\$\$(?P<block>.+?)\$\$|(?<![\w$])\$(?P<inline>[^$\n]+?)\$(?![\w$])", re.DOTALL)
_CODE = re.compile(r"(```.*?```|`[^`\n]+`|^    .*?$)", re.DOTALL | re.MULTILINE)
_DOCTEST = re.compile(r"^>>> .*?(?=^$|\Z)", re.DOTALL | re.MULTILINE)
_MADE = re.compile(r"<!-- made: (\w+) -->")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """A page as the site has it."""
    path = Path(page.file.abs_src_path)
    if page.file.src_uri == "index.md":
        path = ROOT / "README.md"
        markdown = _IMAGE.sub(r"\1", path.read_text(encoding="utf-8"))
    markdown = _MADE.sub(lambda found: _MAKERS[found[1]](), markdown)
    return with_formulas(with_links(markdown, path))


def with_links(markdown: str, path: Path) -> str:
    """Links of the README, and links to files outside docs/, which lead to the code."""

    def linked(found: re.Match[str]) -> str:
        target = (path.parent / found[2]).resolve()
        docs = ROOT / "docs"
        if not target.exists() or (target.is_relative_to(docs) and path.is_relative_to(docs)):
            return found[0]  # MkDocs looks at these, and at those that lead nowhere
        place = target.relative_to(ROOT).as_posix()
        place = place.removeprefix("docs/") if target.is_relative_to(docs) else CODE + place
        return f"{found[1]}{place}{found[3] or ''}{found[4]}"

    return _LINK.sub(linked, markdown)


def with_formulas(markdown: str) -> str:
    """Formulas as MathML, which browsers show without a script."""
    from latex2mathml.converter import convert

    def formula(found: re.Match[str]) -> str:
        display = "block" if found["block"] else "inline"
        math = convert(" ".join((found["block"] or found["inline"]).split()), display=display)
        return f'<div style="overflow-x: auto">{math}</div>' if found["block"] else math

    parts = _CODE.split(markdown)
    return "".join(part if at % 2 else _FORMULA.sub(formula, part) for at, part in enumerate(parts))


class Docstrings(Extension):
    """Docstrings as Markdown: doctests as code."""

    def on_instance(self, *, obj: Object | Alias, **_: Any) -> None:
        """Rewrite the docstring of one function or class."""
        if isinstance(obj, Object) and obj.docstring:
            obj.docstring.value = _DOCTEST.sub(
                lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", obj.docstring.value
            )


def commands() -> str:
    """Each verb with its help, its arguments and its options."""
    from noisyir.front.cli import _group

    return "\n".join(_verbs(_group(), "noisyir"))


def _verbs(group: Any, path: str) -> Iterator[str]:
    for name, verb in sorted(group.commands.items()):
        if hasattr(verb, "commands"):
            yield from _verbs(verb, f"{path} {name}")
            continue
        context = verb.make_context(name, [], resilient_parsing=True)
        usage = " ".join(verb.collect_usage_pieces(context))
        yield f"## {path} {name}\n\n{verb.help}\n\n```\n{path} {name} {usage}\n```\n"
        yield "| argument or option | meaning |\n|---|---|"
        for param in verb.params:
            named = param.metavar if param.param_type_name == "argument" else ", ".join(param.opts)
            value = f" {param.metavar}" if param.param_type_name == "option" and param.metavar else ""
            yield f"| `{_cell(named)}{_cell(value)}` | {_cell(param.help or '')} |"
        yield (
            "\n" + "\n".join(f"    {line}" for line in (verb.epilog or "").replace("\b", "").split("\n") if line) + "\n"
        )


def settings() -> str:
    """Each setting of an experiment and of the machine, with its default and its meaning."""
    from noisyir.engine.runtime import Runtime
    from noisyir.methods.plans.experiment import Experiment

    told: set[tuple[type[Params], str]] = set()  # each group once at a place, and not within itself
    groups = ((Experiment, "An experiment", ""), (Runtime, "The machine", "runtime."))
    return "\n".join(line for params, title, prefix in groups for line in _group_of(params, title, prefix, told))


def _group_of(params: type[Params], title: str, prefix: str, told: set[tuple[type[Params], str]]) -> Iterator[str]:
    """A table of the plain settings of a group, then the groups within it; each group once at a place."""
    within = any(params is one and prefix.startswith(place) for one, place in told)
    if within or not set(params.model_fields) - {"kind"}:
        return
    told.add((params, prefix))
    about = inspect.cleandoc(params.__doc__ or "").split("\n\n")[0] if "__doc__" in params.__dict__ else ""
    yield f"\n## {title}\n\n{about}\n\n| setting | default | meaning |\n|---|---|---|"
    inner: list[tuple[type[Params], str, str]] = []
    for name, field in params.model_fields.items():
        if name == "kind":
            continue
        groups = list(_params_in(field.annotation))
        yield f"| `{prefix}{name}` | {_default(field)} | {_cell(field.description or '')} |"
        for group in groups:
            if group.__dict__.get("home"):
                variants = group.variants().items()  # type: ignore[attr-defined]
                for kind, one in variants:
                    place = kind if group.named_by_kind else name  # type: ignore[attr-defined]
                    inner.append((one, f"`{prefix}{name}` of kind `{kind}`", f"{prefix}{place}."))
            else:
                inner.append((group, f"`{prefix}{name}`", f"{prefix}{name}."))
    for group, heading, place in inner:
        yield from _group_of(group, heading, place, told)


def _params_in(annotation: Any) -> Iterator[type[Params]]:
    if isinstance(annotation, type) and issubclass(annotation, Params):
        yield annotation
    else:
        for part in get_args(annotation):
            yield from _params_in(part)


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Params):
        return f"`{value.kind}`" if isinstance(value, Variant) else "below"
    if isinstance(value, dict | tuple):
        return ", ".join(f"`{getattr(one, 'kind', one)}`" for one in value) or "none"
    return f"`{_cell(json.dumps(value))}`"


def _cell(text: Any) -> str:
    return str(text).replace("|", " or ").replace("\n", " ").replace("<", "&lt;")


def rooms() -> str:
    """Each room of the library, from the lowest, in its own first line."""
    rules = (node for node in ast.parse(RULES.read_text("utf-8")).body if isinstance(node, ast.Assign))
    order = next(ast.literal_eval(node.value) for node in rules if ast.unparse(node.targets[0]) == "ROOMS")
    lines = (
        ast.get_docstring(ast.parse((ROOT / "noisyir" / room / "__init__.py").read_text("utf-8"))) for room in order
    )
    rows = (f"| `{room}` | {_cell(line)} |" for room, line in zip(order, lines, strict=True))
    return "\n".join(["| room | what is there |", "|---|---|", *rows])


_MAKERS = {"commands": commands, "settings": settings, "rooms": rooms}
