"""A model judges pairs of a finished audit; its judgements stay apart from people's."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.label_audit import Audited
from noisyir.audits.files import replace_jsonl
from noisyir.audits.model_judges.budget import Budget
from noisyir.audits.model_judges.judge_report import AskedPair, JudgeReport, judge_report
from noisyir.audits.model_judges.judges import Question, QuestionQueue
from noisyir.audits.model_judges.settings import AskParams
from noisyir.base.artifact import BY_PAIR, PAIR_KEY
from noisyir.detection.calibration.queue import Questions, choose_questions, doubt, harm
from noisyir.detection.judgements import HumanJudgement, Pair, given_judgements
from noisyir.engine.runtime import Runtime
from noisyir.engine.tables import pair_ids

MODEL_JUDGEMENTS = "model_judgements.jsonl"
_MEASURED = 1000  # pairs that are measured to learn how many a budget of tokens covers
_Progress = Callable[[int, int, str], None]


def ask(audited: Audited, folder: Path, params: AskParams, runtime: Runtime, progress: _Progress) -> JudgeReport:
    """Ask about pairs of the audit and write `model_judgements.jsonl` into the folder; what came of it.

    The audit, its files and people's judgements stay as they are.
    """
    table, people = audited.table, _people(audited)
    order = pc.sort_indices(table.select(PAIR_KEY), BY_PAIR).to_numpy()  # by ids: draws do not depend on scores
    chosen = _choose(table, order, people, params, audited.exp.seed)
    rows = table.take(order[chosen.rows])
    budget = Budget.parse(params.budget)
    asking = QuestionQueue(_questions(rows), budget, audited.store.home / "judges", runtime, progress)
    answers, spent, judge = params.judge.ask(asking)
    pairs = pair_ids(rows)
    asked = [
        AskedPair(draw, answer, people.get(pair))
        for draw, answer, pair in zip(chosen.draws, answers, pairs, strict=True)
    ]
    replace_jsonl(_records(judge, pairs, asked, table.num_rows), folder / MODEL_JUDGEMENTS)
    return judge_report(judge, table.num_rows, asked, spent, audited.exp.detect.confidence)


def _people(audited: Audited) -> dict[Pair, HumanJudgement]:
    """People's judgements of the pairs, if the audit has any."""
    files = audited.exp.audit.judgement_files if audited.exp.audit else ()
    return {pair: one for pair, one in given_judgements(files).items() if one.verdict != "unclear"}


def _choose(
    table: pa.Table, order: np.ndarray, people: dict[Pair, HumanJudgement], params: AskParams, seed: int
) -> Questions:
    """Places of `order` to ask about: pairs that people judged at random before others that they judged."""
    facts = table.select(["query_id", "doc_id", "p_clean", "suspicion"]).take(order)
    said = [people.get(pair) for pair in pair_ids(facts)]
    ids = (facts[name].combine_chunks() for name in ("query_id", "doc_id"))
    query, document = (column.dictionary_encode().indices.to_numpy() for column in ids)
    p_clean = pc.coalesce(facts["p_clean"], pc.subtract(1.0, facts["suspicion"])).to_numpy().astype(np.float64)
    return choose_questions(
        doubt(p_clean) * harm(query, document),
        np.array([0 if one is None else 1 + (one.weight is not None) for one in said], np.int64),
        _count(table, params),
        random_share=params.random,
        checked_share=params.checked,
        rng=np.random.default_rng(seed),
    )


def _count(table: pa.Table, params: AskParams) -> int:
    """Number of questions that the budget allows, if each is answered at once."""
    budget = Budget.parse(params.budget)
    if budget.unit == "calls":
        return budget.amount
    some = table.take(np.linspace(0, table.num_rows - 1, min(_MEASURED, table.num_rows)).astype(np.int64))
    tokens = np.mean([params.judge.expected_tokens(question) for question in _questions(some)])
    return max(1, int(budget.amount / tokens))


def _questions(rows: pa.Table) -> list[Question]:
    texts = zip(rows["query"].to_pylist(), rows["document"].to_pylist(), strict=True)
    return [Question(query, document) for query, document in texts]


def _records(judge: str, pairs: Sequence[Pair], asked: Sequence[AskedPair], total: int) -> list[dict[str, Any]]:
    """The answers as records, random ones weighted by the inverse of their sampling rate."""
    random = sum(one.draw == "random" and one.answer is not None for one in asked)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    return [
        {
            "query_id": query,
            "doc_id": document,
            "verdict": one.answer.verdict,
            "p_wrong": one.answer.p_wrong,
            "judge": judge,
            "draw": one.draw,
            "weight": total / random if one.draw == "random" else None,
            "replacement": None,
            "reason": one.answer.reason,
            "at": at,
        }
        for (query, document), one in zip(pairs, asked, strict=True)
        if one.answer is not None
    ]
