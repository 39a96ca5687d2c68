"""What can be set: one `Params` class per stage, an `Experiment` of them, and `Runtime`, which cannot change results.

Defaults are the papers'.  Everything in an `Experiment` enters the artifact keys, except fields marked `Location`.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Split = Literal["train", "dev", "test"]
HELD_OUT: tuple[Split, ...] = ("dev", "test")
PairColumn = Literal["query", "document", "query_id", "doc_id", "title", "source", "split"]


class Params(BaseModel):
    """Frozen, and refuses unknown keys: a misspelt setting is an error, never a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def key_values(self) -> dict[str, Any]:
        """The settings that decide the result: all of them but where the raw input lies."""
        return self.model_dump(mode="json", exclude=set(self.locations()))

    @classmethod
    def locations(cls) -> list[str]:
        """The fields that say where raw input lies; its content enters the key as a digest instead."""
        return [name for name, field in cls.model_fields.items() if field.metadata and _LOCATION in field.metadata]


_LOCATION = "location"
Location = Annotated[str | None, _LOCATION]


class IngestParams(Params):
    """Where the raw data lies and how it becomes tables."""

    dataset: Literal["pydocs", "beir", "squad", "pairs"] = Field("pydocs", description="the raw data's format")
    path: Location = Field(None, description="folder of the raw files (beir, squad), or file (pairs); pydocs: none")
    corpus: Location = Field(None, description="pairs: the documents' file, where the pairs only name them")
    columns: dict[PairColumn, str | None] = Field(
        {}, description="pairs: which column is what, where the usual names do not tell; null: none is"
    )
    dev_queries: NonNegativeInt = Field(1000, description="pydocs: queries held out to choose by")
    test_queries: NonNegativeInt = Field(2000, description="pydocs: queries held out to report on")
    max_documents: PositiveInt | None = Field(None, description="keep at most this many documents: for a quick look")
    on_empty: Literal["error", "exclude"] = Field(
        "error", description="a document without title and text, or a query without text: refuse, or leave out"
    )


class CorruptParams(Params):
    """Wrong labels put in on purpose, with the truth kept apart for scoring."""

    mechanism: Literal["uniform", "neighbour", "group"] = Field(
        "uniform", description="the wrong document: any; one close to the right one; any, in some groups of the corpus"
    )
    rate: Fraction = Field(0.0, description="share of training queries whose document is replaced")
    neighbours: PositiveInt = Field(10, description="neighbour: drawn among this many nearest documents")
    group_rate: Fraction = Field(0.8, description="group: the share replaced within the noisy groups")


class Bm25IndexParams(Params):
    """The inverted index."""

    engine: Literal["pyserini", "bm25s"] = Field("pyserini", description="bm25s needs no Java; same formula")


class Bm25Params(Params):
    """Lexical search; the defaults are Anserini's."""

    k1: PositiveFloat = Field(0.9, description="term frequency saturation")
    b: Fraction = Field(0.4, description="document length normalisation")
    top_k: PositiveInt = Field(100, description="documents kept a query")
    splits: tuple[Split, ...] = Field(("dev", "test"), description="the queries searched for")


class MineParams(Params):
    """Which retrieved documents become hard negatives."""

    per_query: NonNegativeInt = Field(0, description="hard negatives drawn for one query; 0 mines none")
    rank_from: PositiveInt = Field(1, description="first rank of the run that may be drawn")
    rank_to: PositiveInt = Field(100, description="last rank of the run that may be drawn")


class InitModelParams(Params):
    """The bi-encoder that training starts from, and the shape that it keeps."""

    backbone: Literal["static", "transformer"] = Field("static", description="token-embedding bag, or an encoder")
    weights: Location = Field(
        "minilm", description="minilm (the packaged all-MiniLM-L6-v2), a model folder, or a Hugging Face name"
    )
    layers: PositiveInt | None = Field(None, description="keep only the first layers of a transformer")
    shared: bool = Field(True, description="one tower for queries and passages, or two")
    pooling: Literal["mean", "cls"] = Field("mean", description="how token vectors become one (transformer)")
    similarity: Literal["cosine", "dot"] = Field("cosine", description="what the score of two vectors is")
    query_prefix: str = Field("", description="put before every query")
    passage_prefix: str = Field("", description="put before every passage")
    query_max_len: PositiveInt = Field(64, description="tokens of a query that are read")
    passage_max_len: PositiveInt = Field(256, description="tokens of title and text that are read")


class WarmUpParams(Params):
    """DPR training: in-batch negatives, and mined ones where there are any."""

    epochs: PositiveInt = Field(6, description="passes over the training pairs")
    batch_size: PositiveInt = Field(512, description="queries a step, hence in-batch negatives + 1")
    learning_rate: PositiveFloat = Field(2e-5, description="the peak, after warm-up")
    warmup_ratio: Fraction = Field(0.1, description="share of steps over which the rate rises from 0")
    decay: Literal["linear", "constant"] = Field("linear", description="the rate after warm-up: to 0, or kept")
    weight_decay: NonNegativeFloat = Field(0.0, description="AdamW's, decoupled")
    clip_norm: PositiveFloat = Field(2.0, description="largest gradient norm of a step")
    scale: PositiveFloat = Field(20.0, description="multiplies similarities before the softmax; 20 is temperature 0.05")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives a query in each batch")
    precision: Literal["fp32", "bf16"] = Field("fp32", description="of the towers' forward pass (transformer)")
    chunk_size: PositiveInt | None = Field(None, description="texts through a tower at once: gradient caching")
    flagged: Literal["drop", "weight"] = Field(
        "drop", description="pairs with flags: leave those flagged out, or weight the loss by the chance to be clean"
    )
    patience: PositiveInt | None = Field(
        None, description="stop after this many epochs without a better dev MRR@10, and keep the best; null: never"
    )
    dev_queries: NonNegativeInt = Field(2000, description="dev queries ranked after each epoch, at most; 0: none")
    dev_documents: PositiveInt = Field(
        50_000, description="documents they are ranked over, at most: the relevant ones, then others named by the pairs"
    )


class DetectParams(Params):
    """From scores of pairs to verdicts."""

    method: Literal["gmm", "beta", "null"] = Field(
        "gmm", description="mixture of two Gaussians or Betas, or the distribution of scores of random pairs"
    )
    threshold: Fraction = Field(0.5, description="least probability of being clean that a clean pair has")
    min_rate: Fraction = Field(0.02, description="estimated noise rate below which no pair is flagged")
    null_quantile: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        0.5, description="of the scores of random documents, above which pairs are counted to estimate the rate"
    )
    clip: Fraction = Field(0.999, description="quantile above which scores are clipped before a mixture is fitted")
    confidence: Fraction = Field(0.95, description="of the noise rate's bootstrap interval")
    resamples: PositiveInt = Field(1000, description="bootstrap resamples of the pairs")


class ScoreDetectionParams(Params):
    """How well wrong pairs were found: nothing to set."""


class ScorePairsParams(Params):
    """How suspect each pair is, by one detector."""

    detector: Literal["pair_nll", "in_batch_rank", "similarity", "rank", "margin", "bm25_margin"] = Field(
        "pair_nll", description="what is computed of each pair (docs/noise.md)"
    )
    batch_size: PositiveInt = Field(512, description="pairs that are each other's negatives: their number + 1")
    shuffles: PositiveInt = Field(2, description="orders of the pairs that the loss is averaged over")
    scale: PositiveFloat = Field(20.0, description="multiplies similarities before the softmax")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives beside; an ablation, the paper uses none")
    depth: PositiveInt = Field(100, description="documents searched for a query: how deep a rank is known")
    k1: PositiveFloat = Field(0.9, description="bm25_margin: term frequency saturation")
    b: Fraction = Field(0.4, description="bm25_margin: document length normalisation")
    folds: NonNegativeInt = Field(
        0, description="models trained, each without one fold of the pairs, which it then scores; 0: the given model"
    )
    epochs: PositiveInt = Field(2, description="folds: passes over the pairs of the other folds")
    learning_rate: PositiveFloat = Field(3e-3, description="folds: the peak of training")


class RepairParams(Params):
    """What is done about flagged pairs before training."""

    relabel: Fraction = Field(0.5, description="share of the flagged, the surest first, that get their replacement")


class NpcParams(Params):
    """Noisy pair correction (Zhang et al., Findings of EMNLP 2023), beside the settings of `train`."""

    warmup_epochs: PositiveInt = Field(1, description="epochs on all pairs alike before the first detection")
    detect: Literal["each_epoch", "once", "given", "never"] = Field(
        "each_epoch", description="when pairs are flagged; given: by the flags input; never: all count as clean"
    )
    consistency: NonNegativeFloat = Field(1.0, description="weight of the consistency loss; 0: detection only")
    kl: Literal["teacher_student", "student_teacher"] = Field(
        "teacher_student", description="direction of the divergence; the second is the paper's notation read literally"
    )
    teacher_decay: Fraction = Field(0.99, description="of the moving average of weights, a step")
    shuffles: PositiveInt = Field(1, description="orders of the pairs that a detection averages over")
    hard_negatives: NonNegativeInt = Field(0, description="mined negatives in the pair loss: an ablation")
    final: Literal["student", "teacher"] = Field("student", description="the model that is kept")


class TrainNpcParams(WarmUpParams):
    """Training by noisy pair correction: the settings of `train`, of `npc`, and of its detections."""

    npc: NpcParams = NpcParams()
    # A model scores the pairs it was trained on too well for the noise rate to be read off: no gate by it here.
    detection: DetectParams = DetectParams(min_rate=0.0)


class AuditParams(Params):
    """The audited pairs as a table, a CSV and a page for their owner."""

    title: str = Field("", description="the page's heading; a general one if empty")
    html_rows: PositiveInt = Field(10_000, description="pairs on the page, the most suspect first; the files have all")
    better: NonNegativeInt = Field(3, description="better documents of a pair that the page shows, at most")
    text_chars: PositiveInt = Field(2000, description="characters of a text on the page and in the CSV files")
    sample: NonNegativeInt = Field(0, description="pairs drawn for judging by hand, as sample.csv; 0: no such file")


class EncodeParams(Params):
    """Vectors of every document and query."""

    splits: tuple[Split, ...] = Field(HELD_OUT, description="the queries encoded")
    dtype: Literal["float32", "float16"] = Field("float32", description="of the stored vectors")
    shard_rows: PositiveInt = Field(65536, description="documents a shard: the unit of resuming")


class IndexParams(Params):
    """The FAISS index."""

    factory: str = Field("Flat", description="FAISS factory string: Flat, HNSW32, IVF4096,PQ64, ...")
    train_rows: PositiveInt = Field(262144, description="vectors sampled to train an index that needs training")


class SearchParams(Params):
    """Dense search."""

    top_k: PositiveInt = Field(100, description="documents kept a query")
    probes: PositiveInt = Field(32, description="IVF: lists visited a query")
    breadth: PositiveInt = Field(128, description="HNSW: candidates kept while searching")


class ScoreParams(Params):
    """Measures of one run."""

    measures: tuple[str, ...] = Field(("nDCG@10", "RR@10", "R@100"), description="ir-measures' names")
    splits: tuple[Split, ...] = Field(("test",), description="the splits scored")
    answer_ranks: tuple[PositiveInt, ...] = Field((), description="k of answer-match R@k; needs answers")
    ignore_same_id: bool = Field(False, description="drop a hit whose document id is the query's id (BEIR's rule)")


class CompareParams(Params):
    """Systems side by side."""

    confidence: Fraction = Field(0.95, description="of the bootstrap intervals")
    resamples: PositiveInt = Field(10000, description="bootstrap resamples of the queries")
    baseline: str | None = Field(None, description="the system that every other is compared with; null: the first")


class ReportParams(Params):
    """The page that shows the result."""

    title: str = Field("", description="the page's heading; the experiment's name if empty")
    alpha: Fraction = Field(0.05, description="largest Holm-corrected p-value of a win or a regression")
    min_gain: NonNegativeFloat = Field(0.01, description="least gain of a win, in the measure's own unit")
    examples: NonNegativeInt = Field(5, description="example pairs, wins and losses shown")


class Experiment(Params):
    """One YAML file: only what differs from the defaults."""

    name: str = Field(description="names the run in reports and in MLflow")
    description: str = Field("", description="one line on what the experiment shows")
    seed: int = Field(42, description="of every random choice; enters the keys of stages that make any")
    data: IngestParams = IngestParams()
    noise: CorruptParams = CorruptParams()
    bm25_index: Bm25IndexParams = Bm25IndexParams()
    bm25: Bm25Params = Bm25Params()
    mine: MineParams = MineParams()
    model: InitModelParams = InitModelParams()
    train: WarmUpParams = WarmUpParams()
    encode: EncodeParams = EncodeParams()
    index: IndexParams = IndexParams()
    search: SearchParams = SearchParams()
    score: ScoreParams = ScoreParams()
    compare: CompareParams = CompareParams()
    report: ReportParams = ReportParams()


class Runtime(Params):
    """The machine, not the method: nothing here changes results, so nothing here enters a key."""

    device: str = Field("auto", description="cpu, cuda, cuda:1, ...; auto takes a GPU when there is one")
    threads: PositiveInt | None = Field(None, description="CPU threads; null: all")
    batch_tokens: PositiveInt = Field(32768, description="tokens in one inference batch, padding included")
    checkpoint_seconds: PositiveFloat = Field(60.0, description="least time between two checkpoints of training")
    java_heap: str = Field("4g", pattern="^[0-9]+[kmgKMG]$", description="largest heap of the JVM that Lucene runs in")

    @property
    def cpu_threads(self) -> int:
        """How many CPU threads to use: as many as were asked for, else as there are cores."""
        import os

        return self.threads or os.cpu_count() or 1


def default_home() -> Path:
    """`$NOISYIR_HOME`, or `.noisyir` in the current folder."""
    import os

    return Path(os.environ.get("NOISYIR_HOME", ".noisyir")).absolute()
