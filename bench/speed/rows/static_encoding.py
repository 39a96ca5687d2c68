"""Passages to normalised vectors by a static model, tokenising included: one matrix and truncation for all sides."""

from typing import ClassVar

from bench.speed import encoding
from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts


class StaticEncoding(Row):
    lines = (
        Line(
            "static encoding",
            "noisyir",
            "sentence_transformers",
            "sentence-transformers",
            at_least=1.5,
            unit="passages",
        ),
        Line("static encoding", "noisyir", "model2vec", "model2vec", at_least=1.5, unit="passages"),
    )
    size = 20_000
    turns = 3
    needs: ClassVar = {"model2vec": ("model2vec",)}
    grows = True

    def prepare(self, work: Work) -> None:
        encoding.save_model(work)

    def noisyir(self, work: Work) -> Taken:
        return encoding.ours(work)

    def sentence_transformers(self, work: Work) -> Taken:
        return encoding.theirs(work, batch_size=1024, device="cpu")

    def model2vec(self, work: Work) -> Taken:
        from model2vec import StaticModel
        from sentence_transformers import SentenceTransformer

        module = SentenceTransformer(str(work.folder / "model"), device="cpu")[0]
        model = StaticModel(module.embedding.weight.detach().numpy(), module.tokenizer, normalize=True)
        passages = Texts.read(work.texts).some_passages(work.size)
        with Stopwatch() as watch:
            model.encode(passages, max_length=encoding.LENGTH)
        return watch.taken(items=len(passages))
