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
    EncodeParams,
    IndexParams,
    MineParams,
    SearchParams,
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
    "CoTeachingParams",
    "CompareParams",
    "CorruptParams",
    "DetectParams",
    "EncodeParams",
    "Experiment",
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
    "Split",
    "Suite",
    "TrainCoTeachingParams",
    "TrainNpcParams",
    "WarmUpParams",
    "default_home",
]
