"""Settings of the data: which records become rows."""

from typing import Annotated, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from noisyir.base.settings import Fraction, Location, Params, Split

READ_WHOLE = 150  # words of a passage that models read whole, as advised


class HeldOutParams(Params):
    """Dev and test queries drawn from training queries, if data has none, whatever the experiment's seed."""

    dev: Fraction = Field(0.1, description="share of the training queries that become dev queries; 0: none")
    test: Fraction = Field(0.1, description="share that become test queries; 0: none")
    most: PositiveInt = Field(2000, description="queries of each, at most")
    near: Annotated[float, Field(gt=0.0, le=1.0)] = Field(
        0.8, description="queries that share so many of their words are in one split"
    )
    together: Literal["auto", "documents", "queries"] = Field(
        "auto", description="queries of one document are in one split; queries: need not be; auto: where that can be"
    )
    seed: int = Field(0, description="of the draw: the same queries for every seed of training")

    @property
    def shares(self) -> dict[Split, float]:
        """The wanted share of each split, test first."""
        given: dict[Split, float] = {"test": self.test, "dev": self.dev}
        return {split: share for split, share in given.items() if share}


class RecordParams(Params):
    """Which records of raw data become rows, in any format."""

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
    hold_out: HeldOutParams | None = Field(
        None, description="dev and test queries to draw, where data has none; null: none; left out: chosen by rule"
    )


class ChunkParams(Params):
    """Long documents as passages, for training and search; measures count documents by their best passage.

    Source: MaxP by Dai and Callan, SIGIR 2019; 100 words a passage by DPR (Karpukhin et al., EMNLP 2020).
    """

    words: PositiveInt | None = Field(
        None,
        description=f"words of a passage at most, such as {READ_WHOLE}; cut where a sentence ends; null: none is cut",
    )
    overlap: NonNegativeInt = Field(0, description="words of a passage that the next one repeats; below half of words")
    depth: PositiveInt = Field(
        10, description="passages ranked for each document wanted, as a document's best ones may stand together"
    )

    @model_validator(mode="after")
    def _goes_on(self) -> Self:
        if self.words is not None and 2 * self.overlap >= self.words:
            raise ValueError(f"chunk.overlap={self.overlap} must be below half of chunk.words={self.words}")
        return self


class JudgedPairsParams(Params):
    """The judgements of a held-out split, as pairs to audit."""

    split: Literal["dev", "test"] = Field("test", description="the split")
    min_relevance: PositiveInt = Field(1, description="least judgement that calls a pair right")


class GivenFileParams(Params):
    """Weights of pairs, or a run, that others computed for one condition and seed of a bench."""

    path: Location = Field(None, description="weights.csv, .jsonl, .parquet: query_id, doc_id, weight; or a TREC run")


class JoinCorpusParams(Params):
    """New documents that are added to an indexed corpus or replace some of its own."""

    path: Location = Field(None, description="their file (jsonl, csv, tsv, parquet), or a folder with corpus.jsonl")
    remove: Location = Field(None, description="file of the ids of documents to take away, one a line")
    on_empty: Literal["error", "exclude"] = Field(
        "error", description="a document without title and text: refuse, or leave out"
    )
