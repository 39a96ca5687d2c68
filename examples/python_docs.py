"""Real pairs without a download: docstrings of Python's library with their functions, some made wrong."""

import random
import sysconfig
from pathlib import Path

from noisyir.data.formats.pydocs import documented_functions

FOLDERS = (
    "",
    "asyncio",
    "concurrent/futures",
    "email",
    "http",
    "importlib",
    "json",
    "logging",
    "multiprocessing",
    "urllib",
)
LONGEST = 600  # characters of a function


def python_docs(count: int, wrong: float = 0.0, seed: int = 0) -> tuple[list[dict[str, str]], set[str]]:
    """At most `count` pairs (query, document), and the queries of those that were given another pair's function."""
    library, found = Path(sysconfig.get_path("stdlib")), {}
    for folder in FOLDERS:
        for path in sorted((library / folder).glob("*.py")):
            for function in documented_functions(path.read_text(encoding="utf-8", errors="ignore")):
                if len(function.code) <= LONGEST:
                    found.setdefault(function.paragraph, function.code)
    draw = random.Random(seed)
    pairs = draw.sample([{"query": query, "document": code} for query, code in found.items()], min(count, len(found)))
    chosen = pairs[: round(wrong * len(pairs))]
    codes = [pair["document"] for pair in chosen]
    for pair, code in zip(chosen, codes[1:] + codes[:1], strict=True):
        pair["document"] = code
    draw.shuffle(pairs)
    return pairs, {pair["query"] for pair in chosen}
