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
    HideParams,
    IngestParams,
    PairColumn,
)
from noisyir.config.experiment import (
    Experiment,
    Runtime,
    Suite,
    default_home,
)
from noisyir.config.mining import (
    CandidatesParams,
    CrossJudgeParams,
    DebiasedParams,
    FilterParams,
    JudgesParams,
    MineParams,
    RandomRunParams,
    RefreshParams,
    ScoreLossGroupsParams,
    ScoreNegativesParams,
    SieveParams,
    SimansParams,
    SoftmaxParams,
    TriSamplerParams,
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
    SearchParams,
)
from noisyir.config.training import (
    CcrParams,
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
    "CcrParams",
    "CoTeachingParams",
    "CompareParams",
    "CorruptParams",
    "CrossJudgeParams",
    "DebiasedParams",
    "DetectParams",
    "EncodeParams",
    "Experiment",
    "FilterParams",
    "Fraction",
    "HideParams",
    "IndexParams",
    "IngestParams",
    "InitModelParams",
    "JudgesParams",
    "Location",
    "MineParams",
    "NoiseTableParams",
    "NpcParams",
    "PairColumn",
    "Params",
    "RandomRunParams",
    "RefreshParams",
    "RepairParams",
    "ReportParams",
    "Runtime",
    "ScoreDetectionParams",
    "ScoreLossGroupsParams",
    "ScoreNegativesParams",
    "ScorePairsParams",
    "ScoreParams",
    "SearchParams",
    "SieveParams",
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
