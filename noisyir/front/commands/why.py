"""`noisyir why`: what each stage of a run decided about a query, or about a pair."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

from noisyir.front.commands import Json, StoreUrl, argument, experiment_names, open_store, option

if TYPE_CHECKING:
    from rich.console import Console

    from noisyir.audits.account import Decided, RowAccount

ROWS = 5  # of a table whose meaning is not known


def run(
    query_id: Annotated[str, argument("QUERY_ID", "of the query")],
    doc_id: Annotated[str | None, argument("DOC_ID", "of the document in the pair")] = None,
    experiment: Annotated[
        str | None,
        option("EXPERIMENT", "look at its newest run (default: the newest of all)", "--run", complete=experiment_names),
    ] = None,
    as_json: Json = False,
    store: StoreUrl = None,
) -> int:
    """Say what each stage decided about a query or a pair.

    example: noisyir why QUERY_ID DOC_ID
    """
    from noisyir.app.console import stdout_console
    from noisyir.audits.account import account_of

    account = account_of(open_store(store), query_id, doc_id, experiment)
    if as_json:
        print(json.dumps(account.as_json(), indent=2, ensure_ascii=False, default=str))
        return 0
    _print(account, stdout_console())
    return 0


def _print(account: RowAccount, out: Console) -> None:
    from rich.text import Text

    from noisyir.app.console import print_text

    out.print(Text(f"run of {account.experiment}, {account.began:%Y-%m-%d %H:%M}\n", style="dim"))
    _text(out, f"query {account.query_id}", account.query or "(left out)")
    for doc_id, text in account.texts.items():
        _text(out, f"document {doc_id}", text)
    for step, decided in groupby(account.decided, key=lambda one: (one.step, one.key)):
        out.print(Text.assemble((f"\n{step[0]}", "bold"), (f"  {step[1][:12]}", "dim")))
        for one in decided:
            for line in _lines(one):
                print_text(out, f"  {one.artifact:<15} {line}")


def _text(out: Console, heading: str, text: str) -> None:
    from noisyir.app.console import print_text

    print_text(out, f"{heading}  {' '.join(text.split())}")


def _lines(one: Decided) -> list[str]:
    """The sentences, or, of a table whose meaning is not known, its first rows as they stand."""
    from noisyir.audits.account import cut

    if one.says:
        return [cut(text) for text in one.says]
    rows = [cut(", ".join(f"{name} {value}" for name, value in row.items())) for row in one.rows[:ROWS]]
    more = len(one.rows) - len(rows)
    return [*rows, f"and {more:,} rows more"] if more else rows
