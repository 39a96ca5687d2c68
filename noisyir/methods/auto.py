"""auto: tries methods side by side, and held-out pairs choose one (stages hold_out and choose_model)."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, PositiveInt, model_validator

from noisyir.base.errors import DataError
from noisyir.data.artifacts import CORPUS, NOISY_PAIRS, QRELS, QUERIES
from noisyir.engine.meta import Meta
from noisyir.engine.stage import Job, Output, Outputs, Stage
from noisyir.engine.store import Store
from noisyir.evaluation.artifacts import TRIALS
from noisyir.evaluation.comparison import choose
from noisyir.evaluation.pages.summary import told_trials
from noisyir.methods.plans.method import Method
from noisyir.methods.plans.searching import states_behind
from noisyir.models.artifacts import LOWER_STATES, MODEL
from noisyir.training.artifacts import CURVES, TRIAL
from noisyir.training.settings import ChooseModelParams, HoldOutFoldParams, HoldOutParams

if TYPE_CHECKING:
    from noisyir.methods.plans.context import Context


PLAIN = "dpr"
"""The method chosen unless another is better; all are compared with it."""
Candidate = Literal[
    "reweight", "drop", "relabel", "reweight_relabel", "npc", "npc_flags", "npc_relabel",
    "distill", "distill_contrast",
]  # fmt: skip


def choose_model(job: Job[ChooseModelParams]) -> None:
    """Rank the held-out queries by every trial's model; write the trials, and the chosen method's model and curves."""
    trials: dict[str, list[np.ndarray]] = {}
    for label, values in _gains(job).items():
        trials.setdefault(label.partition(":")[0], []).append(values)
    own = any(trial.num_rows for trial in job.tables("held").values())  # queries of a trial, not the dev queries
    rows = choose(trials, PLAIN, job.params.alpha, same_queries=not own)
    (chosen,) = (row["method"] for row in rows if row["chosen"])
    job.write("trials", pa.Table.from_pylist(rows, schema=TRIALS.schema))
    job.note("chosen", chosen)
    shutil.copytree(job.store.builds.folder(job.refs("models")[chosen]), job.new_folder("model"), dirs_exist_ok=True)
    job.write("curves", job.tables("curves")[chosen])


def _gains(job: Job[ChooseModelParams]) -> "dict[str, np.ndarray]":
    """nDCG@10 of each held-out query under each trial's model."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.training.stages.inputs import held_out, held_relevance, searched_documents
    from noisyir.training.validation import dev_ranks, discounted_gains, reciprocal

    torch.set_num_threads(job.runtime.cpu_threads)
    found, models, documents = {}, job.refs("trials"), None
    asked = {number: held_relevance(job, trial) for number, trial in job.tables("held").items()}
    for number, relevance in asked.items():
        held = None
        for label in (label for label in models if label.partition(":")[2] == number):
            encoder = load_bi_encoder(job.store.builds.folder(models[label]), job.runtime.device)
            if job.has("states"):
                encoder.read_kept(job.folder("states"))
            if documents is None:
                documents = searched_documents(job, encoder, pa.concat_tables(asked.values())["doc_id"])
            held = held or held_out(job, encoder, relevance, documents)
            assert held is not None
            found[label] = discounted_gains(reciprocal(dev_ranks(encoder, held)).cpu().numpy())
            job.progress(len(found), len(models), "models")
    return found


def _story(meta: Meta, store: Store) -> Iterator[str]:
    """The methods tried, their differences to plain training, and the choice."""
    yield from told_trials(store.builds.table(meta.ref("trials")))


CHOOSE_MODEL = Stage(
    name="choose_model",
    version=5,
    params=ChooseModelParams,
    reads={
        "models": MODEL.all().each(),
        "curves": CURVES.all().each(),
        "trials": MODEL.all().each(),
        "queries": QUERIES["query_id", "text", "split"],
        "corpus": CORPUS["doc_id", "title", "text"],
        "qrels": QRELS["query_id", "doc_id", "relevance"],
        "held": TRIAL.all().each(),
        "states": LOWER_STATES.all().or_none(),
    },
    writes={"model": MODEL, "curves": CURVES, "trials": TRIALS},
    run=choose_model,
    seeded=True,
    pool="gpu",
    story=_story,
)


def hold_out(job: Job[HoldOutFoldParams]) -> None:
    """Write the pairs of a share of the training queries, equal texts together; folds are disjoint.

    It writes none if dev queries are judged and `by_dev` is set.
    """
    queries, qrels, pairs = job.table("queries"), job.table("qrels"), job.table("pairs")
    qrels = qrels.filter(pc.greater(qrels["relevance"], 0))
    dev = queries.filter(pc.equal(queries["split"], "dev"))
    if job.params.by_dev and pc.any(pc.is_in(qrels["query_id"], value_set=dev["query_id"])).as_py():
        job.write("trial", TRIAL.schema.empty_table())
        return
    pairs = pairs.filter(pc.equal(pairs["split"], "train"))
    training = queries.filter(pc.is_in(queries["query_id"], value_set=pairs["query_id"]))
    texts = training["text"].unique()
    start, end = (round(fold * job.params.share * len(texts)) for fold in (job.params.fold, job.params.fold + 1))
    count = min(end - start, job.params.most)
    if count < 2 or count == len(texts):
        raise DataError("methods.too_few_held_out", share=job.params.share, texts=len(texts))
    drawn = texts.take(np.sort(job.rng("queries").permutation(len(texts))[start : start + count]))
    kept = training.filter(pc.is_in(training["text"], value_set=drawn))["query_id"]
    held = pairs.filter(pc.is_in(pairs["query_id"], value_set=kept)).select(["query_id", "doc_id"])
    job.note("held_out_queries", len(kept))
    job.write("trial", pa.table(held))


HOLD_OUT = Stage(
    name="hold_out",
    version=2,
    params=HoldOutFoldParams,
    reads={
        "pairs": NOISY_PAIRS["query_id", "doc_id", "split"],
        "queries": QUERIES["query_id", "text", "split"],
        "qrels": QRELS["query_id", "relevance"],
    },
    writes={"trial": TRIAL},
    run=hold_out,
    seeded=True,
)


class Auto(Method, kind="auto"):
    """The method that held-out queries prefer significantly, else plain training, trained on all pairs.

    Each is trained under several seeds and judged on the data's own dev queries; if there are none, or they were drawn
    from the same pairs, on training queries that are held out, other ones under each seed.
    """

    version: ClassVar[int] = 4
    candidates: tuple[Candidate, ...] = Field(
        ("reweight", "reweight_relabel"), min_length=1, description="methods tried next to plain training"
    )
    seeds: PositiveInt = Field(5, description="trainings of each method that are compared")
    hold_out: HoldOutParams = HoldOutParams()
    choose: ChooseModelParams = ChooseModelParams()

    @model_validator(mode="after")
    def _candidates_differ(self) -> Self:
        if len(set(self.candidates)) < len(self.candidates):
            raise ValueError(f"candidates={list(self.candidates)} names one of them twice")
        self._fold(self.seeds - 1)
        return self

    def _fold(self, number: int, **more: bool) -> HoldOutFoldParams:
        return HoldOutFoldParams(**self.hold_out.model_dump(exclude_unset=True), fold=number, **more)

    def train(self, context: "Context") -> Outputs:
        """Train every candidate on all pairs, and under each seed without the held-out queries; choose."""
        plan, names, trusting = context.plan, (PLAIN, *self.candidates), _trusting(context)
        final = {name: Method.parse(name).train(trusting) for name in names}
        texts, pairs = {name: context.data[name] for name in ("queries", "qrels")}, context.noisy["noisy_pairs"]
        drawn = context.exp.data.hold_out
        by_dev = {"by_dev": False} if drawn and drawn.dev else {}  # all training queries say more than a tenth of them
        trials: dict[str, Output] = {}
        held: dict[str, Output] = {}
        for number in range(self.seeds):
            label, fold = context.name(f"trial{number}"), self._fold(number, **by_dev)
            trial = held[str(number)] = plan.add(HOLD_OUT, fold, label, pairs=pairs, **texts)["trial"]
            on_trial = replace(trusting, label=label, judged={}, trial=trial, training_seed=plan.seed + number)
            trials |= {f"{name}:{number}": Method.parse(name).train(on_trial)["model"] for name in names}
        states = states_behind(plan, final[PLAIN]["model"])
        chosen = plan.add(
            CHOOSE_MODEL,
            self.choose,
            context.label,
            models={name: trained["model"] for name, trained in final.items()},
            curves={name: trained["curves"] for name, trained in final.items()},
            trials=trials,
            held=held,
            corpus=context.data["corpus"],
            **texts,
            **({"states": states} if states else {}),
        )
        context.tried = chosen["trials"]
        return {"model": chosen["model"], "curves": chosen["curves"]}


def _trusting(context: "Context") -> "Context":
    """The context with detections that assume the best-fitting null pairs, because held-out queries decide.

    Its steps have labels of their own, because other methods assume nothing.
    """
    detect = context.exp.detect
    if detect.assume:
        return context
    exp = context.exp.model_copy(update={"detect": detect.model_copy(update={"assume": "best"})})
    return replace(context, exp=exp, label=context.name("auto"))
