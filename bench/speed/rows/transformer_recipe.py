"""Training of a transformer on a CPU by the recipe for few cores: frozen layers, texts of like length together.

Next to it noisyir's training of all layers, and sentence-transformers' Trainer with what its documentation advises for
speed: a loss in one piece.  `bench/transformer_cost.py` says what each costs.
"""

from bench.speed import encoding, training
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.texts import Texts

_BATCH, _RATE, _CLIP, _SCALE = 64, 3e-5, 1.0, 20.0
FROZEN, BUCKETS = 3, 4  # half of MiniLM's layers


class TransformerRecipe(Row):
    lines = (
        Line("transformer, frozen layers and buckets", "recipe", "whole", "noisyir, all layers in one piece",
             at_least=2.0, unit="pairs"),
        Line("transformer, frozen layers and buckets", "recipe", "trainer", "sentence-transformers' Trainer",
             at_least=1.5, unit="pairs"),
        Line("transformer, adapters of rank 8 and buckets", "adapters", "whole", "noisyir, all layers in one piece",
             unit="pairs"),
    )  # fmt: skip
    size = 256
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def recipe(self, work: Work) -> Taken:
        return _ours(work, freeze=FROZEN, length_buckets=BUCKETS)

    def adapters(self, work: Work) -> Taken:
        return _ours(work, lora={"rank": 8}, length_buckets=BUCKETS)

    def whole(self, work: Work) -> Taken:
        return _ours(work)

    def trainer(self, work: Work) -> Taken:
        from sentence_transformers import SentenceTransformer
        from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

        model = SentenceTransformer(str(work.folder / "model"), device="cpu")
        loss = MultipleNegativesRankingLoss(model, scale=_SCALE)
        settings = {"per_device_train_batch_size": _BATCH, "learning_rate": _RATE, "max_grad_norm": _CLIP}
        return training.theirs(model, loss, Texts.read(work.texts).some_pairs(work.size), **settings)


def _ours(work: Work, **how: object) -> Taken:
    from noisyir.training.settings import TrainDprParams

    params = TrainDprParams.model_validate(
        {"epochs": 1, "batch_size": _BATCH, "learning_rate": _RATE, "warmup_ratio": 0.0, "decay": "constant",
         "clip_norm": _CLIP, "scale": _SCALE, "dev_queries": 0, **how}
    )  # fmt: skip
    return training.ours(work.folder / "model", Texts.read(work.texts).some_pairs(work.size), params)
