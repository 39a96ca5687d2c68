"""`noisyir check`: data set faults that need no judging, as a report or as a CI gate."""

from __future__ import annotations

from typing import Annotated

from noisyir.front.commands import NOT_PASSED, Json, argument, option, print_count, print_json


def run(
    data: Annotated[str, argument("DATA", "a file or folder in any format that import reads; hf://.. or irds:..")],
    format: Annotated[str | None, option("FORMAT", "its format (default: recognised by its content)")] = None,
    map: Annotated[str | None, option("WHAT=COLUMN,..", "which column is what, as of noisyir import")] = None,
    corpus: Annotated[str | None, option("FILE", "the documents, if DATA only names them")] = None,
    queries: Annotated[str | None, option("FILE", "the queries, if DATA only names them")] = None,
    run_file: Annotated[str | None, option("FILE", "a TREC run for qrels: its hits are negatives", "--run")] = None,
    fail_on: Annotated[
        str | None, option("NAME,..", "exit code 3 if any of these is found: leaks,ids or leaks.queries")
    ] = None,
    as_json: Json = False,
) -> int:
    """Find faults in data without judging: unknown ids, repeats, leaks, empty and cut texts, and more.

    example: noisyir check data/beir --fail-on leaks,ids
    """
    from noisyir.app.data_check import check_data, refuse_unknown

    names = [name.strip() for name in (fail_on or "").split(",")] if fail_on is not None else []
    refuse_unknown(names)

    beside = {"corpus": corpus, "queries": queries, "run": run_file}
    found = check_data(data, kind=format, columns=map, beside=beside, progress=print_count)
    failed = list(dict.fromkeys(one.name for one in found.of(*names)))
    if as_json:
        print_json({**found.for_machines(), **({"failed": failed} if names else {})})
    else:
        print(found)
        if names:
            said = f"not passed: {', '.join(failed)}" if failed else f"passed: nothing found of {', '.join(names)}"
            print(f"\n{'gate':<22}{said}")
    return NOT_PASSED if failed else 0
