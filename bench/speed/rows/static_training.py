"""Training of a static model from raw texts: the same pairs, batch, rate, clipping and weights on all sides.

noisyir tokenises once for its six epochs.  The peer is its Trainer with MultipleNegativesRankingLoss, over fewer steps.
`loop` is the peer's loss with torch's fused AdamW in a plain loop, tokens ready: no Trainer, no tokenising.
"""

from typing import Any

from bench.speed import encoding, training
from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_BATCH, _RATE, _CLIP, _SCALE, _EPOCHS = 512, 3e-3, 1.0, 20.0, 6
_PEER_STEPS = 12


class StaticTraining(Row):
    lines = (
        Line("static training", "noisyir", "trainer", "sentence-transformers' Trainer", at_least=10, unit="pairs"),
        Line(
            "static training, steps alone",
            "noisyir",
            "loop",
            "its loss, tokens ready",
            quantity="step_seconds",
            unit="pairs",
        ),
    )
    size = 12_000
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work)

    def noisyir(self, work: Work) -> Taken:
        from noisyir.training.settings import TrainDprParams

        params = TrainDprParams(
            epochs=_EPOCHS, batch_size=_BATCH, learning_rate=_RATE, warmup_ratio=0.0, decay="constant", clip_norm=_CLIP,
            scale=_SCALE, dev_queries=0,
        )  # fmt: skip
        return training.ours(work.folder / "model", Texts.read(work.texts).some_pairs(work.size), params)

    def trainer(self, work: Work) -> Taken:
        model, loss = _model_and_loss(work)
        settings = {"per_device_train_batch_size": _BATCH, "learning_rate": _RATE, "max_grad_norm": _CLIP}
        return training.theirs(model, loss, _peers_pairs(work), **settings)

    def loop(self, work: Work) -> Taken:
        import torch

        model, loss = _model_and_loss(work)
        adam = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.0, fused=True)
        texts = _peers_pairs(work)
        batches = [list(zip(*texts[at : at + _BATCH], strict=True)) for at in range(0, len(texts), _BATCH)]
        ready = [[model.preprocess(list(column)) for column in batch] for batch in batches]
        loss(ready[0], None).backward()
        adam.zero_grad()
        with Stopwatch() as watch:
            for features in ready:
                loss(features, None).backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), _CLIP)
                adam.step()
                adam.zero_grad()
        alone = {"step_seconds": watch.seconds, "step_cpu_seconds": watch.cpu_seconds}
        return watch.taken(items=len(texts), **alone)


def _peers_pairs(work: Work) -> training.TextPairs:
    return Texts.read(work.texts).some_pairs(min(_BATCH * _PEER_STEPS, work.size))


def _model_and_loss(work: Work) -> tuple[Any, Any]:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(work.folder / "model"), device="cpu")
    return model, MultipleNegativesRankingLoss(model, scale=_SCALE)
