"""One short function per pipeline: what feeds what, stated once for every engine."""

from collections.abc import Mapping
from itertools import product

from noisyir.audit.judge import judgements_digest
from noisyir.config import AuditParams, Experiment, MineParams, ScoreDetectionParams, Suite
from noisyir.data.sources import source_digest
from noisyir.errors import ConfigError
from noisyir.eval.bench import Cell, compared
from noisyir.experiments import did_you_mean
from noisyir.methods import METHODS, Method
from noisyir.methods.scene import Scene
from noisyir.models.weights import weights_digest
from noisyir.plan import Output, Plan
from noisyir.stages.audit import AUDIT
from noisyir.stages.bm25 import BM25
from noisyir.stages.bm25_index import BM25_INDEX
from noisyir.stages.candidates import CANDIDATES
from noisyir.stages.compare import COMPARE
from noisyir.stages.corrupt import CORRUPT
from noisyir.stages.encode import ENCODE
from noisyir.stages.index import INDEX
from noisyir.stages.ingest import INGEST
from noisyir.stages.init_model import INIT_MODEL
from noisyir.stages.mine import MINE
from noisyir.stages.noise_table import NOISE_TABLE
from noisyir.stages.report import REPORT
from noisyir.stages.score import SCORE
from noisyir.stages.score_detection import SCORE_DETECTION
from noisyir.stages.search import SEARCH

Outputs = Mapping[str, Output]


def train_retriever(exp: Experiment) -> Plan:
    """The experiment's methods, beside BM25 and the untrained model, scored on the same held-out queries."""
    plan = Plan(exp.seed)
    data = plan.add(INGEST, exp.data, source=source_digest(exp.data))
    lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
    bm25 = plan.add(BM25, exp.bm25, queries=data["queries"], **lexical)
    start = plan.add(INIT_MODEL, exp.model, weights=weights_digest(exp.model))["model"]
    runs = {"bm25": bm25["bm25_run"], "zero_shot": _dense_run(plan, exp, data, start, "zero_shot")["dense_run"]}
    scene = _scene(plan, exp, data, start)
    for name in exp.methods:
        trained = _method(name)(scene)
        dense = _dense_run(plan, exp, data, trained["model"], name)
        runs[name] = dense["dense_run"]
    detection = _score_detection(scene)
    _score_and_report(plan, exp, data, runs, curves=trained["curves"], detection=detection)
    plan.keep(model=trained["model"], index=dense["index"], corpus=data["corpus"])
    if exp.audit is not None:
        _audit(scene)
    return plan


def audit(exp: Experiment) -> Plan:
    """Which of the training pairs are wrong, by the experiment's detectors."""
    plan = Plan(exp.seed)
    data = plan.add(INGEST, exp.data, source=source_digest(exp.data))
    start = plan.add(INIT_MODEL, exp.model, weights=weights_digest(exp.model))["model"]
    _audit(_scene(plan, exp.model_copy(update={"mine": MineParams()}), data, start))
    return plan


def noise_bench(suite: Suite) -> Plan:
    """Every method of the suite on every kind and rate of noise under every seed, and one table of it all."""
    methods = {name: _method(name) for name in suite.methods}
    table = suite.table
    if "reference" not in table.model_fields_set and table.reference not in methods:
        table = table.model_copy(update={"reference": None})
    compared(suite.methods, table.baseline, table.reference)  # what the table would refuse in the end
    exp, plan = suite.experiment, Plan(suite.experiment.seed)
    data = plan.add(INGEST, exp.data, source=source_digest(exp.data))
    start = plan.add(INIT_MODEL, exp.model, weights=weights_digest(exp.model))["model"]
    metrics, detections = {}, {}
    for noise, seed in product(suite.noise, suite.seeds):
        plan.seed = seed
        label = f"{noise.mechanism}:{noise.rate:g}:{seed}"
        scene = _scene(plan, exp.model_copy(update={"noise": noise}), data, start, label)
        for name, method in methods.items():
            trained = method(scene)
            run = _dense_run(plan, exp, data, trained["model"], scene.name(name))["dense_run"]
            cell = Cell(noise.mechanism, noise.rate, name, seed)
            metrics[str(cell)] = _score(plan, exp, data, run, scene.name(name))
        if suite.detect:
            scene.flags()
        if (detection := _score_detection(scene)) is not None:
            detections[str(Cell(noise.mechanism, noise.rate, "detection", seed))] = detection
    plan.seed = exp.seed
    plan.keep(**plan.add(NOISE_TABLE, table, metrics=metrics, detection=detections))
    return plan


def _scene(plan: Plan, exp: Experiment, data: Outputs, start: Output, label: str = "") -> Scene:
    """The experiment's pairs with noise put in, and hard negatives mined for them where it asks for any."""
    vectors = None
    if exp.noise.mechanism == "neighbour":
        vectors = plan.add(ENCODE, exp.encode, "zero_shot", model=start, **_pick(data, "corpus", "queries"))
    noisy = plan.add(
        CORRUPT,
        exp.noise,
        label,
        **_pick(data, "pairs", "qrels", "corpus", "answers"),
        doc_vectors=vectors and vectors["doc_vectors"],
    )
    negatives = _hard_negatives(plan, exp, data, start, noisy["noisy_pairs"], label)
    return Scene(plan, exp, data, noisy, start, negatives, label)


def _method(name: str) -> Method:
    if name not in METHODS:
        raise ConfigError(
            f"methods: no method {name!r}{did_you_mean(name, list(METHODS))}; there are {', '.join(METHODS)}"
        )
    return METHODS[name]


def _audit(scene: Scene) -> None:
    """Verdicts on the scene's pairs, with the evidence, as a table and as files for their owner."""
    params, flags = scene.exp.audit or AuditParams(), scene.flags()
    written = scene.plan.add(
        AUDIT,
        params,
        judgements=judgements_digest(params.judgements),
        pairs=scene.noisy["noisy_pairs"],
        flags=flags["noise_flags"],
        estimate=flags["noise_estimate"],
        rivals=scene.rivals(),
        **_pick(scene.data, "corpus", "queries"),
    )
    scene.plan.keep(**written)


def _score_detection(scene: Scene) -> Output | None:
    """How well the scene's wrong pairs were found, by whoever looked for them; None where nobody did."""
    if not scene.judged:
        return None
    flags = {name: outputs["noise_flags"] for name, outputs in scene.judged.items()}
    estimates = {name: out["noise_estimate"] for name, out in scene.judged.items() if "noise_estimate" in out}
    params, truth = ScoreDetectionParams(), scene.noisy["noise_truth"]
    scored = scene.plan.add(SCORE_DETECTION, params, scene.label, truth=truth, flags=flags, estimate=estimates)
    return scored["detection"]


def _dense_run(plan: Plan, exp: Experiment, data: Outputs, model: Output, label: str) -> Outputs:
    """Encode, index and search with one model; the index and the vectors come back beside the run."""
    texts = _pick(data, "corpus", "queries")
    vectors = plan.add(ENCODE, exp.encode, label, model=model, **texts)
    index = plan.add(INDEX, exp.index, label, doc_vectors=vectors["doc_vectors"])
    run = plan.add(SEARCH, exp.search, label, query_vectors=vectors["query_vectors"], corpus=data["corpus"], **index)
    return {**vectors, **index, **run}


def _hard_negatives(
    plan: Plan, exp: Experiment, data: Outputs, start: Output, pairs: Output, label: str
) -> Output | None:
    """Negatives mined from a ranking of the training queries, where the experiment asks for any.

    Scores are the untrained model's, whoever ranks; of BM25's ranking they are computed if drawing needs them.
    """
    mine, own = exp.mine, f"{label}:train" if label else "train"
    if mine.per_query == 0:
        return None
    encode = exp.encode.model_copy(update={"splits": ("train",)})
    vectors: Outputs = {}
    if mine.run == "dense":
        search = exp.search.model_copy(update={"top_k": mine.rank_to})
        vectors = _dense_run(plan, exp.model_copy(update={"encode": encode, "search": search}), data, start, own)
        run = vectors["dense_run"]
    else:
        lexical = plan.add(BM25_INDEX, exp.bm25_index, corpus=data["corpus"])
        params = exp.bm25.model_copy(update={"splits": ("train",), "top_k": mine.rank_to})
        run = plan.add(BM25, params, "train", queries=data["queries"], **lexical)["bm25_run"]
        if mine.needs_scores:
            vectors = plan.add(ENCODE, encode, own, model=start, **_pick(data, "corpus", "queries"))
    compared = _pick(vectors, "doc_vectors", "query_vectors") if vectors else {}
    known = _pick(data, "queries", "corpus", "answers")
    found = plan.add(CANDIDATES, mine.candidates(), label, run=run, pairs=pairs, **known, **compared)
    return plan.add(MINE, mine, label, pairs=pairs, **found)["negatives"]


def _score(plan: Plan, exp: Experiment, data: Outputs, run: Output, label: str) -> Output:
    truth = _pick(data, "qrels", "queries", "answers", "corpus")
    return plan.add(SCORE, exp.score, label, run=run, **truth)["metrics"]


def _score_and_report(
    plan: Plan, exp: Experiment, data: Outputs, runs: Outputs, *, curves: Output, detection: Output | None
) -> None:
    """Score every run on the same queries, compare them, and write the page."""
    metrics = {label: _score(plan, exp, data, run, label) for label, run in runs.items()}
    comparison = plan.add(COMPARE, exp.compare, metrics=metrics)["comparison"]
    about = _pick(data, "corpus", "queries", "pairs", "qrels", "excluded")
    settings = exp.model_dump(mode="json", exclude_defaults=True)
    params = exp.report.model_copy(update={"title": exp.report.title or exp.name, "settings": settings})
    results = {"comparison": comparison, "detection": detection, "curves": curves}
    report = plan.add(REPORT, params, metrics=metrics, runs=runs, **results, **about)
    plan.keep(comparison=comparison, report=report["report"], **({"detection": detection} if detection else {}))


def _pick(outputs: Outputs, *names: str) -> dict[str, Output]:
    return {name: outputs[name] for name in names}
