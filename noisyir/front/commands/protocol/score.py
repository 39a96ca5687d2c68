"""`noisyir protocol score`: score anyone's pair weights or runs as rows of the noise bench's table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from noisyir.base.errors import ConfigError
from noisyir.front.commands import StoreUrl, argument, option, suite_names


def run(
    folders: Annotated[list[str], argument("FOLDER", "with SET/KIND-RATE/seedN/weights.csv or run.trec; a row each")],
    suite: Annotated[str, option("NAME", "a suite, or a .yaml file", complete=suite_names)] = "small",
    data: Annotated[str | None, option("DIR", "where the suite's sets lie (default: as the suite says)")] = None,
    own: Annotated[list[str] | None, option("FILE", "one more set, of your own pairs (repeatable)", "--set")] = None,
    settings: Annotated[list[str] | None, option("KEY=VALUE", "of the suite, such as seeds=[0]", "--with")] = None,
    jobs: Annotated[int | None, option("N", "steps at a time (default: one a core)")] = None,
    out: Annotated[str | None, option("DIR", "copy the page and its tables there")] = None,
    store: StoreUrl = None,
) -> int:
    """Score weights and runs that other tools computed, next to a suite's methods.

    example: noisyir protocol score my_tool --suite small
    """
    from noisyir.front.commands.bench import noise

    rows = {Path(folder).resolve().name: folder for folder in folders}
    if len(rows) < len(folders):
        raise ConfigError("front.same_folder_name")
    if missing := next((folder for folder in folders if not Path(folder).is_dir()), None):
        raise ConfigError("front.no_protocol_folder", missing=missing)
    given = f"given={json.dumps(rows)}"  # not given.NAME: names may contain dots
    return noise.run([*(settings or []), given], suite=suite, data=data, own=own, jobs=jobs, out=out, store=store)
