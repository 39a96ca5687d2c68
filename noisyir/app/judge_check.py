"""A model's answers in a file beside people's judgements in another."""

from noisyir.auditing.asking.check import JudgeCheck, check_judge
from noisyir.auditing.judgements import given_judgements, machine_answers
from noisyir.data.row_files import RowFile
from noisyir.errors import ConfigError, DataError

_WITHIN = 0.05  # half of a rate's interval that is asked for where nobody says


def judge_check(answers: str, judgements: str, within: float | None = None) -> JudgeCheck:
    """How well the judge does; the two files may be given in either order, for judges' names tell them apart.

    ConfigError for a share that is none; DataError for a file that is not one of answers or of judgements, for answers
    of several judges, and where no pair is of both.
    """
    if within is not None and not 0 < within < 0.5:
        raise ConfigError(f"--within is half of an interval's width, between 0 and 0.5, such as 0.05, not {within:g}")
    files = RowFile.open(answers, "ANSWERS"), RowFile.open(judgements, "JUDGEMENTS")
    found, people = machine_answers(files[0]), judgements
    if found is None:
        found, people = machine_answers(files[1]), answers
    if found is None:
        raise DataError(
            f"{answers} holds no answer of a model, for no name in a column judge begins with model: give the file "
            "model_judgements.jsonl, which --judge-url and --judge-model write, or name the judge so"
        )
    return check_judge(found, given_judgements([people]), within or _WITHIN)
