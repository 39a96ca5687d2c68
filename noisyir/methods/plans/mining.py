"""Documents found for the training queries: ranked, judged, drawn as negatives, or scored as lists."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noisyir.base.errors import ConfigError
from noisyir.engine.known_stages import known_stages, stage_named
from noisyir.engine.stage import Output, Outputs
from noisyir.methods.plans.searching import Part, encoded, pick, searched
from noisyir.mining.judges import Judge
from noisyir.mining.settings import EVERY, CandidatesParams, GivenRunParams, MineParams, PositiveVectorsParams
from noisyir.mining.stages.candidates import CANDIDATES
from noisyir.mining.stages.given import RUN_OF_GIVEN
from noisyir.mining.stages.hard_negatives import MINE
from noisyir.mining.stages.positive_vectors import POSITIVE_VECTORS
from noisyir.mining.stages.relevance_judges import RANKER_JUDGE
from noisyir.mining.stages.teacher_lists import CHOOSE_LISTS, POOL_CANDIDATES
from noisyir.mining.teachers import BiEncoderTeacher, FileTeacher, Teacher
from noisyir.models.stages.init_model import INIT_RANKER
from noisyir.retrieval.settings import Bm25IndexParams, RandomRunParams
from noisyir.retrieval.stages.bm25 import BM25, BM25_INDEX
from noisyir.retrieval.stages.search import RANDOM_RUN

if TYPE_CHECKING:
    from noisyir.methods.plans.experiment import Experiment


@dataclass(frozen=True)
class MiningOutputs:
    """Outputs of one mining: candidates, each judge's verdicts on them, and the negatives drawn."""

    candidates: Output
    verdicts: Mapping[str, Output]
    negatives: Output
    sieve_curves: Output | None


@dataclass(frozen=True)
class TrainedJudge:
    """A ranker that the plan trained to judge, and its earlier verdicts by label."""

    ranker: Output
    judged: Mapping[str, Output] = field(default_factory=dict)

    def verdicts(self, part: Part, found: Output) -> Output:
        """Its verdicts on candidates."""
        given = {"ranker": self.ranker, "judged": self.judged or None, **part.texts}
        judge = part.exp.judge("ranker")
        return part.plan.add(RANKER_JUDGE, judge, part.label, candidates=found, **given)["verdicts"]


def mine(part: Part, model: Output, pairs: Output, trained: TrainedJudge | None = None) -> MiningOutputs:
    """Rank the training queries as `mine.run` says, judge by `mine.judges` and `trained`, and draw.

    Scores are always the model's.
    """
    params = at_training_scale(part.exp)
    candidates = retrieved(part, part.exp.mine.candidates(), model, pairs)
    judged = {judge: _judged(part.exp.judge(judge), part, model, pairs, candidates) for judge in params.judges}
    verdicts = {judge: outputs["verdicts"] for judge, outputs in judged.items()}
    if trained is not None:
        params = params.model_copy(update={"judges": (*params.judges, "ranker")})
        verdicts["ranker"] = trained.verdicts(part, candidates)
    drawn = part.plan.add(MINE, params, part.label, pairs=pairs, candidates=candidates, verdicts=verdicts)
    return MiningOutputs(candidates, verdicts, drawn["negatives"], judged.get("sieve", {}).get("curves"))


def at_training_scale(exp: "Experiment") -> MineParams:
    """The settings of mining, with the training's scale for a sampler of cosines that has none set.

    Cosines differ by 2 at most, so at a sampler's own scale, or at temperature 1, all candidates weigh nearly alike.
    """
    sampler, scale = exp.mine.sampler, exp.train.scale
    ways = {"scale": scale, "temperature": 1 / scale}
    unset = {name: value for name, value in ways.items() if name in type(sampler).model_fields}
    if not unset or unset.keys() & sampler.model_fields_set or exp.model.similarity != "cosine":
        return exp.mine
    return exp.mine.model_copy(update={"sampler": sampler.model_copy(update=unset)})


def retrieved(part: Part, which: CandidatesParams, model: Output, pairs: Output) -> Output:
    """The training queries' candidates in the ranking that `mine.run` names; labelled queries get scores."""
    plan, data = part.plan, part.data
    run, vectors = training_run(part, model, pairs)
    if "given" in part.exp.mine.rankings:
        behind, read = GivenRunParams(rank_from=which.rank_from, rank_to=which.rank_to), ("given_negatives", "queries")
        run = plan.add(RUN_OF_GIVEN, behind, part.label, **pick(data, *read), run=run)["given_run"]
        which = which.model_copy(update={"rank_from": 1, "rank_to": EVERY})
    compared = vectors if which.queries == "labelled" else {}  # others have no positive
    return plan.add(
        CANDIDATES,
        which,
        part.label,
        run=run,
        pairs=pairs,
        **pick(data, "queries", "corpus", "answers", "qrels"),
        passages=data.get("cut_passages"),
        doc_vectors=compared.get("doc_vectors"),
        query_vectors=compared.get("query_vectors"),
    )["candidates"]


def training_run(part: Part, model: Output, pairs: Output) -> tuple[Output | None, Outputs]:
    """The training queries' run by `mine.run`, None if that is the data's own; and vectors, if any are needed."""
    exp, params, own = part.exp, part.exp.mine, "train"
    vectors: Outputs = {}
    if params.by_model or params.needs_scores:
        vectors = encoded(part, exp.encode.model_copy(update={"splits": ("train",)}), model, own)
    if not params.by_model:
        return (None if params.run == "given" else _model_free(part)), vectors
    asked = vectors
    if params.run == "positive":
        near, corpus = PositiveVectorsParams(positive=params.positive), part.data["corpus"]
        made = part.plan.add(POSITIVE_VECTORS, near, part.name(own), pairs=pairs, corpus=corpus, **vectors)
        asked = {**vectors, "query_vectors": made["positive_vectors"]}
    search = exp.search.model_copy(update={"top_k": params.rank_to})
    return searched(part, search, asked, own)["dense_run"], vectors


def taught(part: Part, model: Output, pairs: Outputs) -> Output:
    """Each training query's list, scored by the experiment's teacher.

    Candidates are the hits of BM25 and of `model`, and the given documents; dev queries get lists to measure by.
    `pairs` may hold a trial, and its queries get no list.
    """
    plan, exp = part.plan, part.exp
    held_out = exp.encode.splits if "dev" in exp.encode.splits else (*exp.encode.splits, "dev")
    vectors = {
        name: encoded(part, exp.encode.model_copy(update={"splits": splits}), model, name)
        for name, splits in (("train", ("train",)), ("held_out", held_out))
    }
    engine = Bm25IndexParams(engine="bm25s")
    lexical = plan.add(BM25_INDEX, engine, part.name("for_pairs"), corpus=part.data["corpus"])
    offered: dict[str, Output | Outputs] = {
        "doc_vectors": vectors["held_out"]["doc_vectors"],
        "query_vectors": {split: made["query_vectors"] for split, made in vectors.items()},
        **pairs,
        **lexical,
        **part.texts,
    }

    def scored(teacher: Teacher) -> Outputs:
        stage = stage_named(teacher.stage)
        if "ranker" in stage.reads:
            offered["ranker"] = plan.add(INIT_RANKER, exp.ranker.init, part.label)["ranker"]
        given = {name: offered[name] for name in stage.reads if name in offered}
        return plan.add(stage, teacher, part.name(teacher.kind), **given)

    if isinstance(exp.teacher, FileTeacher):
        imported = scored(exp.teacher)
        offered["pool"] = pool = imported["candidate_pool"]
        scores = {"file": imported["teacher_scores"]}
    else:
        offered["pool"] = pool = _pool(part, vectors, lexical, pairs)
        teachers = enumerate(exp.teacher.teachers())
        scores = {str(number): scored(teacher)["teacher_scores"] for number, teacher in teachers}
    student, qrels = scored(BiEncoderTeacher())["teacher_scores"], part.data["qrels"]
    chosen = plan.add(CHOOSE_LISTS, exp.lists, part.label, pool=pool, scores=scores, student=student, qrels=qrels)
    return chosen["teacher_scores"]


def _pool(part: Part, vectors: Mapping[str, Outputs], lexical: Outputs, pairs: Outputs) -> Output:
    """The documents that a teacher reads."""
    plan, exp, queries = part.plan, part.exp, part.data["queries"]
    depth = {"top_k": exp.pool.depth}
    by_words = exp.bm25.model_copy(update={"splits": ("train", "dev"), **depth})
    runs = {"bm25": plan.add(BM25, by_words, part.name("taught"), queries=queries, **lexical)["bm25_run"]}
    for split, made in vectors.items():
        runs[split] = searched(part, exp.search.model_copy(update=depth), made, f"taught_{split}")["dense_run"]
    return plan.add(POOL_CANDIDATES, exp.pool, part.label, run=runs, queries=queries, **pairs)["candidate_pool"]


def _judged(judge: Judge, part: Part, model: Output, pairs: Output, found: Output) -> Outputs:
    """A judge's verdicts on the candidates; its model is the one that mines.

    Raises:
        ConfigError: If it reads an input that only a method makes.
    """
    stage = next(stage for stage in known_stages().values() if stage.params is type(judge))
    offered = {"model": model, "pairs": pairs, "candidates": found, "qrels": part.data["qrels"], **part.texts}
    if missing := [name for name, read in stage.reads.items() if not read.optional and name not in offered]:
        raise ConfigError("methods.judge_lacks_input", judge=judge.kind, missing=missing[0])
    return part.plan.add(stage, judge, part.label, **{name: offered[name] for name in stage.reads if name in offered})


def _model_free(part: Part) -> Output:
    """The training queries' run by BM25, or at random."""
    plan, exp, depth = part.plan, part.exp, part.exp.mine.rank_to
    if exp.mine.run == "random":
        return plan.add(RANDOM_RUN, RandomRunParams(top_k=depth), part.label, **part.texts)["random_run"]
    lexical = plan.add(BM25_INDEX, exp.bm25_index, part.label, corpus=part.data["corpus"])
    params = exp.lexical_search.model_copy(update={"splits": ("train",), "top_k": depth})
    return plan.add(BM25, params, part.name("train"), queries=part.data["queries"], **lexical)["bm25_run"]
