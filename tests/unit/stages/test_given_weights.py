"""Weights that a file gives its pairs, on their way into the loss of plain training."""

import json

import pyarrow as pa
import pytest

from noisyir import experiments
from noisyir.data.formats.pairs import Pairs
from noisyir.models.settings import InitModelParams
from noisyir.pipelines.retrievers import train_retriever
from noisyir.schemas.data import NOISY_PAIRS
from noisyir.stages.data.given_weights import GIVEN
from noisyir.stages.training.init_model import INIT_MODEL
from noisyir.stages.training.train_dpr import TRAIN_DPR
from noisyir.training.settings import TrainDprParams
from tests.tiny_models import tiny_bert

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
    rows = [{"query_id": f"q{n}", "doc_id": f"d{n}", "split": "train", "source": None} for n in range(count)]
    return pa.Table.from_pylist(rows, schema=NOISY_PAIRS.schema)


def test_weights_become_flags_of_which_none_says_wrong(run_stage_on, file, store):
    pairs = noisy(4).set_column(1, "doc_id", pa.array(["d0", "d1", "d2", "d0"]))  # noise gave q3 another document
    found = run_stage_on(GIVEN, Pairs(path=str(file([0.25, None, 0, 0.5]))), {"pairs": pairs})["given_weights"]
    assert found["p_clean"].to_pylist() == [0.25, 1.0, 0.0, 1.0], "nobody weighed what noise put in"
    assert found["is_clean"].to_pylist() == [True] * 4
    (notes,) = [meta.notes for meta in store.all_builds() if meta.stage == "given_weights"]
    assert notes["weights"] == {"pairs": 4, "mean": 0.5625, "below_half": 2}


def test_weights_enter_the_loss_and_whole_ones_change_nothing(run_stage_on, file, tmp_path):
    start = run_stage_on(INIT_MODEL, InitModelParams(weights=str(tiny_bert(tmp_path / "bert")), passage_max_len=32), {})
    texts = {
        "queries": pa.table({"query_id": [f"q{n}" for n in range(8)], "text": [f"w{n}" for n in range(8)],
                             "split": ["train"] * 8}),
        "corpus": pa.table({"doc_id": [f"d{n}" for n in range(8)], "doc_row": pa.array(range(8), pa.int32()),
                            "title": [""] * 8, "text": [f"w{n} w{20 + n}" for n in range(8)]}),
        "qrels": pa.table({"query_id": pa.array([], pa.string()), "doc_id": pa.array([], pa.string()),
                           "relevance": pa.array([], pa.int32())}),
    }  # fmt: skip

    def trained(weights):
        given = {"pairs": noisy(8), **texts, **start}
        settings = {"epochs": 1, "batch_size": 4, "learning_rate": 0.01}
        if weights is not None:
            params = Pairs(path=str(file(weights)))
            given["flags"] = run_stage_on(GIVEN, params, {"pairs": noisy(8)})["given_weights"]
            settings["flagged"] = "weight"
        return (run_stage_on(TRAIN_DPR, TrainDprParams(**settings), given)["model"] / "model.safetensors").read_bytes()

    plain = trained(None)
    assert trained([1.0] * 8) == plain
    assert trained([0.0] * 4 + [1.0] * 4) != plain


def test_plain_training_reads_weights_where_the_file_has_them(file):
    def plan(path, *more):
        given = {"name": "x", "data": {"kind": "pairs", "path": str(path)}}
        return train_retriever(experiments.from_settings(given, list(more)))

    weighted, whole = file([0.5] * 8), file(["none"] * 8)
    (step,) = plan(weighted).named("train_dpr")
    assert step.inputs["flags"].stage == "given_weights" and step.params.flagged == "weight"
    for plain in (plan(whole), plan(weighted, "data.columns={weight: null}")):
        (step,) = plain.named("train_dpr")
        assert "flags" not in step.inputs and step.params.flagged == "drop"
        assert not any(other.stage is GIVEN for other in plain.steps)
