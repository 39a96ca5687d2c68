"""Settings of the data: which records become rows, and how large data is known to be."""

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
    promotion_share: Fraction = Field(
        0.0, description="share of the dev queries, drawn by their ids, that only the gate of promotion looks at"
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


class JoinCorpusParams(Params):
    """New documents, put behind or in place of those of an indexed corpus."""

    path: Location = Field(None, description="their file (jsonl, csv, tsv, parquet), or a folder with corpus.jsonl")
    remove: Location = Field(None, description="file of the ids of documents to take away, one a line")
    on_empty: Literal["error", "exclude"] = Field(
        "error", description="a document without title and text: refuse, or leave out"
    )
