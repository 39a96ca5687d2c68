"""init_reader, train_reader, read: from a bare encoder to answers, and what is said of bad input."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, QUERIES
from noisyir.engine.runtime import Runtime
from noisyir.readers.artifacts import CONFUSING, PASSAGES, SPANS
from noisyir.readers.model import load_reader
from noisyir.readers.settings import InitReaderParams, ReadParams, TrainReaderParams
from noisyir.readers.stages.read import READ
from noisyir.readers.stages.train_reader import INIT_READER, TRAIN_READER
from tests.unit.training.reader_world import PARAMS, world
from tests.world import table

RUNTIME = Runtime(device="cpu")
TABLES = world()


@pytest.fixture
def start(run_stage_on, bert):
    params = InitReaderParams(weights=str(bert), layers=1, max_len=32, question_max_len=4)
    return run_stage_on(INIT_READER, params, {})["reader"]


@pytest.fixture
def train(run_stage_on, start):
    def run(given=TABLES, **changes):
        params = TrainReaderParams.model_validate({**PARAMS, "epochs": 10, **changes})
        return run_stage_on(TRAIN_READER, params, {**given, "reader": start}, runtime=RUNTIME)

    return run


@pytest.fixture
def read(run_stage_on):
    def run(reader, given, **changes):
        params = ReadParams.model_validate({"n_best": 3, "stride": 4, **changes})
        return run_stage_on(READ, params, {**given, "reader": reader}, runtime=RUNTIME)["readings"]

    return run


ASKED = {
    "queries": table(QUERIES, [("qa", "w41 w3", "test"), ("qb", "w42 w5", "test"), ("qc", "w40 w6", "test")]),
    "corpus": table(
        CORPUS,
        [
            ("da", 0, "w57", "w1 w2 w3 w4"), ("db", 1, "", "w9 w8 W53, w7 w6"),
            ("dc", 2, "", f"{'w3 ' * 40}w55 {'w4 ' * 40}"), ("dd", 3, "", " "), ("de", 4, "", "w51"),
        ],
    ),
    "passages": table(
        PASSAGES,
        [
            ("qa", "da", 1, 2.0, False), ("qa", "db", 2, 1.0, True), ("qb", "dc", 1, 1.0, True),
            ("qb", "dd", 2, 0.5, False), ("qc", "dd", 1, 0.5, False), ("qa", "de", 3, 0.1, True),
        ],
    ),
}  # fmt: skip


def test_a_trained_reader_answers_from_all_passages_and_long_ones(train, read):
    out = train(epochs=16)  # after 10 the second answer depends on what dropout drops
    readings = read(out["reader"], ASKED).to_pylist()
    texts = dict(zip(*(ASKED["corpus"][name].to_pylist() for name in ("doc_id", "text")), strict=True))
    for row in readings:
        assert texts[row["doc_id"]][row["start"] : row["end"]] == row["answer"] == row["answer"].strip() != ""
    by_query = {query: [row for row in readings if row["query_id"] == query] for query in ("qa", "qb", "qc")}
    assert {row["answer"] for row in by_query["qa"][:2]} == {"W53", "w51"} and by_query["qb"][0]["answer"] == "w55"
    assert by_query["qc"] == [], "a passage of white space alone answers nothing"
    for rows in by_query.values():
        assert [row["rank"] for row in rows] == list(range(1, len(rows) + 1)) and len(rows) <= 3
        scores = [row["score"] for row in rows]
        assert scores == sorted(scores, reverse=True) and len({row["answer"] for row in rows}) == len(rows)


def test_readings_depend_neither_on_the_order_of_rows_nor_on_batches(train, read, run_stage_on):
    reader = train(epochs=1)["reader"]
    readings = read(reader, ASKED)
    shuffled = {name: table.take(np.random.default_rng(1).permutation(len(table))) for name, table in ASKED.items()}
    assert read(reader, shuffled).equals(readings)
    params, small = ReadParams(n_best=3, stride=4), Runtime(device="cpu", batch_tokens=8)
    again = run_stage_on(READ, params, {**ASKED, "reader": reader}, runtime=small)["readings"]
    assert again.drop_columns("score").equals(readings.drop_columns("score"))
    np.testing.assert_allclose(again["score"], readings["score"], atol=1e-5)
    empty = {**ASKED, "passages": PASSAGES.schema.empty_table()}
    assert read(reader, empty).num_rows == 0


def test_confidences_are_recorded_per_update_and_cds_alone_has_them(train):
    out = train(epochs=2)
    table = out["confidences"]
    assert set(table["update"].to_pylist()) == {0, 1, 2, 3, 4}
    assert table.num_rows == 5 * TABLES["spans"].num_rows
    sums = table.group_by(["query_id", "update"]).aggregate([("value", "sum")])["value_sum"]
    np.testing.assert_allclose(sums, 1.0, rtol=1e-5)
    first = table.filter(pc.equal(table["update"], 0)).sort_by([("query_id", "ascending"), ("doc_id", "ascending")])
    assert first["value"].to_pylist()[:4] == pytest.approx([2 / 13, 3 / 13, 4 / 13, 4 / 13])
    shuffled = {name: given.take(np.random.default_rng(2).permutation(len(given))) for name, given in TABLES.items()}
    again = train(shuffled, epochs=2)
    assert again["confidences"].equals(table)
    weights = [dict(load_reader(one["reader"], "cpu").named_parameters()) for one in (out, again)]
    assert all(weight.equal(weights[1][name]) for name, weight in weights[0].items())
    for objective in ("ds_all", "ds_average", "supervised", "hard_em"):
        plain = train({name: TABLES[name] for name in ("spans", "queries", "corpus")}, epochs=1, objective=objective)
        assert plain["confidences"].num_rows == 0 and plain["curves"].num_rows > 0


def test_the_third_ablation_trains_by_passages_in_place_of_both_losses(train):
    found = [
        {row["name"] for row in train(epochs=1, confidence="none", contrast=kind)["curves"].to_pylist()}
        for kind in ("spans", "passages")
    ]
    assert found[1] - found[0] == {"contrast"} and found[0] - found[1] == {"debias", "denoise"}


def test_ds_top_trains_on_spans_near_words_of_the_question(train):
    assert train(epochs=1, objective="ds_top")["curves"].num_rows > 0
    strange = pa.table({**dict(zip(QUERIES.columns, TABLES["queries"].columns, strict=True)),
                        "text": pa.array(["w44"] * 12)})  # fmt: skip
    with pytest.raises(DataError, match=r"ds_top: none of 48 spans lies near a word of its question"):
        train({**TABLES, "queries": strange}, objective="ds_top")


def test_attention_on_a_cpu_is_lean_and_saved_readers_know_nothing_of_it(train, monkeypatch):
    from noisyir.readers import model as reader

    started = []
    monkeypatch.setattr(reader, "load_reader", lambda *given: started.append(load_reader(*given)) or started[-1])
    folders = [train(epochs=1, precision=precision)["reader"] for precision in ("bf16", "fp32")]
    assert [one.model.config._attn_implementation for one in started] == ["lean", "lean"]
    one, other = ((folder / "config.json").read_bytes() for folder in folders)
    assert one == other


def test_bad_input_is_named_with_its_remedy(train):
    with pytest.raises(ConfigError, match=r"reader.train.beta=1 needs confusing passages"):
        train({name: TABLES[name] for name in ("spans", "queries", "corpus")})
    held_out = TABLES["queries"].set_column(2, "split", pa.array(["test"] * 12))
    with pytest.raises(DataError, match=r"no training question has a labelled span \(48 spans of other splits\)"):
        train({**TABLES, "queries": held_out})
    gone = TABLES["corpus"].filter(pc.not_equal(TABLES["corpus"]["doc_id"], "d01"))
    with pytest.raises(DataError, match=r"the corpus lacks 1 of 48 needed documents, for example 'd01'"):
        train({**TABLES, "corpus": gone})
    with pytest.raises(DataError, match=r"training diverged at step 0, where the reader's loss is nan"):
        train(temperature=1e-45)


def test_a_long_passage_one_that_is_all_answer_and_spans_that_fit_no_window(train):
    texts = {"long": "w1 " * 3300 + "w50 w2", "all": "w50", "endless": "w50 " * 30, "blank": "\u200b"}
    corpus = table(CORPUS, [(doc_id, number, "", text) for number, (doc_id, text) in enumerate(texts.items())])
    spans = [("q", "long", 9900, 9903, "w50", 1.0), ("q", "all", 0, 3, "w50", 1.0), ("q", "blank", 0, 1, "?", 0.0),
             ("q", "endless", 0, 119, "w50 w50", 1.0)]  # fmt: skip
    confusing = table(CONFUSING, [("q", "long", "endless", 1, 1.0), ("q", "all", "blank", 1, 1.0)])
    queries = table(QUERIES, [("q", "w40", "train")])
    given = {"corpus": corpus, "spans": table(SPANS, spans), "queries": queries, "confusing": confusing}
    out = train(given, epochs=2, confusing_share=1.0)
    assert set(out["confidences"]["doc_id"].to_pylist()) == {"long", "all"}, "the others have no token, or too many"
    only = {**given, "spans": table(SPANS, spans[2:])}
    with pytest.raises(DataError, match=r"none of 2 labelled spans can be trained on"):
        train(only)
