"""Settings of the data: where pairs come from, and what is made wrong or hidden in them."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from noisyir.settings import Fraction, Location, Params


class RecordParams(Params):
    """Which records of raw data become rows, whatever its format."""

    max_documents: PositiveInt | None = Field(None, description="keep at most this many documents: for a quick look")
    document_share: Fraction = Field(
        1.0, description="share of the documents to keep, drawn by their ids: a slice that thins all splits alike"
    )
    max_held_out: PositiveInt | None = Field(
        None, description="keep at most this many queries of each held-out split, drawn by their ids: for a quick look"
    )
    unlabelled: Literal["exclude", "train"] = Field(
        "exclude", description="queries that nothing judges: left out, or kept as training queries without a pair"
    )
    on_empty: Literal["error", "exclude"] = Field(
        "error", description="a document without title and text, or a query without text: refuse, or leave out"
    )
    on_unknown: Literal["error", "exclude"] = Field(
        "error", description="a judgement of a document that the collection lacks: refuse, or leave out"
    )


class ExpectedParams(Params):
    """How large data is known to be, for a forecast before it was read; null: not known.  No result depends on it."""

    documents: PositiveInt | None = Field(None, description="in the collection")
    train_queries: PositiveInt | None = Field(None, description="training queries with a pair")
    train_pairs: PositiveInt | None = Field(None, description="training pairs; null: one a query")
    dev_queries: NonNegativeInt = Field(0, description="dev queries")
    test_queries: NonNegativeInt = Field(0, description="test queries")
    document_tokens: PositiveInt | None = Field(None, description="mean length of title and text; null: full length")
    query_tokens: PositiveInt | None = Field(None, description="mean length of a query; null: full length")
    source: str = Field("", description="where the numbers come from")


class CorruptParams(Params):
    """Wrong labels put in on purpose, with the truth kept apart for scoring."""

    mechanism: Literal["uniform", "neighbour", "group"] = Field(
        "uniform", description="the wrong document: any; one close to the right one; any, in some groups of the corpus"
    )
    rate: Fraction = Field(0.0, description="share of training queries whose document is replaced")
    neighbours: PositiveInt = Field(10, description="neighbour: drawn among this many nearest documents")
    group_rate: Fraction = Field(0.8, description="group: the share replaced within the noisy groups")


class HideParams(Params):
    """Relevant documents that no pair names, put in on purpose, with the truth kept apart for scoring."""

    mechanism: Literal["positives", "near_duplicates"] = Field(
        "positives", description="pairs of queries with several are taken away; or edited copies join the corpus"
    )
    rate: Fraction = Field(
        0.0, description="share hidden of the pairs that a query has beside one; of the training documents, copied"
    )
    copies: PositiveInt = Field(1, description="near_duplicates: edited copies of a document")
    edit_rates: tuple[Fraction, ...] = Field(
        (0.05, 0.1, 0.2), min_length=1, description="near_duplicates: share of words edited, one drawn for each copy"
    )


class JoinCorpusParams(Params):
    """New documents, put behind or in place of those of an indexed corpus."""

    path: Location = Field(None, description="their file (jsonl, csv, tsv, parquet), or a folder with corpus.jsonl")
    remove: Location = Field(None, description="file of the ids of documents to take away, one a line")
    on_empty: Literal["error", "exclude"] = Field(
        "error", description="a document without title and text: refuse, or leave out"
    )
