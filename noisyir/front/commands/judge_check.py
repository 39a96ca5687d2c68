"""`noisyir judge-check`: how good a judge that is no person is, by the pairs that people judged, too."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Annotated, TypeAlias

from noisyir.front.commands import Json, argument, option, print_json

if TYPE_CHECKING:
    from noisyir.audits.model_judges.judge_quality import JudgeCheck

_TOO_FAR = 3  # the exit code of `--within`
_HEADING = 12  # columns
_WITHIN = 0.05  # half of a rate's interval that is asked for where nobody says

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

    found = _checked(answers, judgements, within)
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


def _checked(answers: str, judgements: str, within: float | None) -> JudgeCheck:
    """How well the judge does; the two files may be given in either order, for judges' names tell them apart.

    ConfigError for a share that is none; DataError for a file that is not one of answers or of judgements, for answers
    of several judges, and where no pair is of both.
    """
    from noisyir.audits.judgements import given_judgements, machine_answers
    from noisyir.audits.model_judges.judge_quality import check_judge
    from noisyir.base.errors import ConfigError, DataError
    from noisyir.data.row_files import RowFile

    if within is not None and not 0 < within < 0.5:
        raise ConfigError("front.within_half_intervals_width", within=within)
    files = RowFile.open(answers, "ANSWERS"), RowFile.open(judgements, "JUDGEMENTS")
    found, people = machine_answers(files[0]), judgements
    if found is None:
        found, people = machine_answers(files[1]), answers
    if found is None:
        raise DataError("front.holds_no_answer_model", answers=answers)
    return check_judge(found, given_judgements([people]), within or _WITHIN)
