"""Settings of asking a model to judge."""

from pydantic import Field, field_validator

from noisyir.audits.model_judges.judges import MachineJudge
from noisyir.base.settings import Fraction, Params


class AskParams(Params):
    """The judge, its budget and its pairs; in no key, because no artifact holds a model's judgements."""

    judge: MachineJudge = Field(description="who is asked")
    budget: str = Field("200", description="most calls, or tokens (200k tokens); retries count")
    random: Fraction = Field(0.25, description="share of the questions that is drawn at random, for the rate")
    checked: Fraction = Field(0.5, description="most that is spent on pairs that people judged, for the judge's error")

    @field_validator("budget", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
