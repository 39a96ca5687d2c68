"""What tells right labels from wrong ones: BM25, or the reader that CDS has trained, or both?

    python bench/reader_signals.py squad_cds experiment.data.path=../shared/data/squad ...

Give the suite and the settings of a `noisyir bench noise` that has run.  Each of its CDS readers that is in the store
reads the instances that it was trained on once more, with all instances of a question.  Signals of an instance:

bm25         of its passage for the question: where the confidences start (Eq. 8)
probability  of its span among those of its passage: what moves them (Eq. 10 to 14)
logits       of its span's start and end, which no passage normalises
similarity   of the question's and the span's vectors, which the debias loss trains (Eq. 5)

Each is scored by AUROC within questions, as the confidences are, alone and beside BM25: the sum of both, each centred
within its question and divided by its standard deviation.  p: of a paired t-test over the questions, against BM25.
"""

import argparse
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from noisyir.base.errors import NoisyirError, StoreError
from noisyir.engine.build_stage import recorded
from noisyir.engine.plan import Plan, resolve
from noisyir.engine.stage import Step
from noisyir.engine.store import Store, open_store
from noisyir.engine.tables import semi_join
from noisyir.evaluation.detection import within_questions
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods import experiments
from noisyir.methods.plans.planning import bench_of
from noisyir.models.at_once import tune_for_training
from noisyir.readers.artifacts import CONFUSING
from noisyir.readers.instances import Instances, training_instances, windows_and_spans
from noisyir.readers.model import load_reader
from noisyir.retrieval.texts import texts_of

_QUESTIONS_AT_ONCE = 8
Signals = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="of the bench that has run")
    parser.add_argument("overrides", nargs="*", help="its settings")
    parser.add_argument("--store", help="of the artifacts")
    asked = parser.parse_args()
    try:
        plan, store = bench_of(experiments.load_suite(asked.suite, asked.overrides)), open_store(asked.store)
        relevant = _relevant(plan, store)
    except NoisyirError as error:
        raise SystemExit(str(error)) from error
    for step in plan.named("train_reader"):
        if step.params.model_dump()["objective"] == "cds":
            try:
                _tell(step.name, *_signals(step, plan, store, relevant))
            except StoreError as error:
                print(f"{step.name}: not in the store ({error})")


def _signals(step: Step, plan: Plan, store: Store, relevant: pa.Table) -> tuple[Signals, np.ndarray, np.ndarray]:
    """The signals, which instances are right, and their questions; of questions whose right passages are known."""
    inputs: dict[str, Any] = dict(resolve(step, plan, store, {}))
    made = store.builds.find("train_reader", step.key, recorded(inputs))
    if made is None:
        raise StoreError("the reader was not trained")
    reader = load_reader(store.builds.folder(made.ref("reader")), "cpu")
    tune_for_training(reader.transformers, reader.device, "bf16")
    tables = {name: store.builds.table(inputs[name]) for name in ("queries", "spans", "corpus")}
    none = CONFUSING.schema.empty_table().select(["query_id", "doc_id", "confusing"])
    passages = texts_of(tables["corpus"].to_batches(), tables["spans"]["doc_id"])
    trained = tables["queries"].filter(pc.equal(tables["queries"]["split"], "train"))
    spans = tables["spans"].filter(_asked_by(tables["spans"], trained))
    instances, kept = training_instances(reader.tokenizer, spans, trained, passages, none)
    signals = {"bm25": instances.score, **_read(reader, instances)}
    known, right = _asked_by(kept, relevant).to_numpy(), semi_join(kept, relevant)
    return {name: values[known] for name, values in signals.items()}, right[known], instances.question[known]


def _asked_by(table: pa.Table, others: pa.Table) -> pa.ChunkedArray:
    return pc.is_in(table["query_id"], value_set=others["query_id"].unique())


def _read(reader: Any, instances: Instances) -> Signals:
    found = {name: np.zeros(len(instances)) for name in ("probability", "logits", "similarity")}
    rng, room = np.random.default_rng(0), reader.tokenizer.room(instances.questions)
    for start in range(0, len(instances.questions), _QUESTIONS_AT_ONCE):
        questions = range(start, min(start + _QUESTIONS_AT_ONCE, len(instances.questions)))
        drawn = [instances.draw(question, None, 0.0, rng) for question in questions]
        rows = np.concatenate([one.instances for one in drawn])
        asked, passages, spans = windows_and_spans(instances, drawn, room)
        with torch.inference_mode():
            reads = reader(asked, passages, spans, bf16=True)
        at = spans.window
        starts, ends = reads.start.log_softmax(1), reads.end.log_softmax(1)
        found["probability"][rows] = (starts[at, spans.first] + ends[at, spans.last]).numpy()
        found["logits"][rows] = (reads.start[at, spans.first] + reads.end[at, spans.last]).numpy()
        found["similarity"][rows] = torch.cosine_similarity(reads.question[at], reads.answer, dim=1).numpy()
    return found


def _tell(name: str, signals: Signals, right: np.ndarray, question: np.ndarray) -> None:
    def auroc(values: np.ndarray) -> np.ndarray:
        return within_questions(values, right, question).auroc

    base, bm25 = auroc(signals["bm25"]), _standard(np.log(signals["bm25"] + 1e-9), question)
    print(f"{name}: {len(right):,} instances, {len(base)} questions with right and wrong ones")
    print(f"  {'signal':<12} {'alone':>6} {'p':>8}   {'with BM25':>9} {'p':>8}")
    for signal, values in signals.items():
        alone, both = auroc(values), auroc(bm25 + _standard(values, question))
        tests = [crossed_t_test((some - base)[:, None]).p_value for some in (alone, both)]
        print(f"  {signal:<12} {alone.mean():6.3f} {tests[0]:8.2g}   {both.mean():9.3f} {tests[1]:8.2g}")


def _standard(values: np.ndarray, question: np.ndarray) -> np.ndarray:
    """Centred within questions, and divided by the standard deviation of what is left."""
    counts = np.bincount(question)
    centred = values - (np.bincount(question, weights=values) / np.maximum(counts, 1))[question]
    return np.asarray(centred / centred.std())


def _relevant(plan: Plan, store: Store) -> pa.Table:
    """The passages that are right.  StoreError when the bench has not run."""
    (given,) = plan.named("gold_run")
    made = store.builds.find(given.stage.name, given.key, recorded(resolve(given, plan, store, {})))
    if made is None:
        raise StoreError("gold_run is not in the store: run the bench first")
    return store.builds.table(made.ref("gold_run"))


if __name__ == "__main__":
    main()
