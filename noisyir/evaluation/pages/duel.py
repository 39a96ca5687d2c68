"""Two systems compared, as rows of text and as a page: measures with tests, then the queries that changed."""

from collections.abc import Sequence
from dataclasses import dataclass

from noisyir.base.pages.cells import number, p_value, signed, templates
from noisyir.evaluation.significance import SEEDS_OF_A_CLAIM, Verdict, verdict

_VERBS: dict[Verdict, str] = {
    "better": "is better than",
    "worse": "is worse than",
    "suggests better": "seems better than",
    "suggests worse": "seems worse than",
    "equal": "is on every query equal to",
}


@dataclass(frozen=True)
class MeasureDifference:
    """A measure on a split: the means of both, and the test of second minus first over queries and seeds."""

    measure: str
    split: str
    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    p_holm: float
    wins: int
    losses: int
    queries: int


@dataclass(frozen=True)
class RankedDocument:
    """A document and its beginning."""

    doc_id: str
    text: str


@dataclass(frozen=True)
class Shift:
    """A query with different values: its relevant document, its rank in both (None: not found), and their top hits."""

    query_id: str
    query: str
    first: float
    second: float
    relevant: RankedDocument | None
    first_rank: int | None
    second_rank: int | None
    first_top: RankedDocument | None
    second_top: RankedDocument | None

    @property
    def why(self) -> str:
        """The change in words."""
        if self.relevant is None:
            return "scored by its answers alone"
        first, second = (f"{rank:,}" if rank else "not found" for rank in (self.first_rank, self.second_rank))
        return f"rank {first} → {second}" if self.first_rank else f"not found → rank {second}"


@dataclass(frozen=True)
class Duel:
    """The second system compared with the first; `seeds` are pairs."""

    first: str
    second: str
    seeds: list[list[int]]
    measures: Sequence[MeasureDifference]
    wins: Sequence[Shift]
    losses: Sequence[Shift]

    @property
    def conclusion(self) -> str:
        """The result by the first measure, in a sentence."""
        test = self.measures[0]
        found = verdict(test.low, test.high, test.p_holm, seeds=len(self.seeds))
        few = f"; fewer than {SEEDS_OF_A_CLAIM} are a hint only" if found.startswith("suggests") else ""
        both = f"{self.second} {_VERBS.get(found)} {self.first}"
        if found == "unclear":
            both = f"{self.second} and {self.first} are not told apart"
        seeds = f"{len(self.seeds)} seed{'s' if len(self.seeds) > 1 else ''}"
        return (
            f"{both}: {test.measure} {test.second:.3f} against {test.first:.3f} "
            f"({signed(test.difference)} [{signed(test.low)}, {signed(test.high)}], corrected p {p_value(test.p_holm)}"
            f", {test.queries:,} queries, {seeds}{few})."
        )

    def rows(self) -> list[list[str]]:
        """A row for each measure, headings first."""
        (of_first, colon, first), (of_second, _, second) = self.first.partition(":"), self.second.partition(":")
        names = [first, second] if colon and of_first == of_second else [self.first, self.second]
        return [["measure", "split", *names, "difference", "interval", "p (Holm)", "wins", "losses"]] + [
            [
                *(test.measure, test.split, number(test.first), number(test.second), signed(test.difference)),
                *(f"[{signed(test.low)}, {signed(test.high)}]", p_value(test.p_holm)),
                *(f"{test.wins:,}", f"{test.losses:,}"),
            ]
            for test in self.measures
        ]

    def page(self) -> str:
        """The page as HTML text."""
        template = templates("noisyir.evaluation.pages", signed=signed).get_template("duel.html")
        return template.render(title=f"{self.second} vs {self.first}", duel=self)
