"""All records of a data set in memory, as checks look at them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from noisyir.base.settings import Split
from noisyir.data.data_faults import FAULTS, FaultExample, FoundFault
from noisyir.data.id_texts import text_key
from noisyir.data.intake import TOLERANT, TOO_LONG, Intake
from noisyir.data.leniency import Exclusions, lenient
from noisyir.data.records import Document, Judgement, Negative, Query, SingleRecord, Source, one_by_one, place_of

Text: TypeAlias = Document | Query
Pair: TypeAlias = Judgement | Negative
R = TypeVar("R", bound=Text | Pair)
EXAMPLES = 2  # of each fault
QUOTED = 60  # characters of a text in an example
_AGAIN = {"data.repeated_document_id": "documents", "data.repeated_query_id": "queries"}
_LEFT_OUT = ("data.empty_id", TOO_LONG)  # faults without a check of their own
_PROGRESS_STEP = 10_000  # records


@dataclass
class CheckedRecords:
    """All records of a data set.

    Args:
        account: The fate of every row.
        root: Prefix that places are shown without.
        again: Records with the id of an earlier one.
    """

    account: Exclusions
    root: str = ""
    documents: dict[str, Document] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    judgements: list[Judgement] = field(default_factory=list)
    negatives: list[Negative] = field(default_factory=list)
    _places: dict[str, str] = field(default_factory=dict)
    again: dict[str, list[Text]] = field(default_factory=lambda: {"documents": [], "queries": []})

    @classmethod
    def read(cls, source: Source, root: str = "", progress: Callable[[int], None] = lambda _: None) -> "CheckedRecords":
        """Read all records; faulty rows are in the account."""
        with lenient() as account:
            found, intake = cls(account, root), Intake(source.name, TOLERANT, may_repeat=True)
            for count, record in enumerate(one_by_one(source.records())):
                found._take(record, intake)
                if not count % _PROGRESS_STEP:
                    progress(count)
        return found

    def _take(self, record: SingleRecord, intake: Intake) -> None:
        fault = intake.fault(record)
        if fault in _LEFT_OUT:
            self.account.refused(intake.in_words(fault, record))
        else:
            self.account.kept()
        record = record._replace(where=self.place(record.where))
        if isinstance(record, Judgement):
            self.judgements.append(record)
        elif isinstance(record, Negative):
            self.negatives.append(record)
        elif fault in _AGAIN:
            self.again[_AGAIN[fault]].append(record)
        elif isinstance(record, Document):
            self.documents.setdefault(record.doc_id, record)
        else:
            self.queries.setdefault(record.query_id, record)

    def place(self, where: str) -> str:
        """A place without the root; equal places share one string."""
        return self._places.setdefault(where, where.removeprefix(self.root))

    @cached_property
    def key(self) -> dict[str, dict[str, int]]:
        """A number for each text, equal if the words are, whatever case and spaces."""
        return {
            "documents": {name: text_key(full_text(doc).casefold()) for name, doc in self.documents.items()},
            "queries": {name: text_key(query.text.casefold()) for name, query in self.queries.items()},
        }

    def pair_key(self, pair: Pair) -> tuple[int, int]:
        """The keys of a pair's two texts."""
        return self.key["queries"][pair.query_id], self.key["documents"][pair.doc_id]

    def has_texts(self, pair: Pair) -> bool:
        """Whether both the query and the document of a pair are known."""
        return pair.query_id in self.queries and pair.doc_id in self.documents

    @cached_property
    def relevant(self) -> list[Judgement]:
        """Pairs with texts that are relevant or unjudged, each once."""
        right = {(one.query_id, one.doc_id): one for one in reversed(self.judgements)
                 if one.is_right and self.has_texts(one)}  # fmt: skip
        return [*reversed(right.values())]

    def relevant_of(self, split: Split) -> list[Judgement]:
        """The relevant pairs of one split."""
        return [one for one in self.relevant if one.split == split]


def full_text(document: Document) -> str:
    """Title and text."""
    return f"{document.title} {document.text}".strip()


def text_of(record: Text) -> str:
    """The text of a query, or title and text of a document."""
    return full_text(record) if isinstance(record, Document) else record.text


def id_of(record: Text) -> str:
    """The id of a query or document."""
    return record.doc_id if isinstance(record, Document) else record.query_id


def quoted(text: str) -> str:
    """The beginning of a text in quotation marks, on one line."""
    line = " ".join(text.split())
    return f'"{line if len(line) <= QUOTED else f"{line[: QUOTED - 1]}…"}"'


def described(record: Text | Pair) -> str:
    """A record in words."""
    if isinstance(record, Judgement | Negative):
        return f"query {record.query_id}, document {record.doc_id}"
    return f"{id_of(record)} {quoted(text_of(record))}"


def findings(
    name: str, records: Sequence[R], of: int, describe: Callable[[R], str] = described, **values: object
) -> Iterator[FoundFault]:
    """A finding, if any record has the fault; `values` fill its words in FAULTS."""
    if records:
        what, advice = FAULTS[name]
        examples = tuple(FaultExample(place_of(record), describe(record)) for record in records[:EXAMPLES])
        yield FoundFault(name, len(records), of, what.format(**values), advice, examples)
