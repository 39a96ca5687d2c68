"""AR2 (Zhang et al., ICLR 2022) in rounds: a retriever and a ranker, trained against each other and for each other."""

from noisyir.engine.plan import Output, Outputs
from noisyir.errors import ConfigError
from noisyir.pipelines.context import Scene
from noisyir.pipelines.experiment import Experiment
from noisyir.stages.training.init_ranker import INIT_RANKER
from noisyir.stages.training.train_ar2 import AR2
from noisyir.stages.training.train_dpr import WARM_UP
from noisyir.stages.training.warm_up_ranker import WARM_UP_RANKER
from noisyir.training.settings import Flagged, TrainAr2Params


def train(scene: Scene) -> Outputs:
    """DPR with in-batch negatives; a ranker on what that model mines; then `ar2.rounds` rounds of both by any sampler.

    Every round mines anew, with the model as it then is.
    """
    exp = scene.exp
    trained = _begun(scene, exp.mining_in(0))
    for number in range(exp.ar2.rounds):
        trained = _round(scene, trained, str(number), f"ar2@{number}", exp.mining_in(number), exp.adversarial())
    return trained


def train_on(scene: Scene) -> Outputs:
    """AR2, and from where it ends `ar2.continued.rounds` further rounds, with what `ar2.continued.mine` changes.

    Samplers and the sieve were published as such continuations: the fair control has as many rounds, uniformly mined.
    """
    continued, finished = scene.exp.ar2.continued, train(scene)
    trained: Outputs = {name: finished[name] for name in ("model", "ranker")}
    mining, params = scene.exp.mining(continued.mine), scene.exp.adversarial_further()
    for number in range(continued.rounds):
        trained = _round(scene, trained, f"continued@{number}", f"ar2_continued@{number}", mining, params)
    return trained


def _begun(scene: Scene, mining: Experiment) -> Outputs:
    """Both models before the first round."""
    exp, ranker = scene.exp, initial_ranker(scene)
    if exp.ar2.start_from == "weights":
        return {"model": scene.start, "ranker": ranker}
    given = _given(scene, exp.ar2.flagged)
    start = exp.train.model_copy(update={"hard_negatives": 0, "pool": "batch"})
    labels = {name: given[name] for name in ("pairs", "flags") if name in given}
    model = scene.train(WARM_UP, start, "warm_up", negatives=None, **labels)["model"]
    negatives = _negatives(scene, model, "ar2@0", mining)
    params, name = exp.ranker.warm_up, scene.name("ar2")
    return {"model": model, **scene.plan.add(WARM_UP_RANKER, params, name, ranker=ranker, negatives=negatives, **given)}


def _round(
    scene: Scene, trained: Outputs, number: str, label: str, mining: Experiment, params: TrainAr2Params
) -> Outputs:
    """One round: mine with the retriever as it is, then train both."""
    return scene.plan.add(
        AR2,
        params,
        scene.name(number),
        model=trained["model"],
        ranker=trained["ranker"],
        ar2_state=trained.get("ar2_state"),
        negatives=_negatives(scene, trained["model"], label, mining),
        qrels=scene.data["qrels"],
        **_given(scene, params.flagged),
    )


def _given(scene: Scene, flagged: Flagged) -> Outputs:
    """What all training on lists reads, the verdicts on pairs included where they count."""
    given = {"pairs": scene.noisy["noisy_pairs"], **{name: scene.data[name] for name in ("queries", "corpus")}}
    return given if flagged == "keep" else {**given, "flags": scene.flags()["noise_flags"]}


def initial_ranker(scene: Scene) -> Output:
    """The ranker before any training."""
    return scene.plan.add(INIT_RANKER, scene.exp.ranker.init, scene.label)["ranker"]


def _negatives(scene: Scene, model: Output, label: str, mining: Experiment) -> Output:
    """The negatives of a round.  ConfigError where the experiment mines none."""
    negatives = scene.mined(model, label, exp=mining)
    if negatives is None:
        raise ConfigError(
            "ar2 learns from mined negatives alone: set mine.per_query, to 100 for lists drawn from the top 100 as in "
            "the paper, and mine.run=dense"
        )
    return negatives
