"""Relevance according to a ranker that never saw the query: the cheapest alternative to a teacher."""

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from pydantic import Field

from noisyir.detection.detectors import Detector, DetectorOutput, PairsToScore
from noisyir.models.settings import InitRankerParams
from noisyir.training.settings import CrossFittedRankerParams

if TYPE_CHECKING:
    from noisyir.detection.competitors import Competitors
    from noisyir.models.cross_encoder import TextPairs
    from noisyir.models.ranker import Ranker
    from noisyir.training.batches import Rows

_SETTING = "detectors.NAME.init.weights"


class RankerDetector(Detector, CrossFittedRankerParams, kind="ranker"):
    """The best other document's logit minus the pair's own, from a ranker trained without the query.

    The ranker is trained on the pairs themselves, wrong ones included, with documents found by the given model.
    """

    searches: ClassVar[bool] = True
    draws: ClassVar[int] = 1

    init: InitRankerParams = Field(InitRankerParams(), description="the ranker before training")

    @property
    def trainings(self) -> int:
        """One ranker per fold."""
        return self.folds

    @property
    def epochs_trained(self) -> int:
        """Epochs of each fold's ranker."""
        return self.epochs

    def score(self, given: PairsToScore) -> DetectorOutput:
        """Train a ranker without each fold, then read the fold's pairs, made-up documents and competitors."""
        from noisyir.detection.by_model import lists_of
        from noisyir.detection.competitors import dense_competitors, merged
        from noisyir.models.cross_encoder import TextPairs
        from noisyir.training.lists import folds_of
        from noisyir.training.ranker import trained_apart

        pairs, everyone = given.pairs, np.arange(len(given.pairs))
        found = dense_competitors(given.collection(), pairs, everyone, keep=self.n, depth=self.n, wrong=given.wrong)
        texts = TextPairs(given.query_texts, given.read_documents())
        fold = folds_of(texts.queries, self.folds, given.rng("folds"))[pairs.query]
        start, parts = self._start(given), []
        for number in range(self.folds):
            lists = lists_of(pairs, texts, found.rows, np.flatnonzero(fold != number))
            ranker = trained_apart(start, lists, number, self, given.training)
            chosen = np.flatnonzero(fold == number)
            parts.append((chosen, self._read(given, ranker, texts, found, chosen)))
        competitors = merged(parts)
        count = len(pairs) * (1 + found.made_up.shape[1] + found.rows.shape[1])
        return DetectorOutput(
            competitors.margins(given.wrong),
            competitors,
            reading=f"{self.folds} rankers were trained, and read {count:,} pairs of texts.",
        )

    def _start(self, given: PairsToScore) -> "Ranker":
        from noisyir.models.bi_encoder import choose_device
        from noisyir.models.ranker import initial_ranker
        from noisyir.models.weights import locate_weights

        seed = int(given.rng("head").integers(2**63))
        ranker, _ = initial_ranker(locate_weights(self.init.weights, _SETTING), self.init, seed)
        return ranker.to(choose_device(given.runtime.device))

    def _read(
        self, given: PairsToScore, ranker: "Ranker", texts: "TextPairs", found: "Competitors", chosen: "Rows"
    ) -> "Competitors":
        """Competitors of some pairs as ordered by the ranker."""
        from noisyir.detection.by_model import score_together
        from noisyir.models.cross_encoder import CrossEncoder

        pairs = replace(given.pairs, query=given.pairs.query[chosen], passage=given.pairs.passage[chosen])
        wrong, others = given.wrong.of(chosen).tried(pairs.passage).T, found.rows[chosen]
        there = others >= 0
        tried = (pairs.passage, *wrong, *np.where(there, others, pairs.passage[:, None]).T)
        judge = CrossEncoder(ranker.model, ranker.tokenizer, ranker.max_len)
        own, *read = score_together(
            judge,
            pairs,
            texts,
            tried,
            given.runtime.batch_tokens,
            lambda done, total: given.progress(done, total, "texts"),
        )
        logits = np.where(there, -np.column_stack(read[len(wrong) :]), -np.inf)
        order = np.argsort(-logits, axis=1, kind="stable")
        rank = 1 + (logits >= -own[:, None]).sum(axis=1)
        similarities = np.take_along_axis(np.where(there, logits, 0.0), order, axis=1).astype(np.float32)
        rows = np.take_along_axis(others, order, axis=1)
        return replace(found, own=-own, made_up=-np.column_stack(read[: len(wrong)]), rank=rank, rows=rows,
                       similarities=similarities, depth=1 + others.shape[1])  # fmt: skip

    def weights_digest(self) -> str | None:
        """Digest of the rankers' initial weights."""
        from noisyir.models.weights import encoder_digest

        return encoder_digest(self.init.weights, _SETTING)
