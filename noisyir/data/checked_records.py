"""All records of a data set in memory, as checks look at them."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

from noisyir.base.settings import Split
from noisyir.data.data_faults import FAULTS, FaultExample, FoundFault
from noisyir.data.id_texts import text_key
from noisyir.data.leniency import Exclusions, lenient
from noisyir.data.records import Document, Documents, Judgement, Negative, Query, Record, Source

Text: TypeAlias = Document | Query
Pair: TypeAlias = Judgement | Negative
R = TypeVar("R", bound=Text | Pair)
EXAMPLES = 2  # of each fault
QUOTED = 60  # characters of a text in an example
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
        count, next_report = 0, 0
        with lenient() as account:
            found = cls(account, root)
            for record in source.records():
                count += found._take(record)
                if count > next_report:
                    progress(count)
                    next_report = count + _PROGRESS_STEP
        return found

    def _take(self, record: Record) -> int:
        """Keep a record, or each of many documents, and count them."""
        if isinstance(record, Documents):
            return self._take_all(record)
        self.account.kept()
        record = record._replace(where=self.place(record.where))
        match record:
            case Document():
                self._add("documents", record.doc_id, record)
            case Query():
                self._add("queries", record.query_id, record)
            case Judgement():
                self.judgements.append(record)
            case Negative():
                self.negatives.append(record)
        return 1

    def _take_all(self, record: Documents) -> int:
        """Keep many documents without a row context for each: nothing can be wrong with one."""
        table, where, first = record
        account, place = self.account.of(where), self.place(where)
        account.read += table.num_rows
        account.kept += table.num_rows
        columns = (column.to_pylist() for column in table.columns)
        for number, (doc_id, title, text) in enumerate(zip(*columns, strict=True), first):
            self._add("documents", doc_id, Document(doc_id, title, text, place, number))
        return int(table.num_rows)

    def _add(self, kind: str, name: str, record: Text) -> None:
        if getattr(self, kind).setdefault(name, record) is not record:
            self.again[kind].append(record)

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
                 if is_right(one) and self.has_texts(one)}  # fmt: skip
        return [*reversed(right.values())]

    def relevant_of(self, split: Split) -> list[Judgement]:
        """The relevant pairs of one split."""
        return [one for one in self.relevant if one.split == split]


def is_right(pair: Pair) -> bool:
    """Whether a pair is relevant or unjudged."""
    return isinstance(pair, Judgement) and (pair.relevance is None or pair.relevance > 0)


def full_text(document: Document) -> str:
    """Title and text."""
    return f"{document.title} {document.text}".strip()


def text_of(record: Text) -> str:
    """The text of a query, or title and text of a document."""
    return full_text(record) if isinstance(record, Document) else record.text


def id_of(record: Text) -> str:
    """The id of a query or document."""
    return record.doc_id if isinstance(record, Document) else record.query_id


def place_of(record: Text | Pair) -> str:
    """The place of a record, for people."""
    return f"{record.where} {record.number}"


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
