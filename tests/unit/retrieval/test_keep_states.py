"""Outputs of frozen layers computed once: the same vectors, whole models, the same bits after a kill, no damage."""

import os
import signal
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import torch

import noisyir.retrieval.stages.keep_states as stage
from noisyir.base.errors import ConfigError, DataError
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.methods import experiments
from noisyir.methods.plans.planning import pipeline_of
from noisyir.models import kept_states
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.stages.init_model import INIT_MODEL
from noisyir.retrieval.settings import EncodeParams, KeepStatesParams
from noisyir.retrieval.stages.encode import ENCODE
from noisyir.training import run
from noisyir.training.checkpoint import CHECKPOINT, Checkpoint
from noisyir.training.settings import TrainDprParams
from noisyir.training.stages.train_dpr import TRAIN_DPR
from tests.conftest import run_alone
from tests.refusals import refuses
from tests.tiny_models import tiny_bert, tiny_decoder, tiny_encoder
from tests.unit.training.killed import killed
from tests.unit.training.test_training_stages import TABLES

TEXTS = {name: TABLES[name] for name in ("corpus", "queries")}


def started(run_stage_on, weights: Path, **params):
    shape = {"backbone": "transformer", "weights": str(weights), "passage_max_len": 16, "query_max_len": 12, **params}
    return run_stage_on(INIT_MODEL, InitModelParams.model_validate(shape), {})["model"]


def kept(run_stage_on, model: Path, layers: int = 1) -> Path:
    return run_stage_on(stage.KEEP_STATES, KeepStatesParams(layers=layers), {**TEXTS, "model": model})["lower_states"]


@pytest.mark.parametrize("layers", [0, 1])
@pytest.mark.parametrize("kind", ["bert", "two towers", "Qwen3", "Llama"])
def test_a_model_on_kept_states_gives_its_own_vectors(run_stage_on, tmp_path, kind, layers):
    weights = tiny_decoder(tmp_path / "w", kind) if kind[0].isupper() else tiny_bert(tmp_path / "w")
    pooling = {"pooling": "last"} if kind[0].isupper() else {}
    model = started(run_stage_on, weights, shared=kind != "two towers", **pooling)
    states, read = kept(run_stage_on, model, layers), load_bi_encoder(model, "cpu")
    read.read_kept(states)
    for side, texts in (("query", ["w3 w43", "w5 w45"]), ("passage", ["w2 w52", "w59 w1 w51"])):
        whole, asked = load_bi_encoder(model, "cpu"), []
        read.transformers[0].get_input_embeddings().register_forward_pre_hook(lambda *_: asked.append(1))  # noqa: B023
        with torch.no_grad():
            wanted, found = (one.embed(one.tokenize(texts, side), side) for one in (whole, read))
        torch.testing.assert_close(found, wanted, atol=2e-3, rtol=0)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):  # pads more
            torch.testing.assert_close(read.embed(read.tokenize(texts, side), side), wanted, atol=0.05, rtol=0)
        assert not asked, "the embeddings are not asked"
    with refuses(DataError, "models.text_without_states", missing=1):
        read.tokenize(["w3 w43", "w58 w57 w56"], "query")


def test_a_training_on_kept_states_moves_the_upper_layers_and_writes_a_whole_model(run_stage_on, tmp_path):
    model = started(run_stage_on, tiny_bert(tmp_path / "w"), dropout=0.0)
    states, made = kept(run_stage_on, model), {}
    for more in ({}, {"states": states}):
        params = TrainDprParams(epochs=2, batch_size=8, learning_rate=1e-3, freeze=1, keep_states=bool(more))
        trained = run_stage_on(TRAIN_DPR, params, {**TABLES, "model": model, **more}, seed=1)["model"]
        made[bool(more)] = dict(load_bi_encoder(trained, "cpu").named_parameters())
    start = dict(load_bi_encoder(model, "cpu").named_parameters())
    assert made[True].keys() == start.keys()
    for name, weight in made[True].items():
        lower = "embeddings" in name or "layer.0." in name
        assert torch.equal(weight, start[name]) == lower, name
        # AdamW moves a weight by its rate each step, whichever sign rounding gives a vanishing gradient
        torch.testing.assert_close(
            weight, made[False][name], atol=4e-3, rtol=0
        )  # a vanishing gradient may turn its sign
    tables = {**TEXTS, "model": trained}
    whole, short = (run_stage_on(ENCODE, EncodeParams(), {**tables, **more}) for more in ({}, {"states": states}))
    for name in whole:
        vectors = [np.array(one[name]["vector"].to_pylist()) for one in (whole, short)]
        np.testing.assert_allclose(*vectors, atol=2e-3)


def test_states_of_other_lower_layers_are_refused_and_continued_trainings_may_read_them(run_stage_on, tmp_path):
    model = started(run_stage_on, tiny_bert(tmp_path / "w"))
    states, other = kept(run_stage_on, model), load_bi_encoder(model, "cpu")
    with torch.no_grad():
        next(iter(other.transformers[0].encoder.layer[1].parameters())).add_(1.0)
    other.read_kept(states)
    with torch.no_grad():
        next(iter(other.transformers[0].encoder.layer[0].parameters())).add_(1.0)
    with refuses(DataError, "models.states_of_another_model"):
        other.read_kept(states)


def test_a_model_that_cannot_be_split_is_refused_by_name(run_stage_on, tmp_path, monkeypatch):
    model = started(run_stage_on, tiny_bert(tmp_path / "w"))
    monkeypatch.setattr(kept_states, "_AsGiven", torch.nn.Identity)  # embeddings of another signature
    with refuses(DataError, "models.states_not_kept", model="BertModel"):
        kept(run_stage_on, model)
    static = run_stage_on(INIT_MODEL, InitModelParams(weights=str(tiny_bert(tmp_path / "s"))), {})["model"]
    with refuses(ConfigError, "models.static_cannot_be_limited"):
        kept(run_stage_on, static)
    huge = tiny_encoder(tiny_bert(tmp_path / "h"), backbone="transformer")
    with torch.no_grad():
        huge.transformers[0].embeddings.LayerNorm.weight.fill_(1e6)
    with refuses(DataError, "models.states_too_large"):
        kept_states.lower_states(huge.passage_tower, 0, huge.tokenize(["w1 w2"], "passage"), 100)


def kept_in(store: Store, weights: Path) -> tuple[Path, Path]:
    """A start model and its kept states, in a store."""
    shape = InitModelParams(backbone="transformer", weights=str(weights), passage_max_len=16, query_max_len=12)
    model = run_alone(store, INIT_MODEL, shape, {})["model"]
    made_of = {**TEXTS, "model": model}
    return model, run_alone(store, stage.KEEP_STATES, KeepStatesParams(layers=1), made_of)["lower_states"]


def build(home: Path, weights: Path, die_after: int | None = None) -> Path:
    """Keep the states in shards of ten texts; perhaps kill this process after some of them."""
    torch.set_num_threads(1)
    stage._ROWS, made = 10, stage.states_of

    def counted(job, shards):
        for number, table in enumerate(made(job, shards)):
            if number == die_after:
                os.kill(os.getpid(), signal.SIGKILL)
            yield table

    stage.states_of = counted
    try:
        return kept_in(Store(home / "store", home=home), weights)[1]
    finally:
        stage._ROWS, stage.states_of = 512, made


def trained(home: Path, weights: Path, die_after: int | None = None) -> Path:
    """Train the upper layer on kept states; perhaps kill this process after some of its checkpoints."""
    torch.set_num_threads(1)
    saved, save = count(1), run.save_checkpoint

    def counted(folder: Path, checkpoint: Checkpoint) -> None:
        save(folder, checkpoint)
        if next(saved) == die_after:
            os.kill(os.getpid(), signal.SIGKILL)

    run.save_checkpoint = counted
    try:
        store = Store(home / "store", home=home)
        model, states = kept_in(store, weights)
        params = TrainDprParams(epochs=3, batch_size=8, learning_rate=1e-3, freeze=1, keep_states=True)
        tables = {**TABLES, "model": model, "states": states}
        return run_alone(store, TRAIN_DPR, params, tables, runtime=Runtime(checkpoint_seconds=1e-9))["model"]
    finally:
        run.save_checkpoint = save


def test_a_training_on_kept_states_that_was_killed_ends_in_the_same_bits(tmp_path):
    weights = tiny_bert(tmp_path / "w")
    whole = trained(tmp_path / "whole", weights)
    killed(trained, tmp_path / "killed", weights, die_after=3)
    (work,) = (tmp_path / "killed").rglob(".work/train_dpr-*")
    assert (work / CHECKPOINT).exists()
    resumed = trained(tmp_path / "killed", weights)
    names = sorted(path.relative_to(whole) for path in whole.rglob("*") if path.is_file())
    for name in names:
        assert (whole / name).read_bytes() == (resumed / name).read_bytes(), name


def test_a_killed_build_resumes_to_the_same_bits_and_damage_is_found_before_use(tmp_path, monkeypatch):
    weights = tiny_bert(tmp_path / "w")
    whole = build(tmp_path / "whole", weights)
    killed(build, tmp_path / "killed", weights, die_after=4)
    (work,) = (tmp_path / "killed").rglob(".work/keep_states-*")
    assert len(list(work.glob("*.parquet"))) == 4
    torn = next(iter(sorted(work.glob("*.parquet"))))
    torn.write_bytes(torn.read_bytes()[:-9])  # made again
    resumed = build(tmp_path / "killed", weights)
    names = {path.name for path in whole.iterdir()}
    assert kept_states.STATES in names and names == {path.name for path in resumed.iterdir()}
    for name in names:
        assert (whole / name).read_bytes() == (resumed / name).read_bytes(), name

    states = resumed / kept_states.STATES
    states.chmod(0o644)
    rotten = bytearray(states.read_bytes())
    rotten[7] ^= 1
    states.write_bytes(rotten)
    again = build(tmp_path / "killed", weights)
    assert (again / kept_states.STATES).read_bytes() == (whole / kept_states.STATES).read_bytes()


GIVEN = ("model.backbone=transformer", "train.freeze=4", "data.hold_out={dev: 0.1, test: 0.1}")


def test_all_methods_and_trials_share_one_build_and_their_models_are_encoded_from_it(tmp_path):
    pairs = tmp_path / "pairs.csv"
    pairs.write_text("query,document\n" + "".join(f"q{n},d{n}\n" for n in range(50)))

    def plan(*settings):
        given = {"name": "x", "data": {"kind": "pairs", "path": str(pairs)}}
        return pipeline_of(experiments.from_settings(given, [*GIVEN, *settings]))

    shared = plan("train.keep_states=true", "methods=[dpr,npc,reweight_relabel,auto]")
    (keeping,) = (step for step in shared.steps if step.stage.name == "keep_states")
    readers = [step for step in shared.steps if "states" in step.inputs]
    assert {step.inputs["states"].step for step in readers} == {keeping.name}
    assert len(readers) == sum(step.stage.name.startswith("train_") for step in shared.steps) + 5 + 1  # and the start
    by_name = {step.name: step for step in shared.steps}
    assert "states" in by_name["encode@npc"].inputs and "states" in by_name["choose_model"].inputs

    plain = plan("methods=[dpr,npc]")
    assert [step.name for step in plain.steps if "states" in step.inputs or step.stage.name == "keep_states"] == []
    int8 = plan("train.keep_states=true", "methods=[dpr]", "encode.backend=openvino")
    (encode,) = (step for step in int8.steps if step.name == "encode@dpr")
    assert "states" not in encode.inputs
    with pytest.raises(ConfigError, match="set freeze"):
        plan("train.keep_states=true", "train.freeze=null")


def test_teachers_are_copies_that_share_the_file(run_stage_on, tmp_path):
    from noisyir.training.learner import follow, teacher_of

    model = started(run_stage_on, tiny_bert(tmp_path / "w"))
    student = load_bi_encoder(model, "cpu")
    student.limit(1, TrainDprParams().lora, 0)
    student.read_kept(kept(run_stage_on, model))
    teacher = teacher_of(student)
    assert teacher.passage_tower.kept is student.passage_tower.kept
    tokens = student.tokenize(["w2 w52"], "passage")
    before = teacher.embed(tokens, "passage")
    with torch.no_grad():
        for weight in student.transformers[0].encoder.layer[1].parameters():
            weight.add_(0.1 * torch.randn_like(weight))
    torch.testing.assert_close(teacher.embed(tokens, "passage"), before)
    follow(teacher, student, 0.0)
    torch.testing.assert_close(teacher.embed(tokens, "passage"), student.embed(tokens, "passage"))
