"""A data set's records in lists, for benches that take texts and pairs without a store."""

from collections.abc import Iterator

from noisyir.data.records import Document, Judgement, Negative, Query, Source, one_by_one


class RecordsByKind:
    """A source's records, read once: documents pass through, others are kept in lists by kind."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.queries: list[Query] = []
        self.judgements: list[Judgement] = []
        self.negatives: list[Negative] = []

    def documents(self) -> Iterator[Document]:
        """Every document; after the last one the lists are complete."""
        for record in one_by_one(self.source.records()):
            match record:
                case Document():
                    yield record
                case Query():
                    self.queries.append(record)
                case Judgement():
                    self.judgements.append(record)
                case Negative():
                    self.negatives.append(record)
