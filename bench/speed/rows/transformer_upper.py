"""Training of a transformer on a CPU as `init` writes it: all layers, or the upper ones on kept states of the lower.

The peer is sentence-transformers' Trainer with a loss in one piece.  Kept states are made once and serve all epochs and
methods; only the line that says so counts their making.
`bench/transformer_cost.py` says what each way costs.
"""

from bench.speed import encoding, training
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.texts import Texts

_BATCH, _RATE, _CLIP, _SCALE = 64, 3e-5, 1.0, 20.0
_PEER = "sentence-transformers' Trainer"


class TransformerUpper(Row):
    lines = (
        Line("transformer, all layers", "whole", "trainer", _PEER, at_least=2.5, unit="pairs"),
        Line("transformer, top three on kept states", "top_three", "trainer", _PEER, at_least=6, unit="pairs"),
        Line("transformer, top two on kept states", "top_two", "trainer", _PEER, at_least=10, unit="pairs"),
        Line("transformer, top two for one epoch, states made", "top_two", "trainer", _PEER, quantity="kept_seconds",
             of="seconds", unit="pairs"),
        Line("transformer, top two in bf16", "top_two_bf16", "top_two", "noisyir in fp32", unit="pairs"),
        Line("transformer, peak memory, all layers", "whole", "trainer", _PEER, quantity="peak_mb", limit=3000),
        Line("transformer, peak memory, top two", "top_two", "trainer", _PEER, quantity="peak_mb", limit=3000),
    )  # fmt: skip
    size = 512
    turns = 3

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def whole(self, work: Work) -> Taken:
        return _ours(work)

    def top_two(self, work: Work) -> Taken:
        return _ours(work, freeze=4, keep_states=True)

    def top_two_bf16(self, work: Work) -> Taken:
        return _ours(work, freeze=4, keep_states=True, precision="bf16")

    def top_three(self, work: Work) -> Taken:
        return _ours(work, freeze=3, keep_states=True)

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
