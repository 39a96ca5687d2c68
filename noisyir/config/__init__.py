"""What can be set: one `Params` class per stage, an `Experiment` of them, and `Runtime`, which cannot change results.

Defaults are the papers'.  Everything in an `Experiment` enters the artifact keys, except fields marked `Location`.
"""

from noisyir.config.base import (
    HELD_OUT,
    Fraction,
    Location,
    Params,
    Split,
)
from noisyir.config.data import (
    CorruptParams,
    IngestParams,
    PairColumn,
)
from noisyir.config.experiment import (
    Experiment,
    Runtime,
    Suite,
    default_home,
)
from noisyir.config.noise import (
    AuditParams,
    DetectParams,
    RepairParams,
    ScoreDetectionParams,
    ScorePairsParams,
)
from noisyir.config.results import (
    CompareParams,
    NoiseTableParams,
    ReportParams,
    ScoreParams,
)
from noisyir.config.retrieval import (
    Bm25IndexParams,
    Bm25Params,
    CandidatesParams,
    DebiasedParams,
    EncodeParams,
    FilterParams,
    IndexParams,
    MineParams,
    SearchParams,
    SimansParams,
    SoftmaxParams,
    TriSamplerParams,
)
from noisyir.config.training import (
    CoTeachingParams,
    InitModelParams,
    NpcParams,
    TrainCoTeachingParams,
    TrainNpcParams,
    WarmUpParams,
)

__all__ = [
    "HELD_OUT",
    "AuditParams",
    "Bm25IndexParams",
    "Bm25Params",
    "CandidatesParams",
    "CoTeachingParams",
    "CompareParams",
    "CorruptParams",
    "DebiasedParams",
    "DetectParams",
    "EncodeParams",
    "Experiment",
    "FilterParams",
    "Fraction",
    "IndexParams",
    "IngestParams",
    "InitModelParams",
    "Location",
    "MineParams",
    "NoiseTableParams",
    "NpcParams",
    "PairColumn",
    "Params",
    "RepairParams",
    "ReportParams",
    "Runtime",
    "ScoreDetectionParams",
    "ScorePairsParams",
    "ScoreParams",
    "SearchParams",
    "SimansParams",
    "SoftmaxParams",
    "Split",
    "Suite",
    "TrainCoTeachingParams",
    "TrainNpcParams",
    "TriSamplerParams",
    "WarmUpParams",
    "default_home",
]
