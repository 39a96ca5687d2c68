"""Train dense retrievers on data with wrong labels, and find the wrong ones.

A tour, each name with more in its own help:

    import noisyir

    print(noisyir.check(pairs))               # unknown ids, repeats, leaks: faults that need no judge
    found = noisyir.audit(pairs)              # the wrong pairs with reasons; from a DataFrame, a list, a path, ...
    found.table, found.flagged, found.rate    # most suspect first; the rate and its limits
    sample = found.sample(50)                 # to be judged: a quarter of an hour
    found = found.judged(sample)              # now the rate has an interval
    cleaned = found.apply()                   # the pairs with weights
    found.page("audit.html")                  # for the data's owner

    trained = noisyir.train(pairs)            # doubts pairs where held-out queries say that this helps
    trained.model                             # a SentenceTransformer
    trained.measures, trained.report          # with BM25, the untrained model and intervals
    trained.search("a question")

    negatives = noisyir.mine(pairs, model=trained, sampler="topk", filters={"relative_margin": 0.05})
    chances = noisyir.NoiseDetector().fit(scores, null=made_up).predict_proba(scores)   # on anyone's scores
    loss = noisyir.losses.NoisyPairLoss(model, dataset)    # NPC and CCR in sentence-transformers' Trainer

Results are kept in a store (`.noisyir/store`, or $NOISYIR_HOME): the same call again takes what is there.  Errors that
one can mend are `NoisyirError`, and say how.  The command line does the same and more: `noisyir --help`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from noisyir import losses
    from noisyir.base.errors import NoisyirError
    from noisyir.detection.noise_detector import NoiseDetector
    from noisyir.front.api.check import check
    from noisyir.front.api.label_audit import Audit, audit
    from noisyir.front.api.mine import mine
    from noisyir.front.api.train import Trained, train

__version__ = "0.2.0"
__all__ = ["Audit", "NoiseDetector", "NoisyirError", "Trained", "__version__", "audit", "check", "losses", "mine",
           "train"]  # fmt: skip

_LIVES_IN = {
    "audit": "noisyir.front.api.label_audit",
    "Audit": "noisyir.front.api.label_audit",
    "check": "noisyir.front.api.check",
    "train": "noisyir.front.api.train",
    "Trained": "noisyir.front.api.train",
    "mine": "noisyir.front.api.mine",
    "NoiseDetector": "noisyir.detection.noise_detector",
    "NoisyirError": "noisyir.base.errors",
}


def __getattr__(name: str) -> Any:
    """Load a name at its first use: `import noisyir` alone loads nothing."""
    if name == "losses":
        return import_module("noisyir.losses")
    if name not in _LIVES_IN:
        raise AttributeError(f"module 'noisyir' has no attribute {name!r}")
    return getattr(import_module(_LIVES_IN[name]), name)


def __dir__() -> list[str]:
    """Names of the front door, before anything of it is loaded."""
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
