"""What an epoch of noisy pair correction costs, beside one of DPR: the same pairs and settings, epoch by epoch in turn.

    python bench/npc_epoch.py                                 # pydocs: the Python that runs this
    python bench/npc_epoch.py --squad ../shared/data/squad    # SQuAD v1.1

An epoch of NPC is the detection over all pairs (scores, mixture, flags), then steps with teacher and consistency loss.
Each model has one epoch of plain training behind it before the first that is timed.
"""

import argparse
import copy
import statistics
import time

import numpy as np
import torch
from static_training import read_pairs, tokenised

from noisyir.models.bi_encoder import initial_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import locate_weights
from noisyir.noise.npc_objective import NoisyPairCorrection
from noisyir.noise.settings import NpcParams, TrainNpcParams
from noisyir.training.bi_encoder import BiEncoderLearner
from noisyir.training.objective import Contrastive


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", help="folder of SQuAD v1.1; without it, pydocs")
    parser.add_argument("--turns", type=int, default=5, help="epochs timed of each")
    asked = parser.parse_args()
    params = TrainNpcParams(
        epochs=asked.turns + 1, learning_rate=3e-3, warmup_ratio=0.0, decay="constant", dev_queries=0, npc=NpcParams()
    )
    start = initial_bi_encoder(locate_weights("minilm"), InitModelParams())
    pairs = tokenised(start, read_pairs(asked.squad))
    plain, corrected = copy.deepcopy(start), copy.deepcopy(start)
    objectives = {
        "dpr": (plain, Contrastive()),
        "npc": (corrected, NoisyPairCorrection(corrected, pairs, params, _rng)),
    }
    learners = {
        name: BiEncoderLearner(encoder, pairs, None, params, objective, _rng)
        for name, (encoder, objective) in objectives.items()
    }
    for learner in learners.values():
        _epoch(learner)
    ratios = []
    for turn in range(asked.turns):
        seconds = {name: _epoch(learner) for name, learner in learners.items()}
        ratios.append(seconds["npc"] / seconds["dpr"])
        print(f"turn {turn + 1}: dpr {seconds['dpr']:.2f} s, npc {seconds['npc']:.2f} s, {ratios[-1]:.2f}x", flush=True)
    print(f"\n{len(pairs):,} pairs, {torch.get_num_threads()} threads")
    print(f"npc / dpr: {statistics.median(ratios):.2f}x (median)")


def _rng(*purpose: object) -> np.random.Generator:
    return np.random.default_rng(list(map(ord, "/".join(map(str, purpose)))))


def _epoch(learner: BiEncoderLearner) -> float:
    began = time.perf_counter()
    learner.start_epoch()
    for _ in range(learner.batches.an_epoch):
        learner.step()
    learner.end_epoch()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
