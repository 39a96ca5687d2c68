"""`score_pairs` with every detector, on a world in which the wrong pairs are plain, and on the smallest inputs."""

import shutil

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pydantic import ValidationError

from noisyir.base.errors import ConfigError, DataError
from noisyir.data.artifacts import CORPUS, NOISY_PAIRS, QUERIES
from noisyir.detection.detectors import Detector
from noisyir.detection.features import FEATURES
from noisyir.detection.stages.score_pairs import SCORE_PAIRS
from noisyir.engine import file_memory
from noisyir.evaluation.detection import detection_quality
from noisyir.methods import experiments
from noisyir.methods.plans.audit import audit_pairs
from noisyir.models.cross_encoder import TextPairs, load_cross_encoder
from noisyir.models.layout import write_json
from noisyir.models.ranker import load_ranker
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import classifier_digest
from noisyir.retrieval.settings import Bm25IndexParams
from noisyir.retrieval.stages.bm25 import BM25_INDEX
from noisyir.training import ranker as ranker_training
from noisyir.training.artifacts import NEGATIVES
from tests.tiny import write_beir
from tests.tiny_models import tiny_bert, tiny_classifier
from tests.unit.stages.pair_world import COUNT, WRONG, model, pair_tables, paired
from tests.world import table

IN_BATCH = ("pair_nll", "in_batch_rank")
DENSE = ("similarity", "rank", "margin")
DETECTORS = (*IN_BATCH, *DENSE, "bm25_margin", "consistency", "ensemble")  # that find what is plain here


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    return tiny_classifier(tmp_path_factory.mktemp("classifier"))


@pytest.fixture
def score(run_stage_on, tmp_path, classifier):
    """`score(tables, kind=...)`: the stage's outputs; bm25_margin gets its index, cross_encoder its weights."""
    folder = model(tmp_path / "model")

    def run(tables, *, seed=0, **params):
        given = {"model": folder, **tables}
        given.pop("qrels", None)
        if params.get("kind") == "ensemble":
            params = {"encoder": {"weights": str(folder)}} | params
        if params.get("kind") in ("bm25_margin", "consistency", "ensemble"):
            engine = Bm25IndexParams(engine="bm25s")
            given |= run_stage_on(BM25_INDEX, engine, {"corpus": tables["corpus"]})
        if params.get("kind") == "cross_encoder":
            params = {"weights": str(classifier), "max_len": 32} | params
        return run_stage_on(SCORE_PAIRS, Detector.parse(params), given, seed=seed)

    return run


def auroc(scores, is_wrong):
    return detection_quality(scores, np.ones(len(scores), bool), is_wrong)["auroc"]


@pytest.mark.parametrize(("detector", "folds"), [*((name, 0) for name in DETECTORS), ("pair_nll", 2), ("margin", 3)])
def test_wrong_pairs_score_higher_and_so_do_documents_drawn_at_random(score, detector, folds):
    training = {"folds": folds, "epochs": 2} if folds else {}
    out = score(pair_tables(), kind=detector, **training)["pair_scores"]
    assert out["query_id"].to_pylist() == [f"q{n}" for n in range(COUNT)]
    assert out["doc_id"].to_pylist() == [f"d{paired(n)}" for n in range(COUNT)]
    assert set(out["epoch"].to_pylist()) == {2 if folds else 0}
    scores = out["score"].to_numpy()
    assert auroc(scores, WRONG) > 0.99
    for null in ("random_scores", "near_scores"):
        assert (out[null].null_count == 0) is (null == "random_scores" or detector not in IN_BATCH)
        made_up = np.concatenate([row for row in out[null].to_pylist() if row] or [[]])
        beside_right = np.concatenate([scores[~WRONG], made_up])
        if len(made_up):
            assert auroc(beside_right, np.arange(len(beside_right)) >= (~WRONG).sum()) > 0.9


@pytest.mark.parametrize("detector", ["ensemble", "cross_encoder"])
def test_the_start_model_is_not_loaded_for_a_detector_that_does_not_ask_for_it(score, monkeypatch, detector):
    monkeypatch.setattr("noisyir.models.bi_encoder.load_bi_encoder", lambda *_: pytest.fail("loaded"))
    monkeypatch.setattr("noisyir.training.examples.read_documents", lambda *_: pytest.fail("tokenised"))
    assert len(score(pair_tables(), kind=detector)["pair_scores"]) == COUNT


@pytest.mark.parametrize("detector", [*DENSE, "bm25_margin", "ensemble"])
def test_a_query_that_is_a_document_itself_is_nothing_that_detectors_would_pair(score, detector):
    """As in duplicate questions: the ensemble gives it no rank either."""
    tables = pair_tables()
    itself = table(CORPUS, [(f"itself{n}", COUNT + n, "", f"w{n}") for n in range(COUNT)])
    tables["corpus"] = pa.concat_tables([tables["corpus"], itself])
    rows = score(tables, kind=detector)["competitors"].to_pylist()
    for number, row in enumerate(rows):
        assert row["competitors"] and f"itself{number}" not in row["competitors"]
        if detector == "ensemble" and not WRONG[number]:
            assert row["rank"] == 1


@pytest.mark.parametrize("detector", [*DENSE, "bm25_margin", "ensemble"])
def test_detectors_that_search_say_what_they_would_pair_instead(score, detector):
    out = score(pair_tables(), kind=detector)
    rows = out["competitors"].to_pylist()
    for number, row in enumerate(rows):
        assert row["doc_id"] not in row["competitors"] and len(set(row["competitors"])) == len(row["competitors"]) <= 5
        assert row["competitor_similarities"] == sorted(row["competitor_similarities"], reverse=True)
        if WRONG[number]:
            assert row["competitors"][0] == f"d{number}" and row["competitor_similarities"][0] > row["similarity"]
            assert row["rank"] is None or row["rank"] > 1
        else:
            assert row["rank"] == 1 and row["competitor_similarities"][0] < row["similarity"]
    assert out["pair_scores"]["best_other"].to_pylist() == [row["competitors"][0] for row in rows]


def test_the_ensemble_scores_four_nulls_and_writes_features_of_every_pair(score):
    tables = pair_tables()
    title = pa.array([f"page {n // 6}" for n in range(COUNT)])
    tables["corpus"] = tables["corpus"].set_column(2, "title", title)
    out = score(tables, kind="ensemble")
    for null, draws in (("random", 19), ("near", 10), ("lexical", 10), ("source", 19)):
        lists = out["pair_scores"][f"{null}_scores"].to_pylist()
        assert {len(row) for row in lists} == {draws}
    assert out["pair_features"].select(["query_id", "doc_id"]).equals(out["pair_scores"].select(["query_id", "doc_id"]))
    assert {len(row) for row in out["pair_features"]["features"].to_pylist()} == {len(FEATURES)}


@pytest.mark.parametrize("tokens", [None, 60])
def test_the_ensembles_transformer_reads_all_or_what_the_budget_allows(score, tmp_path, tokens):
    weights = str(tiny_bert(tmp_path / "bert"))
    encoder = {"backbone": "transformer", "weights": weights, "query_max_len": 32, "passage_max_len": 32}
    out = score(pair_tables(), kind="ensemble", encoder=encoder, tokens=tokens)
    scores = out["pair_scores"]["score"].to_numpy()
    assert np.isfinite(scores).all() and (auroc(scores, WRONG) > 0.9 or tokens is None)


@pytest.mark.parametrize("backend", ["openvino", pytest.param("openvino-qint8", marks=pytest.mark.slow)])
def test_the_ensembles_transformer_by_openvino_finds_what_torchs_finds(score, tmp_path, backend):
    pytest.importorskip("openvino", reason="needs the extra: pip install 'noisyir[export]'")
    weights = str(tiny_bert(tmp_path / "bert"))
    encoder = {"backbone": "transformer", "weights": weights, "query_max_len": 32, "passage_max_len": 32}
    found = [
        score(pair_tables(), kind="ensemble", encoder=encoder, backend=name)["pair_scores"]["score"].to_numpy()
        for name in ("torch", backend)
    ]
    assert (found[0] != found[1]).any(), "another program has computed them"
    assert np.corrcoef(*found)[0, 1] > 0.95


def test_auto_is_resolved_when_it_is_planned_so_that_the_key_says_what_is_used(tmp_path):
    static, transformer = model(tmp_path / "model"), tiny_bert(tmp_path / "bert")
    detector = Detector.parse({"kind": "ensemble"})
    for weights, backbone in ((static, "static"), (transformer, "transformer"), ("nowhere/to-be-found", "static")):
        resolved = detector.resolved(InitModelParams(weights=str(weights), passage_max_len=100))
        assert (resolved.encoder.backbone, resolved.encoder.passage_max_len) == (backbone, 100)
        assert resolved.key_values()["encoder"]["passage_max_len"] == 100
        assert resolved.resolved(InitModelParams()) is resolved
    assert detector.resolved(InitModelParams(weights=str(static))).weights_digest()


def test_a_budget_of_time_is_one_of_tokens():
    detector = Detector.parse("ensemble")
    assert detector.within(300).tokens == 5 * detector.within(60).tokens > 0


@pytest.mark.parametrize("detector", [*IN_BATCH, "cross_encoder"])
def test_detectors_that_do_not_search_write_no_competitors(score, detector):
    out = score(pair_tables(), kind=detector)
    assert out["competitors"].num_rows == 0 and out["pair_scores"]["best_other"].null_count == COUNT


@pytest.mark.parametrize("detector", [*DENSE, "bm25_margin", "cross_encoder"])
def test_the_order_of_the_pairs_does_not_matter_where_they_are_not_each_others_negatives(score, detector):
    tables = pair_tables()
    order = np.random.default_rng(1).permutation(len(tables["pairs"]))
    shuffled = tables | {"pairs": tables["pairs"].take(order)}
    one, other = (
        score(given, kind=detector)["pair_scores"].sort_by("query_id").select(["doc_id", "score", "best_other"])
        for given in (tables, shuffled)
    )
    assert one.equals(other)


def test_the_seed_decides_and_nothing_else(score):
    first, again, other = (score(pair_tables(), kind="pair_nll", seed=seed)["pair_scores"] for seed in (1, 1, 2))
    assert first.equals(again) and not first.equals(other)


@pytest.mark.parametrize("detector", ["margin", "bm25_margin"])
def test_a_copy_of_the_pairs_document_is_no_competitor_and_no_document_is_named_twice(score, detector):
    tables = pair_tables()
    copies = [(f"copy{n}", COUNT + n, "", f"w{n} w{n} w{n + 1}") for n in range(30)]
    plain = score(tables, kind=detector)["competitors"].to_pylist()
    tables["corpus"] = pa.concat_tables([tables["corpus"], table(CORPUS, copies)])
    rows = score(tables, kind=detector)["competitors"].to_pylist()
    for row, before in zip(rows, plain, strict=True):
        named = [name.replace("copy", "d") for name in row["competitors"]]
        assert named[0] == before["competitors"][0] and len(set(named)) == len(named)
        assert row["doc_id"] not in named and row["rank"] == before["rank"]


@pytest.mark.parametrize("detector", DETECTORS)
def test_five_pairs_are_scored(score, detector):
    out = score(pair_tables(5), kind=detector)["pair_scores"]
    assert out.num_rows == 5 and auroc(out["score"].to_numpy(), WRONG[:5]) == 1.0


@pytest.mark.parametrize("detector", [*DETECTORS, "cross_encoder"])
def test_pairs_of_one_text_score_alike(score, detector):
    tables = {
        "queries": table(QUERIES, [(f"q{n}", "w1", "train") for n in range(6)]),
        "corpus": table(CORPUS, [(f"d{n}", n, "", "w1 w2") for n in range(6)]),
        "pairs": table(NOISY_PAIRS, [(f"q{n}", f"d{n}", "train", None) for n in range(6)]),
    }
    out = score(tables, kind=detector)
    assert len(set(out["pair_scores"]["score"].to_pylist())) == 1
    assert {tuple(row["competitors"]) for row in out["competitors"].to_pylist()} <= {
        ()
    }  # all documents are the pair's own


@pytest.mark.parametrize("detector", [*DETECTORS, "cross_encoder"])
def test_the_only_passage_of_a_corpus_has_no_competitor(score, detector):
    tables = pair_tables(4)
    tables["corpus"] = tables["corpus"].slice(0, 1)
    tables["pairs"] = table(NOISY_PAIRS, [(f"q{n}", "d0", "train", None) for n in range(4)])
    out = score(tables, kind=detector)["pair_scores"]
    assert out["best_other"].null_count == 4 and pc.all(pc.is_finite(out["score"])).as_py()


def test_mined_negatives_take_part_where_they_are_wanted(score):
    tables = pair_tables(12)
    mined = [(f"q{n}", f"d{(n + 59) % COUNT}", 1.0, 0) for n in range(12)]  # holds the query's word, too
    tables["negatives"] = table(NEGATIVES, mined)
    easy, hard = (
        score(tables, kind="pair_nll", hard_negatives=count)["pair_scores"]["score"].to_numpy() for count in (0, 1)
    )
    right = ~WRONG[:12]
    assert (hard[right] > easy[right]).all()


def test_what_is_missing_is_named(score):
    tables = pair_tables()
    with pytest.raises(ConfigError, match=r"hard_negatives=2 needs mined negatives: set mine\.per_query"):
        score(tables, kind="pair_nll", hard_negatives=2)
    with pytest.raises(ConfigError, match=r"folds=1 leaves no pairs to train on: set 0, or 2 and more"):
        score(tables, kind="pair_nll", folds=1)
    with pytest.raises(DataError, match=r"folds=4 needs as many different training queries; there are 3"):
        score(pair_tables(3), kind="pair_nll", folds=4)
    with pytest.raises(DataError, match="there are no training pairs"):
        score(tables | {"pairs": tables["pairs"].slice(COUNT)}, kind="pair_nll")
    with pytest.raises(DataError, match="unknown documents, for example 'd42'"):
        score(tables | {"corpus": tables["corpus"].slice(0, 40)}, kind="pair_nll")


def test_bm25_margin_needs_an_index(run_stage_on, tmp_path):
    given = {"model": model(tmp_path / "model"), **pair_tables()}
    del given["qrels"]
    with pytest.raises(ConfigError, match="bm25_margin needs a lexical index of engine bm25s"):
        run_stage_on(SCORE_PAIRS, Detector.parse("bm25_margin"), given)


def test_a_cross_encoder_scores_each_pair_and_its_synthetic_ones_by_minus_its_logit(score, classifier):
    tables = pair_tables()
    titles = [("Title of " + name) * (name > "d3") for name in tables["corpus"]["doc_id"].to_pylist()]
    tables["corpus"] = tables["corpus"].set_column(2, "title", pa.array(titles))
    out = score(tables, kind="cross_encoder")["pair_scores"]
    read = [f"{row['title']} {row['text']}".strip() for row in tables["corpus"].to_pylist()]
    every = TextPairs([f"w{n}" for n in range(COUNT) for _ in read], read * COUNT)
    logits = load_cross_encoder(classifier, 32, "cpu").logits(every, 4096, lambda _: None).reshape(COUNT, COUNT)
    own = np.array([paired(n) for n in range(COUNT)])
    np.testing.assert_allclose(out["score"].to_numpy(), -logits[np.arange(COUNT), own], atol=1e-5)
    (made_up,) = np.array(out["random_scores"].to_pylist()).T
    off = np.abs(logits + made_up[:, None])
    off[np.arange(COUNT), own] = np.inf  # a made-up pair has another document
    assert off.min(axis=1).max() < 1e-5
    assert set(out["epoch"].to_pylist()) == {0}


def test_a_cross_encoder_is_not_trained(score):
    with pytest.raises(ValidationError, match="folds"):  # a setting of detectors that train bi-encoders
        score(pair_tables(5), kind="cross_encoder", folds=2)
    with pytest.raises(ConfigError, match=r"needs a sequence classifier: set detectors\.NAME\.weights to its folder"):
        score(pair_tables(5), kind="cross_encoder", weights=None)


def test_weights_that_did_not_change_are_read_once(classifier, tmp_path, monkeypatch):
    folder = shutil.copytree(classifier, tmp_path / "copy")
    monkeypatch.setattr(file_memory, "SETTLED", 0.0)
    first = classifier_digest(str(folder), "weights")
    monkeypatch.setattr("noisyir.engine.provenance._digest", lambda *_: pytest.fail("read again"))
    assert classifier_digest(str(folder), "weights") == first


def test_the_bytes_of_a_cross_encoder_and_not_its_place_decide_the_key(tmp_path):
    collection = write_beir(tmp_path / "beir")

    def step(**detector):
        given = {"name": "x", "data": {"kind": "beir", "path": str(collection)}, "detectors": {"joint": detector}}
        (found,) = audit_pairs(experiments.from_settings(given, [])).named("score_pairs")
        return found

    one, copy = (tiny_classifier(tmp_path / name) for name in ("one", "copy"))
    other = tiny_classifier(tmp_path / "other", seed=1)
    first, again, changed = (step(kind="cross_encoder", weights=str(at)) for at in (one, copy, other))
    assert first.key == again.key != changed.key
    (copy / "model.safetensors").write_bytes((other / "model.safetensors").read_bytes())
    assert step(kind="cross_encoder", weights=str(copy)).key == changed.key
    assert "weights" in first.inputs and "weights" not in step(kind="margin").inputs
    with pytest.raises(ConfigError, match=r"needs a sequence classifier: set detectors\.NAME\.weights"):
        step(kind="cross_encoder")
    with pytest.raises(DataError, match=r"detectors\.NAME\.weights=nobody/nothing .*noisyir fetch nobody/nothing"):
        step(kind="cross_encoder", weights="nobody/nothing")
    (one / "model.safetensors").unlink()
    with pytest.raises(DataError, match=r"detectors\.NAME\.weights=.*/one is not a model: it holds no \.safetensors"):
        step(kind="cross_encoder", weights=str(one))
    with pytest.raises(DataError, match=r"/beir is not a model: it has no config\.json"):
        step(kind="cross_encoder", weights=str(collection))


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    return tiny_bert(tmp_path_factory.mktemp("bert"), layers=1)


SMALL = {"epochs": 1, "n": 3, "batch_size": 8, "neighbours": 2}


def test_the_rankers_detector_reads_no_pair_that_its_ranker_met(score, bert, monkeypatch):
    met = []
    warmed = ranker_training.warm_up

    def warm_up(ranker, lists, *rest):
        given = zip(*lists.positives.take(np.arange(len(lists))), strict=True)
        met.append({(lists.queries[query].as_py(), lists.passages[passage].as_py()) for query, passage in given})
        return warmed(ranker, lists, *rest)

    monkeypatch.setattr(ranker_training, "warm_up", warm_up)
    init = {"weights": str(bert), "max_len": 24}
    out = score(pair_tables(), kind="ranker", folds=3, init=init, **SMALL)
    assert set.union(*met) == set(READ.values()) and not set.intersection(*met)
    assert [len(one) for one in met] == [40, 40, 40]
    again = score(pair_tables(), kind="ranker", folds=3, init=init, **SMALL)
    assert out["pair_scores"] == again["pair_scores"]


def test_the_rankers_score_is_the_best_others_logit_above_the_own(score, classifier, bert, monkeypatch):
    monkeypatch.setattr(ranker_training, "trained_apart", lambda *_: load_ranker(classifier, "cpu"))
    write_json(classifier / "ranker.json", {"max_len": 24})
    out = score(pair_tables(), kind="ranker", init={"weights": str(bert), "max_len": 24}, **SMALL)
    texts = pair_tables()["corpus"]["text"].to_pylist()
    pairs, others = (out[name].to_pylist() for name in ("pair_scores", "competitors"))
    named = [[pair["doc_id"], *other["competitors"]] for pair, other in zip(pairs, others, strict=True)]
    read = [(f"w{number}", texts[int(name[1:])]) for number, names in enumerate(named) for name in names]
    logits = load_cross_encoder(classifier, 24, "cpu").logits(TextPairs(*zip(*read, strict=True)), None).reshape(-1, 4)
    best = logits[:, 1:].max(axis=1)
    np.testing.assert_allclose([pair["score"] for pair in pairs], best - logits[:, 0], atol=1e-4)
    assert [pair["best_other"] for pair in pairs] == [names[1] for names in named]
    assert (logits[:, 1:] >= best[:, None] - 1e-5)[:, 0].all()  # the best one first
    ranks = 1 + (logits[:, 1:] >= logits[:, :1]).sum(axis=1)
    assert [other["rank"] for other in others] == ranks.tolist()


READ = {n: (f"w{n}", f"w{paired(n)} w{paired(n)} w{(paired(n) + 1) % COUNT}") for n in range(COUNT)}
