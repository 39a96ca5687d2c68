"""Pairs to judge, and a learner that does what a test tells it, for the tests of a session."""

import numpy as np
import pyarrow as pa

from noisyir.audits.judging.journal import Journal
from noisyir.audits.judging.learning import Knowledge
from noisyir.audits.judging.pairs_to_judge import PairsToJudge
from noisyir.audits.judging.session import JudgingSession
from noisyir.detection.guarantee import Guarantee
from noisyir.detection.rate import Interval

SPICE = "</script><script>alert(1)</script>"


def pairs(count=120):
    """Pair i: query i with document i, of score i; three others are known for its query."""
    ids = [f"{number:04}" for number in range(count)]
    audit = pa.table(
        {
            "query_id": [f"q{number}" for number in ids],
            "doc_id": [f"d{number}" for number in ids],
            "query": [f"where is thing{number}" for number in ids],
            "document": [f"thing{number} is here {SPICE}" for number in ids],
            "score": pa.array(np.arange(count), pa.float32()),
        }
    )
    others = {(f"q{number}", f"d{number}"): [f"d{number}", f"o{number}a", f"o{number}b"] for number in ids}
    return PairsToJudge(audit, others, lambda wanted: {doc_id: f"text of {doc_id}" for doc_id in wanted})


class Learner:
    """Keeps what it was shown."""

    def __init__(self):
        self.seen = []

    def learn(self, judged):
        self.seen.append(dict(judged))
        known = Knowledge(
            sampled=len(judged),
            rate=Interval(0.25, 0.1, 0.4),
            bounds=Guarantee(np.array([60, 120]), np.array([0.04, 0.4]), 0.9, len(judged)),
        )
        return known if judged else Knowledge()


def session(folder, judge="ann", learner=None, of=None, start=True):
    """A session in this folder; `start`: also begin to learn."""
    made = JudgingSession(of or pairs(), Journal(folder / "judgements.jsonl"), judge, learner or Learner())
    if start:
        made.start()
    return made


def pair_of(shown):
    return shown.query_id, shown.document.doc_id
