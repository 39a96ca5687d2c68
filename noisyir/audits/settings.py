"""Settings of the audit."""

from pydantic import Field, NonNegativeInt, PositiveInt

from noisyir.base.settings import AuditedSplit, Fraction, Locations, Params


class SuspectsParams(Params):
    """Settings of the likely relevant candidates for hard negatives that are shown."""

    negatives: PositiveInt = Field(2000, description="candidates for negatives that are shown, the most relevant first")


class AuditParams(SuspectsParams):
    """The audited pairs as a table, a CSV and a page for their owner."""

    split: AuditedSplit = Field(
        "train", description="the split with the pairs; of dev and test the relevant judgements"
    )
    title: str = Field("", description="the page's heading; a general one if empty")
    html_rows: PositiveInt = Field(10_000, description="pairs on the page, the most suspect first; the files have all")
    better: NonNegativeInt = Field(3, description="better documents of a pair that the page shows, at most")
    text_chars: PositiveInt = Field(2000, description="characters of a text on the page and in the CSV files")
    sample: NonNegativeInt = Field(0, description="pairs drawn for judging by hand, as sample.csv; 0: no such file")
    judgements: Locations = Field(
        None, description="file, or files, of verdicts by hand (query_id, doc_id, verdict); null: none"
    )
    refit: bool = Field(False, description="judge all pairs again by all verdicts, also those not random")
    promote: Fraction = Field(0.95, description="least confidence of a candidate that is suggested as a positive")

    @property
    def judgement_files(self) -> tuple[str, ...]:
        """The files of verdicts by hand, however many."""
        given = self.judgements
        return () if given is None else (given,) if isinstance(given, str) else given

    @property
    def audited(self) -> str:
        """The pairs in words."""
        return "training pairs" if self.split == "train" else f"relevant judgements of {self.split}"

    def suspects(self) -> SuspectsParams:
        """The part that decides which candidates are shown."""
        return SuspectsParams(negatives=self.negatives)
