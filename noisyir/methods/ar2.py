"""AR2 (Zhang et al., ICLR 2022) in rounds: a retriever and a ranker, trained against each other and for each other."""

from noisyir.errors import ConfigError
from noisyir.methods.scene import Scene
from noisyir.models.weights import encoder_digest
from noisyir.plan import Output, Outputs
from noisyir.stages.ar2 import AR2
from noisyir.stages.init_ranker import INIT_RANKER
from noisyir.stages.warm_up import WARM_UP
from noisyir.stages.warm_up_ranker import WARM_UP_RANKER


def train(scene: Scene) -> Outputs:
    """DPR with in-batch negatives; a ranker on what that model mines; then `ar2.rounds` rounds of both by any sampler.

    Every round mines anew, with the model as it then is.
    """
    exp, pairs = scene.exp, scene.noisy["noisy_pairs"]
    start = exp.train.model_copy(update={"hard_negatives": 0, "pool": "batch"})
    trained: Outputs = scene.train(WARM_UP, start, "warm_up", pairs=pairs, negatives=None)
    given = {"pairs": pairs, **{name: scene.data[name] for name in ("queries", "corpus")}}
    ranker, state = _ranker(scene), None
    for number in range(exp.ar2.rounds):
        label = f"ar2@{number}"
        given["negatives"] = _negatives(scene, trained["model"], label)
        if number == 0:
            name = scene.name("ar2")
            ranker = scene.plan.add(WARM_UP_RANKER, exp.ranker.warm_up, name, ranker=ranker, **given)["ranker"]
        trained = scene.plan.add(
            AR2,
            exp.adversarial(),
            scene.name(str(number)),
            model=trained["model"],
            ranker=ranker,
            ar2_state=state,
            qrels=scene.data["qrels"],
            **given,
        )
        ranker, state = trained["ranker"], trained["ar2_state"]
    return trained


def _ranker(scene: Scene) -> Output:
    """The ranker before any training."""
    params = scene.exp.ranker.init
    weights = encoder_digest(params.weights, "ranker.init.weights")
    return scene.plan.add(INIT_RANKER, params, scene.label, weights=weights)["ranker"]


def _negatives(scene: Scene, model: Output, label: str) -> Output:
    """The negatives of a round.  ConfigError where the experiment mines none."""
    negatives = scene.mined(model, label)
    if negatives is None:
        raise ConfigError(
            "ar2 learns from mined negatives alone: set mine.per_query, to 100 for lists drawn from the top 100 as in "
            "the paper, and mine.run=dense"
        )
    return negatives
