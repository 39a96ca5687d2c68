"""Training of a transformer on a CPU, gradients cached on both sides: the same pairs, batch, rate, clipping, weights.

The peer packs its mini-batches by tokens (`mini_batch_num_tokens`), noisyir its chunks by length.
"""

from bench.speed import encoding, training
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.texts import Texts

_BATCH, _RATE, _CLIP, _SCALE = 64, 3e-5, 1.0, 20.0
_CHUNK = 32  # texts; the peer's tokens are as many texts of full length


class TransformerTraining(Row):
    lines = (
        Line(
            "transformer training, CPU", "noisyir", "trainer", "sentence-transformers' Trainer, cached loss by tokens",
            at_least=1.3, unit="pairs",
        ),
    )  # fmt: skip
    size = 64
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def noisyir(self, work: Work) -> Taken:
        from noisyir.training.settings import TrainDprParams

        params = TrainDprParams(
            epochs=1, batch_size=_BATCH, learning_rate=_RATE, warmup_ratio=0.0, decay="constant", clip_norm=_CLIP,
            scale=_SCALE, chunk_size=_CHUNK, dev_queries=0,
        )  # fmt: skip
        return training.ours(work.folder / "model", Texts.read(work.texts).some_pairs(work.size), params)

    def trainer(self, work: Work) -> Taken:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import CachedMultipleNegativesRankingLoss

        model = SentenceTransformer(str(work.folder / "model"), device="cpu")
        loss = CachedMultipleNegativesRankingLoss(model, scale=_SCALE, mini_batch_num_tokens=_CHUNK * encoding.LENGTH)
        settings = {"per_device_train_batch_size": _BATCH, "learning_rate": _RATE, "max_grad_norm": _CLIP}
        return training.theirs(model, loss, Texts.read(work.texts).some_pairs(work.size), **settings)
