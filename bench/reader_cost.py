"""What training a reader by contrastive distant supervision costs an instance, beside DS-All: step by step in turn.

    python bench/reader_cost.py --squad ../shared/data/squad

Both read the same questions in the same order.  A question's passages are the paragraphs of its article that hold the
answer, 20 at most; confusing ones are drawn from the article's others.  Questions with one instance have nothing to
contrast and cost the same; --several leaves them out.
"""

import argparse
import statistics
import time
from itertools import islice

import numpy as np
import pyarrow as pa
import torch

from bench.records_by_kind import RecordsByKind
from noisyir.data.formats.squad import Squad
from noisyir.models.weights import locate_weights
from noisyir.readers.answer_spans import places
from noisyir.readers.instances import Instances, training_instances
from noisyir.readers.learning import ReaderLearner
from noisyir.readers.model import initial_reader
from noisyir.readers.settings import InitReaderParams, TrainReaderParams

_PASSAGES, _CONFUSING = 20, 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", required=True, help="folder of SQuAD v1.1")
    parser.add_argument("--questions", type=int, default=400, help="of the first articles")
    parser.add_argument("--several", action="store_true", help="only questions with several instances")
    parser.add_argument("--turns", type=int, default=7, help="steps timed of each, after one that is not")
    parser.add_argument("--batch-size", type=int, default=16, help="questions a step")
    parser.add_argument("--layers", type=int, default=2, help="of MiniLM")
    parser.add_argument("--share", type=float, default=0.4, help="confusing passages per passage with an instance")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall", help="cpu: where others use the machine")
    asked = parser.parse_args()
    common = {"batch_size": asked.batch_size, "precision": asked.precision, "confusing_share": asked.share}
    methods = {name: TrainReaderParams(objective=name, **common) for name in ("ds_all", "cds")}
    learners = {}
    for name, params in methods.items():
        reader, _ = initial_reader(locate_weights("minilm"), InitReaderParams(layers=asked.layers, max_len=256), seed=0)
        instances = read_instances(asked, reader.tokenizer)
        learners[name] = ReaderLearner(reader, instances, params, _rng)
    for learner in learners.values():
        learner.step()
    ratios, total = [], dict.fromkeys(learners, 0.0)
    for turn in range(asked.turns):
        seconds = {name: _seconds(learner, asked.clock) for name, learner in learners.items()}
        ratios.append(seconds["cds"] / seconds["ds_all"])
        total = {name: total[name] + value for name, value in seconds.items()}
        each = ", ".join(f"{name} {value:.2f} s" for name, value in seconds.items())
        print(f"step {turn + 2}: {each}, {ratios[-1]:.2f}x", flush=True)
    count, windows = len(instances), len(instances.window_question)
    print(f"\n{len(instances.questions)} questions, {count} instances in {windows} windows")
    print(f"{torch.get_num_threads()} threads, {asked.precision}, {asked.layers} layers")
    print(f"cds / ds_all: {total['cds'] / total['ds_all']:.2f}x of all steps")
    print(f"of single steps: {statistics.median(ratios):.2f}x (median), {min(ratios):.2f} to {max(ratios):.2f}")


def read_instances(asked: argparse.Namespace, tokenizer: object) -> Instances:
    """Labelled spans of the first questions."""
    squad, rng = RecordsByKind(Squad(path=asked.squad).open()), np.random.default_rng(0)
    documents = list(squad.documents())
    texts, articles = {one.doc_id: one.text for one in documents}, {}
    for one in documents:
        articles.setdefault(one.title, []).append(one.doc_id)
    article = {one.query_id: articles[one.source.replace("_", " ")] for one in squad.judgements}
    spans, queries, confusing = [], [], []
    for query in squad.queries:
        if len(queries) == asked.questions:
            break
        found = {doc_id: places(texts[doc_id], query.answers) for doc_id in article[query.query_id]}
        right = list(islice((doc_id for doc_id, there in found.items() if there), _PASSAGES))
        if asked.several and sum(len(found[doc_id]) for doc_id in right) < 2:
            continue
        queries.append((query.query_id, query.text))
        spans += [(query.query_id, doc_id, *place, 1.0) for doc_id in right for place in found[doc_id]]
        wrong = sorted(set(found) - set(right))
        for doc_id in right:
            some = rng.choice(wrong, min(_CONFUSING, len(wrong)), replace=False) if wrong else []
            confusing += [(query.query_id, doc_id, str(other)) for other in some]
    named = {row[1] for row in spans} | {row[2] for row in confusing}
    return training_instances(
        tokenizer,
        _table("query_id doc_id start end score", spans),
        _table("query_id text", queries),
        {doc_id: texts[doc_id] for doc_id in named},
        _table("query_id doc_id confusing", confusing),
    )[0]


def _table(names: str, rows: list[tuple[object, ...]]) -> pa.Table:
    return pa.table(dict(zip(names.split(), map(pa.array, zip(*rows, strict=True)), strict=True)))


def _seconds(learner: ReaderLearner, clock: str) -> float:
    now = time.perf_counter if clock == "wall" else time.process_time
    began = now()
    learner.step()
    return now() - began


def _rng(*purpose: object) -> np.random.Generator:
    return np.random.default_rng(list(map(ord, "/".join(map(str, purpose)))))


if __name__ == "__main__":
    main()
