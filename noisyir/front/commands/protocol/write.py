"""`noisyir protocol write`: write the wrong pairs of each condition and seed, for external tools and trainers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from noisyir.front.commands import StoreUrl, argument, option, suite_names


def run(
    folder: Annotated[str, argument("FOLDER", "where they are written, SET/KIND-RATE/seedN/ each")],
    overrides: Annotated[list[str] | None, argument("KEY=VALUE", "settings, such as seeds=[0]")] = None,
    suite: Annotated[str, option("NAME", "a suite, or a .yaml file", complete=suite_names)] = "small",
    data: Annotated[str | None, option("DIR", "where the suite's sets lie (default: as the suite says)")] = None,
    own: Annotated[list[str] | None, option("FILE", "one more set, of your own pairs (repeatable)", "--set")] = None,
    store: StoreUrl = None,
) -> int:
    """Write a suite's noisy training pairs, without the truth, in BEIR's layout.

    example: noisyir protocol write tasks --suite small
    """
    from noisyir.app.console import observer_for
    from noisyir.app.protocol import TASK_FILES, write_tasks
    from noisyir.front.commands.bench.noise import opened_suite

    with observer_for(sys.stderr) as observer:
        chosen, execution = opened_suite(suite, overrides, data=data, own=own, jobs=1, store=store, observer=observer)
        tasks = write_tasks(chosen, Path(folder), execution)
    print(f"{'written':<12}{len(tasks)} folders in {folder}, {tasks[0]} first; each has {', '.join(TASK_FILES)}")
    print(f"{'next':<12}put weights.csv (query_id, doc_id, weight) or run.trec into MY_TOOL/{tasks[0]}, and so on")
    print(f"{'':<12}noisyir protocol score MY_TOOL --suite {suite}")
    return 0
