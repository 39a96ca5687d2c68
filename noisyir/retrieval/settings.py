"""Settings of retrieval: BM25, encoding, indexes and search."""

from typing import Any, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from noisyir.base.settings import Fraction, Params, Split
from noisyir.models.backends import Backend, in_key


class Bm25IndexParams(Params):
    """The inverted index."""

    engine: Literal["pyserini", "bm25s"] = Field("pyserini", description="bm25s needs no Java; same formula")


class Bm25Params(Params):
    """Lexical search; the defaults are Anserini's."""

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")
    top_k: PositiveInt = Field(100, description="documents kept a query")
    splits: tuple[Split, ...] = Field(("dev", "test"), description="the queries searched for")
    lengths: Literal["counted", "rounded"] | None = Field(
        None, description="terms of a document, in engine bm25s; rounded: as Lucene stores them; null: rounded"
    )


class EncodeParams(Params):
    """Vectors of every document and query."""

    splits: tuple[Split, ...] = Field(("dev", "test"), description="the queries encoded")
    dtype: Literal["float32", "float16"] = Field("float32", description="of the stored vectors")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the towers' forward pass (transformer)")
    backend: Backend = Field(
        "torch", description="what computes the towers; openvino: transformers alone, on a CPU; qint8: in 8 bits"
    )
    dimensions: PositiveInt | None = Field(
        None, description="first numbers of each vector that are kept, as by train.matryoshka; null: all"
    )
    shard_rows: PositiveInt = Field(65536, description="documents a shard: the unit of resuming")

    def key_values(self) -> dict[str, Any]:
        """Add the backend's key values."""
        return super().key_values() | in_key(self.backend)


class IndexParams(Params):
    """The index of the documents' vectors."""

    factory: str = Field("Flat", description="FAISS factory string: Flat, HNSW32, IVF4096,PQ64, ...")
    train_rows: PositiveInt = Field(262144, description="vectors sampled to train an index that needs training")


class ExtendIndexParams(IndexParams):
    """An index that takes in a refreshed corpus."""

    rebuild: bool = Field(False, description="rebuild it from all vectors, training included")


class SearchParams(Params):
    """Dense search."""

    top_k: PositiveInt = Field(100, description="documents kept a query")
    probes: PositiveInt = Field(32, description="IVF: lists visited a query")
    breadth: PositiveInt = Field(128, description="HNSW: candidates kept while searching")


class HybridParams(Params):
    """BM25 and vectors as one system."""

    by: Literal["sum", "ranks"] = Field("sum", description="of scores, scaled per query; or of reciprocal ranks")
    weight: Fraction | None = Field(
        None, description="of the vectors in the sum, BM25 has the rest; null: chosen on dev queries, 0.5 without any"
    )
    k: PositiveInt = Field(60, description="added to each rank before it is inverted")
    top_k: PositiveInt = Field(100, description="documents kept a query")


class RandomRunParams(Params):
    """How many documents of the corpus are drawn at random for each training query."""

    top_k: PositiveInt = Field(100, description="documents drawn for each query; all where there are fewer")


class BestPassagesParams(Params):
    """Rankings of documents that were cut into passages."""

    top_k: PositiveInt = Field(100, description="documents kept a query")


class RerankParams(Params):
    """A run reranked by the ranker."""

    depth: PositiveInt = Field(100, description="documents of each query that are read again; the others stay below")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the ranker's forward pass")


class KeepStatesParams(Params):
    """Outputs of a transformer's lower layers, kept for all trainings of the layers above."""

    layers: NonNegativeInt = Field(description="lower layers that are computed once: as train.freeze")
