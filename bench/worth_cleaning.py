"""Would repairing all wrong pairs help?  What more wrong pairs cost, extrapolated to none, beside the truth.

    python -m bench.worth_cleaning --data ../shared/data --home .worth      # writes benchmarks/worth_cleaning.json

The plan, written before any result was seen; the truths of these sets had been published, and WORTH knows them.

Sets: those of bench.method_table with a truth, which is all but pydocs as it is.  A tenth of the training queries is
held out, with labels as wrong as the others.  Static model, settings of that table.
Added pairs: the made-up kind that fits the detector's scores best, without labels (`best_fit`).  The detector is the
protocol's, without MiniLM, which saves most of the time.  Each made-up kind has a corruption of its own (KINDS);
uniform where that one cannot be put in.  10, 20 and 30 % of the pairs are drawn, spoilt, and added to all pairs, each
share holding the one before.  So the right pairs stay, and the number of wrong ones is the only thing that changes.
Extrapolation: nDCG@10 of each query and seed is linear in the added share x, by least squares, with slope b.  Leaving
out a share r of wrong pairs is x = -r, so the gain is -b r.  Of the held-out queries a share r has a wrong label, which
no model finds, so their slope is divided by 1 - r.
Interval: b by crossed_t_test over queries and seeds, r by 50 random pairs (`rate_from_judgements`), and the harm of
a wrong pair of the set by that of an added one, taken as 1 with a deviation of _OF_KIND; variances of the product add.
Decision: clean where the gain is at least WORTH.  Half of the error that is allowed; few published truths lie near it.
Truth: training without any wrong pair less training on all, same seeds, on the test, in which all labels are right.
Arms: `held out` is what a user has.  `right labels` takes the slope on the test itself, the best case of a user with a
right dev set: it shares its queries with the truth.  `always 0` says that nothing helps, without any training.
Shipped only if the arm `held out` holds the truth in 90 % of its intervals, errs by at most .01 on average, and decides
right on all but two sets.
"""

import argparse
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from bench.labelled_sets import write_folder
from bench.method_table import SETS
from bench.real_noise_training import MEASURE, SMALL, Bench, arguments
from bench.tables import record
from noisyir.app.runs import Execution, Outcome, run_experiment
from noisyir.base.errors import DataError
from noisyir.detection.rate import best_fit, rate_from_judgements
from noisyir.detection.settings import Null
from noisyir.detection.verdicts import nulls_in
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Observer
from noisyir.engine.store import Store
from noisyir.engine.tables import pair_ids
from noisyir.evaluation.significance import crossed_t_test
from noisyir.methods.experiments import from_settings
from noisyir.methods.plans.audit import audit_pairs
from noisyir.models.bi_encoder import BiEncoder, initial_bi_encoder, load_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.text_tokenizer import Tokens, passage_text
from noisyir.models.weights import locate_weights
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.flags import last_estimate
from noisyir.training.learner import Contrastive
from noisyir.training.run import TrainingContext
from noisyir.training.validation import embed_all

Array = np.ndarray
Pair = tuple[str, str]
KINDS: dict[Null, str] = {
    "random": "uniform", "near": "neighbour", "lexical": "confusable", "source": "same_source"
}  # fmt: skip
WITH_TRUTH = {name: command for name, (_, command) in SETS.items() if name != "pydocs"}
ADDED = (0.0, 0.1, 0.2, 0.3)
DETECTOR = {"ensemble": {"kind": "ensemble", "encoder": {"backbone": "static"}}}
WORTH, JUDGED, DEPTH = 0.005, 50, 10
_OF_KIND = 0.5  # deviation of the harm of a set's own wrong pair by that of an added one
_HELD, _MOST_WRONG = 0.1, 0.9  # share of queries held out; the largest rate that a slope is divided for
HEADINGS = ["set", "wrong", "kind added", "arm", "gain foreseen", "95 %", "true gain", "error", "held", "decided right"]


class Noisy(NamedTuple):
    """A set as its owner has it, what fits its wrong pairs, and the truth, which only the bench reads."""

    documents: Mapping[str, str]
    queries: Mapping[str, str]
    train: Sequence[Pair]
    test: Sequence[Pair]
    sources: Mapping[str, str]
    wrong: Array
    kind: str


def noisy(name: str, command: str, data: Path, home: Path) -> Noisy:
    """The set with its noise, and the made-up kind that fits best."""
    bench = Bench(arguments(command.format(data=data).split()), home / name)
    noise = {"noise": {"kind": bench.asked.mechanism, "rate": bench.rate}} if bench.rate else {}
    found = _Tables({"data": bench.data(), **noise}, "detect", home / name)
    pairs = found.of("noisy_pairs" if noise else "pairs")
    train = list(pair_ids(pairs.filter(pc.equal(pairs["split"], "train"))))
    if noise:
        truth = found.of("noise_truth")
        wrong = dict(zip(pair_ids(truth), truth["is_noisy"].to_pylist(), strict=True))
    else:
        assert bench.labelled is not None and bench.labelled.is_right is not None
        wrong = {pair: not right for pair, right in zip(bench.labelled.train, bench.labelled.is_right, strict=True)}
    corpus, queries, qrels = (found.of(artifact) for artifact in ("corpus", "queries", "qrels"))
    texts = map(passage_text, corpus["title"].to_pylist(), corpus["text"].to_pylist())
    tested = queries.filter(pc.equal(queries["split"], "test"))["query_id"]
    right = qrels.filter(pc.and_(pc.is_in(qrels["query_id"], tested), pc.greater(qrels["relevance"], 0)))
    return Noisy(
        dict(zip(corpus["doc_id"].to_pylist(), texts, strict=True)),
        dict(zip(queries["query_id"].to_pylist(), queries["text"].to_pylist(), strict=True)),
        train,
        list(pair_ids(right)),
        bench.labelled.sources if bench.labelled else {},
        np.array([wrong[pair] for pair in train]),
        KINDS[best_fit(nulls_in(last_estimate(found.of("noise_estimate"))))],
    )


class _Tables:
    """Tables of a run of the audit's stages."""

    def __init__(self, settings: dict[str, Any], to: str, home: Path) -> None:
        self.store = Store(home / "store", home=home)
        execution = Execution(store=self.store, runtime=Runtime(threads=1), observer=Observer())
        exp = from_settings({"name": "worth", "detectors": DETECTOR, **settings}, [])
        self.outcome: Outcome = run_experiment(exp, Choice(to=to), execution, pipeline=audit_pairs)

    def of(self, artifact: str) -> pa.Table:
        """The last stage's that writes it: what is corrupted stands for what it was."""
        *_, meta = (one.meta for one in self.outcome.results.values() if artifact in one.meta.artifacts)
        return self.store.builds.table(meta.ref(artifact))


def added(given: Noisy, kind: str, seed: int, home: Path) -> list[Pair]:
    """Wrong pairs of a kind, as many as the largest share, in random order."""
    folder = home / "given"
    documents = (
        {"_id": name, "text": text, "metadata": {"source": given.sources.get(name)}}
        for name, text in given.documents.items()
    )
    asked = dict.fromkeys(query for query, _ in [*given.train, *given.test])
    queries = ({"_id": name, "text": given.queries[name]} for name in asked)
    write_folder(folder, documents, queries, {"train": given.train, "test": given.test})
    data = {"kind": "beir", "path": str(folder), "on_empty": "exclude"}
    noise = {"kind": kind, "rate": ADDED[-1]}
    truth = _Tables({"data": data, "noise": noise, "seed": seed}, "corrupt", home).of("noise_truth")
    pairs = list(pair_ids(truth.filter(truth["is_noisy"])))
    return [pairs[row] for row in np.random.default_rng(seed).permutation(len(pairs))]


class Trainer:
    """Trains on pairs of one set, and ranks all of its documents for its queries."""

    def __init__(self, given: Noisy, home: Path) -> None:
        self.given, self.start = given, home / "start"
        initial_bi_encoder(locate_weights("minilm"), InitModelParams()).save(self.start)
        encoder = load_bi_encoder(self.start, "cpu")
        self.row = {name: place for place, name in enumerate(given.documents)}
        self.passages = encoder.tokenize(list(given.documents.values()), "passage")
        self.params = from_settings({"name": "worth", "train": SMALL}, []).train

    def values(self, pairs: Sequence[Pair], seed: int, *tests: Sequence[Pair]) -> list[Array]:
        """nDCG@10 of each query of each test, of one training."""
        encoder = load_bi_encoder(self.start, "cpu")

        def rng(*purpose: object) -> np.random.Generator:
            return np.random.default_rng([seed, *map(ord, "/".join(map(str, purpose)))])

        with tempfile.TemporaryDirectory() as work:
            context = TrainingContext(
                rng=rng, work=Path(work), checkpoint_seconds=1e6, progress=lambda *_: None, metric=lambda *_: None
            )
            train(encoder, self._tokenised(encoder, pairs), None, self.params, Contrastive(), context)
        documents = embed_all(encoder.eval(), self.passages, "passage")
        return [self._ndcg(encoder, documents, test) for test in tests]

    def _tokenised(self, encoder: BiEncoder, pairs: Sequence[Pair]) -> TrainingPairs:
        texts = {text: place for place, text in enumerate(dict.fromkeys(self.given.queries[q] for q, _ in pairs))}
        query = np.array([texts[self.given.queries[name]] for name, _ in pairs])
        passage = np.array([self.row[name] for _, name in pairs])
        known = np.unique(np.stack([query, passage], axis=1), axis=0)
        none = Ragged(np.zeros(len(texts) + 1, np.int64), np.empty(0, np.int64))
        queries: Tokens = encoder.tokenize(list(texts), "query")
        return TrainingPairs(
            queries=queries, passages=self.passages, query=query, passage=passage, text=np.arange(len(texts)),
            known=Ragged.grouped(known[:, 0], known[:, 1], len(texts)), negatives=none,
        )  # fmt: skip

    def _ndcg(self, encoder: BiEncoder, documents: torch.Tensor, test: Sequence[Pair]) -> Array:
        relevant: dict[str, set[int]] = {}
        for query, document in test:
            relevant.setdefault(query, set()).add(self.row[document])
        tokens = encoder.tokenize([self.given.queries[query] for query in relevant], "query")
        tops = torch.topk(embed_all(encoder, tokens, "query") @ documents.T, DEPTH, dim=1).indices.tolist()
        discounts = 1 / np.log2(2 + np.arange(DEPTH))
        return np.array([
            discounts[[document in right for document in top]].sum() / discounts[: len(right)].sum()
            for top, right in zip(tops, relevant.values(), strict=True)
        ])  # fmt: skip


class Measured(NamedTuple):
    """(share added, query, seed) of held-out queries and of the test; (query, seed) of the test without wrong pairs."""

    held: Array
    test: Array
    true: Array
    wrong: Array
    kind: Array


def measured(name: str, command: str, data: Path, home: Path, seeds: int) -> Measured:
    """All trainings of a set, from the folder where they were made once."""
    path = home / f"{name}.npz"
    if not path.exists():
        (home / name).mkdir(parents=True, exist_ok=True)
        np.savez_compressed(path, **_measured(noisy(name, command, data, home), home / name, seeds)._asdict())
    with np.load(path) as found:
        return Measured(**found)


def _measured(given: Noisy, home: Path, seeds: int) -> Measured:
    asked = sorted({query for query, _ in given.train})
    out = set(np.random.default_rng(0).permutation(asked)[: round(_HELD * len(asked))].tolist())
    held = [pair for pair in given.train if pair[0] in out]
    kept = [pair for pair in given.train if pair[0] not in out]
    right = [pair for pair, wrong in zip(given.train, given.wrong, strict=True) if not wrong and pair[0] not in out]
    trainer, kind, found = Trainer(given, home), given.kind, []
    for seed in range(seeds):
        try:
            more = added(given, kind, seed, home)
        except DataError:
            kind = "uniform"
            more = added(given, kind, seed, home)
        more = [pair for pair in more if pair[0] not in out and pair not in set(kept)]
        shares = [[*kept, *more[: round(share / ADDED[-1] * len(more))]] for share in ADDED]
        runs = [trainer.values(pairs, seed, held, given.test) for pairs in shares]
        runs.append([np.empty(0), trainer.values(right, seed, given.test)[0]])
        found.append(runs)
        print(f"  seed {seed}: {len(kept):,} pairs, {len(more):,} {kind} to add", flush=True)
    sides = [np.array([[runs[place][side] for runs in found] for place in range(len(ADDED))]) for side in (0, 1)]
    true = np.array([runs[-1][1] for runs in found]).T
    return Measured(*(side.transpose(0, 2, 1) for side in sides), true, given.wrong, np.array(kind))


class Foreseen(NamedTuple):
    gain: float
    half: float

    @property
    def low(self) -> float:
        return self.gain - self.half

    @property
    def high(self) -> float:
        return self.gain + self.half


def foreseen(values: Array, wrong: Array, *, right_labels: bool) -> Foreseen:
    """The gain without wrong pairs, by values of (share added, query, seed) and 50 judgements of pairs."""
    share = np.array(ADDED) - np.mean(ADDED)
    slope = crossed_t_test(np.tensordot(share / (share @ share), values, axes=1))
    sample = np.random.default_rng(0).choice(len(wrong), min(JUDGED, len(wrong)), replace=False)
    rate, low, high = rate_from_judgements(wrong[sample], np.zeros(len(sample), int), np.array([len(wrong)]))

    def removed(rate: float) -> float:
        return rate if right_labels else rate / (1 - min(rate, _MOST_WRONG))

    by_slope = removed(rate) * (slope.high - slope.low) / 2
    by_rate = slope.mean * (removed(high) - removed(low)) / 2
    by_kind = 1.96 * _OF_KIND * slope.mean * removed(rate)
    return Foreseen(-slope.mean * removed(rate), float(np.sqrt(by_slope**2 + by_rate**2 + by_kind**2)))


def rows_of(name: str, found: Measured) -> list[list[str]]:
    """A row for each arm."""
    gain = float((found.true - found.test[0]).mean())
    arms = {
        "held out": foreseen(found.held, found.wrong, right_labels=False),
        "right labels": foreseen(found.test, found.wrong, right_labels=True),
        "always 0": Foreseen(0.0, 0.0),
    }
    rows = []
    for arm, said in arms.items():
        told = "" if arm == "always 0" else f"[{said.low:+.4f}, {said.high:+.4f}]"
        held = "" if arm == "always 0" else _yes(said.low <= gain <= said.high)
        decided = _yes((said.gain >= WORTH) == (gain >= WORTH))
        rows.append([name, f"{found.wrong.mean():.0%}", str(found.kind), arm, f"{said.gain:+.4f}", told, f"{gain:+.4f}",
                     f"{abs(said.gain - gain):.4f}", held, decided])  # fmt: skip
    return rows


def totals(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """What the must-holds ask, for each arm over all sets."""
    found = []
    for arm in dict.fromkeys(row[3] for row in rows):
        mine = [row for row in rows if row[3] == arm]
        held, decided = (sum(row[place] == "yes" for row in mine) for place in (8, 9))
        error = np.mean([float(row[7]) for row in mine])
        shown = f"{held} of {len(mine)}" if any(row[8] for row in mine) else ""
        found.append(["all", "", "", arm, "", "", "", f"{error:.4f}", shown, f"{decided} of {len(mine)}"])
    return found


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="the folder of the data sets")
    parser.add_argument("--home", type=Path, default=Path(".worth"), help="where values are kept")
    parser.add_argument("--sets", nargs="+", choices=WITH_TRUTH, default=list(WITH_TRUTH))
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[list[str]] = []
    claim = f"What leaving out all wrong pairs brings in {MEASURE}, foreseen from what more wrong pairs cost."
    for name in given.sets:
        print(name, flush=True)
        found = measured(name, WITH_TRUTH[name], given.data.resolve(), given.home.resolve(), given.seeds)
        mine = rows_of(name, found)
        rows += mine
        print("\n".join(" | ".join(row) for row in [*mine, *totals(rows)]), flush=True)
        record("worth_cleaning", [HEADINGS, *totals(rows), *rows], left=4, claim=claim, seeds=given.seeds)


if __name__ == "__main__":
    main()
