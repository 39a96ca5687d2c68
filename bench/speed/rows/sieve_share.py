"""The sieve's share of a round of AR2, at the paper's proportions.

448 lists of 16 for the ranker, 1,360 for the retriever; a ranker of six layers and a retriever of two, on 225
documents with up to four queries each.  Both are processor times of one run: the sieve's training and verdicts, and all
stages of the round.
"""

import json
from typing import Any

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_ROUND = {"encode", "index", "search", "candidates", "sieve", "mine", "train_ar2"}
_QUERIES_A_PASSAGE = 4
_SETTINGS = (
    "methods=[ar2]", "compare.baseline=bm25", "ar2.rounds=1", "ar2.n=15", "mine.judges=[sieve]",
    "ranker.init.layers=6", "ranker.warm_up.max_steps=2", "ar2.ranker_steps=28",
    "ar2.retriever_steps=85",
)  # fmt: skip


class SieveShare(Row):
    lines = (
        Line(
            "the sieve in a round of AR2", "ar2", "ar2", "the whole round; the paper says 0.10", at_most=0.10,
            quantity="sieve_cpu", of="round_cpu",
        ),
    )  # fmt: skip
    size = 225
    turns = 1  # of eight minutes on one core; both numbers are of one process
    takes_minutes = True

    def prepare(self, work: Work) -> None:
        texts = Texts.read(work.texts)
        lines: dict[int, list[dict[str, str]]] = {}
        for split, pairs in (("train", texts.pairs), ("dev", texts.judged)):
            for query, row in pairs:
                line = {"query": texts.queries[query], "document": texts.passages[row], "split": split}
                if row < work.size and len(lines.setdefault(row, [])) < _QUERIES_A_PASSAGE:
                    lines[row].append(line)
        with (work.folder / "pairs.jsonl").open("w") as out:
            out.writelines(json.dumps(line) + "\n" for found in lines.values() for line in found)

    def ar2(self, work: Work) -> Taken:
        from bench.speed.stages import build
        from noisyir.engine.plan import Plan
        from noisyir.engine.store import Store
        from noisyir.methods.experiments import load
        from noisyir.methods.plans.planning import pipeline_of

        data = f"data={{kind: pairs, path: {work.folder / 'pairs.jsonl'}}}"
        plan = pipeline_of(load("ar2_small", [data, *_SETTINGS]))
        (last,) = (step for step in plan.steps if step.stage.name == "train_ar2")
        steps = _needed(plan, last)
        folder = work.folder / "store"
        with Stopwatch() as watch:
            _, seconds = build(Plan(plan.seed, steps), Store(folder, home=work.folder), {s.stage.name for s in steps})
        of_round = sum(seconds[name] for name in _ROUND)
        return watch.taken(sieve_cpu=seconds["sieve"], round_cpu=of_round, stages=seconds)


def _needed(plan: Any, last: Any) -> list[Any]:
    """A step and all that it stands on, in the plan's order."""
    needed = {last.name}
    for step in reversed(plan.steps):
        if step.name in needed:
            needed |= {output.step for output in step.outputs_needed()}
    return [step for step in plan.steps if step.name in needed]
