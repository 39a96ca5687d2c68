"""`noisyir judge-check`: how good a judge that is no person is, by the pairs that people judged, too."""

from __future__ import annotations

import textwrap
from typing import Annotated, TypeAlias

from noisyir.commands import Json, argument, option, print_json

_TOO_FAR = 3  # the exit code of `--within`
_HEADING = 12  # columns

_Answers: TypeAlias = Annotated[str, argument("ANSWERS", "a model's: the file model_judgements.jsonl of an audit")]
_Judgements: TypeAlias = Annotated[str, argument("JUDGEMENTS", "people's: judgements.jsonl, or a filled-in sample.csv")]
_Within: TypeAlias = Annotated[
    float | None, option("E", "end with exit code 3 where the rate cannot be told within E (without: 0.05 is shown)")
]


def run(answers: _Answers, judgements: _Judgements, within: _Within = None, as_json: Json = False) -> int:
    """Say how well a model judges, by people's judgements.

    Exit code 0; 3 where --within is given and the judge, with these labels, does not bring the rate so near.

    example: noisyir judge-check pairs-audit/model_judgements.jsonl pairs-audit/judgements.jsonl --within 0.05
    """
    from noisyir.app.console import stdout_console
    from noisyir.app.judge_check import judge_check

    found = judge_check(answers, judgements, within)
    code = _TOO_FAR if within is not None and not found.is_good_enough else 0
    if as_json:
        print_json(found.for_machines())
        return code
    console = stdout_console()
    for heading, text in found.summary():
        indent = " " * (_HEADING + len(text) - len(text.lstrip()))
        begin = f"{heading:<{_HEADING}}" + indent[_HEADING:]
        filled = textwrap.fill(text.lstrip(), console.width, initial_indent=begin, subsequent_indent=indent)
        console.print(filled, markup=False)
    return code
