"""Weights that a file gives its pairs, on their way into the loss of training."""

import json
import re
import shlex

import pyarrow as pa
import pytest

from noisyir.base.errors import ConfigError
from noisyir.data.artifacts import GIVEN_WEIGHTS, NOISY_PAIRS
from noisyir.data.formats.pairs import Pairs
from noisyir.data.settings import HeldOutParams
from noisyir.data.stages.ingest import GIVEN, INGEST
from noisyir.detection.settings import NpcParams, TrainNpcParams
from noisyir.methods import experiments
from noisyir.methods.npc import TRAIN_NPC
from noisyir.methods.plans.retrievers import train_retriever
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.training.artifacts import NOISE_FLAGS
from noisyir.training.flags import with_weights
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR
from tests.tiny_models import tiny_bert
from tests.world import pairs_world, table

WORDS = "oven boat star judge flour wind orbit court".split()


@pytest.fixture
def file(tmp_path):
    """`file([0.5, None, ...])`: the path of a file of as many pairs with these weights; no such column without any."""

    def write(weights):
        rows = [
            {"query_id": f"q{n}", "query": f"what {word}", "doc_id": f"d{n}", "document": f"{word} {word}{n}"}
            for n, word in zip(range(len(weights)), WORDS * 2, strict=False)
        ]
        given = [
            row if weight == "none" else row | {"weight": weight} for row, weight in zip(rows, weights, strict=True)
        ]
        path = tmp_path / f"{len(list(tmp_path.glob('*.jsonl')))}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in given))
        return path

    return write


def noisy(count: int) -> pa.Table:
    return table(NOISY_PAIRS, [(f"q{n}", f"d{n}", "train") for n in range(count)])


def test_every_training_pair_gets_its_weight(run_stage_on, file, store):
    pairs = noisy(4).set_column(1, "doc_id", pa.array(["d0", "d1", "d2", "d0"]))  # noise gave q3 another document
    found = run_stage_on(GIVEN, Pairs(path=str(file([0.25, None, 0, 0.5]))), {"pairs": pairs})["given_weights"]
    assert found["weight"].to_pylist() == [0.25, 1.0, 0.0, 1.0], "nobody weighed what noise put in"
    (notes,) = [meta.notes for meta in store.builds.all() if meta.stage == "given_weights"]
    assert notes["weights"] == {"pairs": 4, "mean": 0.5625, "below_half": 2}


def test_held_out_pairs_of_weight_0_are_wrong_ones_and_the_key_says_so(run_stage_on, file):
    weights = [0 if n % 2 else 1 for n in range(16)]
    held = HeldOutParams(dev=0.25, test=0.25)
    data, plain = Pairs(path=str(file(weights)), hold_out=held), Pairs(path=str(file(["none"] * 16)), hold_out=held)
    found, before = (run_stage_on(INGEST, one, {}) for one in (data, plain))
    assert found["queries"].equals(before["queries"]), "the draw knows no weights"
    relevance = dict(zip(found["qrels"]["query_id"].to_pylist(), found["qrels"]["relevance"].to_pylist(), strict=True))
    assert len(relevance) == 8 and relevance == {name: int(weights[int(name[1:])]) for name in relevance}
    assert set(relevance.values()) == {0, 1}
    pairs = zip(found["pairs"]["query_id"].to_pylist(), found["pairs"]["split"].to_pylist(), strict=True)
    assert not [name for name, split in pairs if split == "dev" and not relevance[name]]
    assert INGEST.digests(data)["source"].endswith("-weights") and "-" not in INGEST.digests(plain)["source"]


@pytest.fixture
def trained(run_stage_on, file, tmp_path):
    """`trained(STAGE, PARAMS, weights, p_clean)`: the model's bytes after training on eight pairs."""
    start = run_stage_on(INIT_MODEL, InitModelParams(weights=str(tiny_bert(tmp_path / "bert")), passage_max_len=32), {})
    texts = pairs_world("queries corpus qrels", [f"w{n}" for n in range(8)], [f"w{n} w{20 + n}" for n in range(8)])

    def train(stage, params, weights=None, p_clean=None):
        given = {"pairs": noisy(8), **texts, **start}
        if weights is not None:
            given["weights"] = run_stage_on(GIVEN, Pairs(path=str(file(weights))), {"pairs": noisy(8)})["given_weights"]
        if p_clean is not None:
            given["flags"] = flags(p_clean)
        return (run_stage_on(stage, params, given)["model"] / "model.safetensors").read_bytes()

    return train


def flags(p_clean):
    rows = [
        {
            "query_id": f"q{n}",
            "doc_id": f"d{n}",
            "epoch": 0,
            "score": 0.0,
            "p_clean": p,
            "is_clean": p is None or p >= 0.5,
        }
        for n, p in enumerate(p_clean)
    ]
    return pa.Table.from_pylist(rows, schema=NOISE_FLAGS.schema)


DESCENT = {"epochs": 2, "batch_size": 4, "learning_rate": 0.01}
PLAIN, WEIGHTED = TrainDprParams(**DESCENT), TrainDprParams(**DESCENT, flagged="weight")
HALF, WHOLE = [0.5] * 4 + [1.0] * 4, [1.0] * 8


def npc(detect):
    return TrainNpcParams(**DESCENT, npc=NpcParams(warmup_epochs=1, detect=detect))


@pytest.mark.parametrize(
    ("stage", "params", "p_clean"),
    [(TRAIN_DPR, PLAIN, None), (TRAIN_DPR, PLAIN, WHOLE), (TRAIN_DPR, WEIGHTED, HALF), (TRAIN_NPC, npc("never"), None),
     (TRAIN_NPC, npc("given"), HALF[::-1])],
    ids=["dpr", "drop", "reweight", "npc", "npc_flags"],
)  # fmt: skip
def test_weights_enter_the_loss_and_whole_ones_change_nothing(trained, stage, params, p_clean):
    without = trained(stage, params, None, p_clean)
    assert trained(stage, params, WHOLE, p_clean) == without
    assert trained(stage, params, HALF, p_clean) != without


def test_a_pair_that_was_given_another_document_counts_whole():
    given = pa.Table.from_pylist([{"query_id": f"q{n}", "doc_id": f"d{n}", "weight": 0.25} for n in range(3)],
                                 schema=GIVEN_WEIGHTS.schema)  # fmt: skip
    repaired = noisy(3).set_column(1, "doc_id", pa.array(["d0", "other", "d2"]))
    found = with_weights(repaired, given)
    assert found["weight"].to_pylist() == [0.25, 1.0, 0.25] and found["doc_id"].equals(repaired["doc_id"])


def test_repaired_pairs_are_weighted_by_what_the_repair_leaves_of_the_doubt(file):
    (step,) = planned("reweight_relabel", file(["none"] * 8)).named("train_dpr")
    assert step.params.flagged == "weight"
    assert (step.inputs["pairs"].artifact, step.inputs["flags"].artifact) == ("repaired_pairs", "repaired_flags")


def test_weights_and_verdicts_multiply(trained):
    quarter = [0.25] * 4 + [1.0] * 4
    assert trained(TRAIN_DPR, WEIGHTED, HALF, HALF) == trained(TRAIN_DPR, PLAIN, quarter)
    assert trained(TRAIN_DPR, WEIGHTED, None, HALF) == trained(TRAIN_DPR, PLAIN, HALF)


METHODS = ["reweight", "relabel", "reweight_relabel", "drop", "npc", "npc_flags", "npc_relabel"]


def planned(method, path, *more):
    given = {"name": "x", "data": {"kind": "pairs", "path": str(path)}, "methods": [method]}
    return train_retriever(experiments.from_settings(given, list(more)))


@pytest.mark.parametrize("method", [*METHODS, "ance", "auto"])
def test_every_method_that_trains_on_pairs_reads_their_weights(file, method):
    steps = [step for step in planned(method, file(HALF)).steps if step.stage.name in ("train_dpr", "train_npc")]
    assert steps and all(step.inputs["weights"].stage == "given_weights" for step in steps)


@pytest.mark.parametrize(
    ("method", "needs"),
    [("ar2", ["mine.per_query=2", "mine.run=dense"]),
     ("rocketqa", ["mine.per_query=2", "mine.run=dense", "train.hard_negatives=0"])],
)  # fmt: skip
def test_methods_that_cannot_count_weights_refuse_them_and_the_cure_works(file, method, needs):
    with pytest.raises(ConfigError, match=f"{method} reads no weights") as refused:
        planned(method, file(HALF), *needs)
    (cure,) = re.findall(r"data\.columns='[^']+'", str(refused.value))
    assert planned(method, file(HALF), *needs, *shlex.split(cure)).steps


def test_plain_training_reads_weights_where_the_file_has_them(file):
    def plan(path, *more):
        return planned("dpr", path, *more)

    weighted, whole = file([0.5] * 8), file(["none"] * 8)
    (step,) = plan(weighted).named("train_dpr")
    assert step.inputs["weights"].stage == "given_weights"
    for plain in (plan(whole), plan(weighted, "data.columns={weight: null}")):
        (step,) = plain.named("train_dpr")
        assert "weights" not in step.inputs
        assert not any(other.stage is GIVEN for other in plain.steps)


@pytest.mark.parametrize(("stage", "params"), [(TRAIN_DPR, PLAIN), (TRAIN_DPR, WEIGHTED), (TRAIN_NPC, npc("given"))])
def test_flags_without_a_warrant_count_all_pairs_alike_and_say_so_once(trained, caplog, stage, params):
    believed = trained(stage, params, None, WHOLE)
    assert not [record for record in caplog.records if "vouch" in record.message]
    assert trained(stage, params, None, [None] * 8) == believed
    (said,) = [record.message for record in caplog.records if "vouch" in record.message]
    assert "all pairs count alike" in said and "detect.assume=best" in said
