"""The forecast's arithmetic, spelt out for the papers' sizes."""

import pickle

import pytest

from noisyir import experiments
from noisyir.app.forecast.lines import lines_of
from noisyir.app.forecast.rates import Machine, Measured, Time, cost_of, measured, time_of
from noisyir.costs.retrieval import index_bytes
from noisyir.costs.shapes import Shape, encoder_shape, retriever_shape
from noisyir.costs.workload import Call, Sizes
from noisyir.data.formats.pydocs import Pydocs
from noisyir.data.settings import ExpectedParams
from noisyir.engine.builds import Meta
from noisyir.engine.cost import Cost
from noisyir.engine.plan import Choice, forecast
from noisyir.engine.provenance import without_inputs
from noisyir.engine.stage import Stage
from noisyir.models.settings import InitModelParams
from noisyir.pipelines.readers import pipeline_of
from noisyir.schemas.data import PAIRS
from noisyir.schemas.training import MODEL
from noisyir.settings import Params
from noisyir.stages import known_stages
from noisyir.stages.data.ingest import INGEST

BERT = Shape(12, 768, 3072, 30522, known=False)
FULL = [name for name in experiments.names() if name.startswith(("nq_", "tq_", "msmarco_"))]


@pytest.fixture
def lines(store):
    def of(name, *overrides):
        exp = experiments.load(name, overrides)
        with without_inputs() as absences:
            states = forecast(pipeline_of(exp), Choice(), store)
        found, sizes = lines_of(states, store, exp.expected, Machine(gpu_tflops=50))
        return {line.name: line for line in found}, sizes, absences

    return of


def test_a_forward_pass_has_two_operations_per_weight_and_token_and_those_of_attention():
    projections = 12 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert BERT.parameters == 30522 * 768 + projections == pytest.approx(108e6, rel=0.01)
    assert BERT.forward(1, 128) == 128 * (2 * projections + 4 * 128 * 768 * 12)
    assert Shape(0, 384, 0, 30522, known=True).forward(10, 20) == 10 * 20 * 384


def test_weights_that_are_not_here_have_bert_s_shape_and_the_large_one_if_they_say_so():
    assert encoder_shape("someone/ernie-base") == BERT
    assert encoder_shape("someone/ernie-2.0-large-en") == Shape(24, 1024, 4096, 30522, known=False)
    assert encoder_shape("someone/ernie-base", layers=3).layers == 3
    assert retriever_shape(InitModelParams(weights="someone/x")).layers == 0


def test_weights_that_are_here_say_their_shape_themselves(tmp_path):
    (tmp_path / "config.json").write_text(
        '{"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 64, "vocab_size": 99}'
    )
    assert encoder_shape(str(tmp_path)) == Shape(2, 32, 64, 99, known=True)


@pytest.mark.parametrize(
    ("factory", "size"),
    [
        ("Flat", 3072),
        ("SQfp16", 1536),
        ("SQ8", 768),
        ("HNSW32", 3072 + 256),
        ("IVF4096,PQ64", 72),
        ("IVF64,Flat", 3080),
    ],
)
def test_an_index_takes_its_codes_links_and_ids(factory, size):
    assert index_bytes(factory, 768) == size


def test_natural_questions_by_ar2_has_the_vectors_and_operations_of_the_papers_sizes(lines):
    found, sizes, absences = lines("nq_ar2")
    assert sizes.declared and len(absences) == 3  # data, retriever, ranker
    assert all(line.key is None for line in found.values())
    encode, index, search = (found[f"{name}@ar2@0:train"].cost for name in ("encode", "index", "search"))
    assert encode.rows == 21_015_324 + 58_880 and encode.vectors == encode.rows * 768 * 2  # float16
    assert index.vectors == 21_015_324 * 768 * 4
    assert search.flops == 2 * 58_880 * 21_015_324 * 768 and search.rows == 58_880 * 100
    assert encode.flops == BERT.forward(21_015_324, 128) + BERT.forward(58_880, 12)
    assert found["encode@ar2@0:train"].time == Time(encode.flops / 50e12, "gpu")

    large = Shape(24, 1024, 4096, 30522, known=False)
    passages, queries = BERT.forward(16 * 64 * 1500, 128), BERT.forward(64 * 1500, 12)
    judged = large.forward(16 * 64 * (3 * 500 + 1500), 12 + 128)
    assert found["train_ar2@0"].cost.flops == pytest.approx(3 * (passages + queries) + judged)
    assert found["train_dpr@warm_up"].cost.rows == 40 * 58_880
    assert found["warm_up_ranker@ar2"].cost.rows == 2000 * 64
    assert found["rerank@ar2"].cost.rows == (8757 + 3610) * 100


def test_the_sieve_is_a_pass_over_lists_and_one_over_pools(lines):
    found, *_ = lines("msmarco_ar2_sieve")
    trained = 3 * (BERT.forward(502_939 * 4, 83) + BERT.forward(502_939, 9))
    judged = BERT.forward(502_939 * 31, 83) + BERT.forward(502_939, 9)
    assert found["sieve@ar2_continued@0"].cost.flops == pytest.approx(trained + judged)
    assert found["mine@ar2_continued@0"].cost.rows == 502_939 * 30


def test_natural_questions_by_cds_has_the_windows_of_every_passage_and_confusing_ones_beside_them(lines):
    found, sizes, absences = lines("nq_cds")
    assert sizes.declared and len(absences) == 2  # data, reader
    large, asked = Shape(24, 1024, 4096, 30522, known=False), 58_880
    assert found["init_reader"].cost.rows == large.parameters
    assert found["spans@bm25"].cost.rows == found["confusing"].cost.rows == asked * 20
    assert found["spans@held_out:bm25"].cost.rows == 8757 * 20 and found["spans@held_out:given"].cost.rows == 8757

    plain, cds = (found[f"train_reader@{name}"].cost for name in ("ds_all", "cds_pa"))
    windows, again = 3 * asked * 20, 4  # gradient checkpointing
    assert plain.rows == cds.rows == 3 * asked and plain.unit == "questions"
    assert plain.flops == pytest.approx(again * large.forward(windows, 12 + 135))
    assert cds.flops == pytest.approx(again * large.forward(windows * (1 + 5), 12 + 135))
    assert cds.disk - plain.disk == asked * 20 * (1 + 3 * 6) * 40
    assert found["train_reader@cds_pa"].time == Time(cds.flops / 50e12, "gpu")

    assert found["read@cds_pa:bm25"].cost.flops == pytest.approx(large.forward(8757 * 20, 12 + 135))
    assert found["ensemble@bm25"].cost.rows == 3 * 8757 * 20
    assert found["score_reading@cds_pa"].cost.rows == 2 * 8757  # both kinds of passages
    assert found["score_confidence"].cost.rows == 3 * asked * 20 * (1 + 3 * 6)


def test_limits_of_questions_and_instances_count_and_ds_top_reads_its_best_passages(lines):
    found, *_ = lines("squad_cds_small", "reader.methods=[supervised,ds_top,cds_no_denoise,cds_pa]",
                      "reader.ensemble=[]", "reader.train.instances=8")  # fmt: skip
    at_once = {name: found[f"train_reader@{name}"].cost.amount for name in ("ds_top", "cds_no_denoise", "cds_pa")}
    alone = found["train_reader@supervised"].cost
    assert alone.rows == 3 * 2500 and found["gold_run"].cost.rows == 87_599 + 10_570
    assert [amount / alone.amount for amount in at_once.values()] == pytest.approx([5, 8, 8 * 1.4])
    assert all(line.time for line in found.values())


@pytest.mark.parametrize("name", FULL)
def test_every_full_scale_experiment_is_planned_whole_and_every_step_has_a_time(lines, name):
    found, sizes, _ = lines(name)
    assert sizes.declared and sizes.documents > 3_000_000
    assert all(line.time for line in found.values())


@pytest.mark.parametrize("name", FULL)
def test_published_numbers_stand_beside_what_is_measured(name):
    exp = experiments.load(name)
    measured = {*exp.score.measures, *(f"AnswerMatch@{k}" for k in exp.score.answer_ranks)}
    systems = {
        "bm25",
        "zero_shot",
        *(method.kind for method in exp.methods),
        *(f"{method.kind}_reranked" for method in exp.methods),
    }
    splits = exp.score.splits
    if exp.task == "reader":
        measured = {f"{name} {kind}" for name in ("EM", "F1") for kind in exp.reader.passages}
        systems, splits = {method.kind for method in exp.reader.methods}, exp.reader.score.splits
    assert exp.published
    for entry in exp.published:
        assert entry.measure in measured and entry.split in splits and entry.system in systems
        assert 0 < entry.value < 1


def test_without_expected_sizes_nothing_is_forecast(lines):
    found, sizes, _ = lines("nfcorpus")
    assert sizes is None and all(line.cost is None and line.time is None for line in found.values())
    assert ExpectedParams().documents is None


def test_a_build_speaks_for_ten_times_itself_and_the_further_off_the_wider_the_range():
    toy = Measured(1e-3, largest=100)
    assert toy.speaks_for(1000) and not toy.speaks_for(1001)
    near, far = toy.time(100), toy.time(1000)
    assert (near.seconds, near.factor) == (0.1, 1.25) and far.seconds == 1.0
    assert far.factor == pytest.approx(2, abs=0.02) and far.low < far.seconds < far.high
    assert Measured(1e-3, largest=100, scatter=4.0).time(100).factor == 4.0


def of_a_third_party(cost=None):
    """A stage that no part of noisyir knows of, in a plan by itself behind the collection."""
    return Stage("polish", 1, Params, {"pairs": PAIRS.all()}, {"model": MODEL}, lambda job: None, cost=cost)


def polishing(of):
    return Cost(3, "strokes", of.sizes.pairs, rate=0.5)


@pytest.mark.parametrize(
    ("cost", "builds", "time"),
    [
        (None, 0, None),
        (polishing, 0, Time(5.0, "cpu")),
        (None, 1, Time(8.0, "measured", 1.25)),
        (polishing, 1, Time(8.0, "measured", 1.25)),
    ],
)
def test_a_stage_of_a_third_party_is_forecast_by_its_own_declaration_or_by_its_builds(store, cost, builds, time):
    sizes, meta = Sizes(100, {"train": 10}, 10), Meta("polish", 1, "k", "b", {}, None, {}, {}, 8.0, "", {}, None, {})
    collection = Call(INGEST, Pydocs(), [], sizes)
    call = Call(of_a_third_party(cost), Params(), [("pairs", collection)])
    rates = measured([(meta, call)] * builds)
    assert time_of(call, cost_of(call, sizes), sizes, rates, Machine()) == time


def test_costs_and_stories_travel_to_other_processes():
    for stage in known_stages().values():
        assert pickle.loads(pickle.dumps((stage.cost, stage.story)))
