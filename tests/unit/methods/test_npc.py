"""`npc` as a stage: what it writes of each detection, flags given beforehand, and settings that contradict."""

import numpy as np
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.detection.settings import TrainNpcParams
from noisyir.methods.npc import TRAIN_NPC
from noisyir.training.artifacts import NEGATIVES, NOISE_FLAGS
from tests.refusals import refuses
from tests.unit.stages.pair_world import COUNT, WRONG, model, pair_tables, paired
from tests.world import table

TRAINING = {"epochs": 4, "batch_size": COUNT, "learning_rate": 0.003}  # every pair meets every other
PAIRS = [(f"q{n}", f"d{paired(n)}") for n in range(COUNT)]


@pytest.fixture
def train(run_stage_on, tmp_path):
    """`train(npc={...}, **tables)`: the stage's outputs."""
    start = model(tmp_path / "model")

    def run(npc=None, *, seed=0, settings=None, **more):
        params = TrainNpcParams(**TRAINING | (settings or {}), npc={"warmup_epochs": 1} | (npc or {}))
        return run_stage_on(TRAIN_NPC, params, {"model": start, **pair_tables(), **more}, seed=seed)

    return run


def weights(out):
    return (out["model"] / "model.safetensors").read_bytes()


def flags_table(is_clean, order=None):
    rows = [(*pair, 1, 0.0, float(clean), bool(clean), None) for pair, clean in zip(PAIRS, is_clean, strict=True)]
    return table(NOISE_FLAGS, rows).take(np.arange(COUNT) if order is None else order)


def test_each_detection_after_the_warm_up_is_written(train):
    out = train({"warmup_epochs": 1})
    flags, scores = out["noise_flags"], out["pair_scores"]
    assert flags["epoch"].to_pylist() == scores["epoch"].to_pylist() == [1] * COUNT + [2] * COUNT + [3] * COUNT
    assert flags["score"].equals(scores["score"])
    for name in ("query_id", "doc_id"):
        assert flags[name].to_pylist() == scores[name].to_pylist() == pair_tables()["pairs"][name].to_pylist()[:-1] * 3
    assert scores["random_scores"].null_count == 0
    assert scores["near_scores"].null_count == scores["best_other"].null_count == flags["replacement"].null_count == 180
    first = ~flags["is_clean"].to_numpy()[:COUNT]
    assert first[WRONG].mean() > 0.9 and first[~WRONG].mean() < 0.1
    shares = {row["epoch"]: row["value"] for row in out["curves"].to_pylist() if row["name"] == "flagged_share"}
    flagged = 1 - flags["is_clean"].to_numpy().reshape(3, COUNT).mean(axis=1)
    assert list(shares) == [1.0, 2.0, 3.0] and list(shares.values()) == pytest.approx(flagged)


@pytest.mark.parametrize(
    ("npc", "epochs"),
    [({"detect": "once", "warmup_epochs": 2}, {2}), ({"detect": "never"}, set()), ({"warmup_epochs": 3}, {3})],
)
def test_the_settings_decide_when_pairs_are_flagged(train, npc, epochs):
    out = train(npc)
    assert set(out["noise_flags"]["epoch"].to_pylist()) == set(out["pair_scores"]["epoch"].to_pylist()) == epochs


def test_given_flags_are_taken_pair_by_pair_and_nothing_is_detected(train):
    shuffled = np.random.default_rng(0).permutation(COUNT)
    given = train({"detect": "given"}, flags=flags_table(~WRONG))
    assert given["noise_flags"].num_rows == given["pair_scores"].num_rows == 0
    assert weights(given) == weights(train({"detect": "given"}, flags=flags_table(~WRONG, shuffled)))
    assert weights(given) != weights(train({"detect": "given"}, flags=flags_table(np.ones(COUNT, bool))))
    all_clean = train({"detect": "given"}, flags=flags_table(np.ones(COUNT, bool)))
    assert weights(all_clean) == weights(train({"detect": "never"}))


def test_every_setting_of_the_correction_enters_the_model(train):
    settings = [{}, {"consistency": 0.0}, {"kl": "student_teacher"}, {"teacher_decay": 0.5}, {"final": "teacher"}]
    given, flags = {"detect": "given", "consistency": 1.0}, flags_table(~WRONG)
    assert len({weights(train({**given, **npc}, flags=flags)) for npc in settings}) == len(settings)


def test_the_seed_decides_the_model(train):
    assert weights(train(seed=1)) == weights(train(seed=1)) != weights(train(seed=2))


def test_hard_negatives_in_the_pair_loss_are_the_mined_ones(train):
    mined = table(NEGATIVES, [(f"q{n}", f"d{(n + 59) % COUNT}", 1.0, 0) for n in range(COUNT)])
    with_hard = {"settings": {"hard_negatives": 1}, "negatives": mined}
    easy, hard = (
        train({"hard_negatives": count, "warmup_epochs": 3}, **with_hard)["pair_scores"]["score"].to_numpy()
        for count in (0, 1)
    )
    # the same model scored both: a mined negative is one more passage in the softmax, whichever pair it belongs to
    assert (hard > easy).all()


def test_settings_that_contradict_are_refused(train):
    with refuses(ConfigError, "methods.npc_without_negatives", hard_negatives=1):
        train({"hard_negatives": 1})
    with refuses(ConfigError, "methods.npc_warmup_too_long", warmup_epochs=4, epochs=4):
        train({"warmup_epochs": 4})
    with refuses(ConfigError, "methods.npc_teacher_or_patience"):
        train({"final": "teacher"}, settings={"patience": 1})
    with refuses(ConfigError, "methods.npc_flags_mismatch"):
        train({"detect": "given"})
    with refuses(ConfigError, "methods.npc_flags_mismatch"):
        train({"detect": "once"}, flags=flags_table(~WRONG))
    with refuses(DataError, "training.unflagged_pairs", missing=20):
        train({"detect": "given"}, flags=flags_table(~WRONG).slice(0, 40))
    nobody = pair_tables()["pairs"].slice(COUNT)
    with refuses(DataError, "training.no_training_pairs"):
        train(pairs=nobody)
