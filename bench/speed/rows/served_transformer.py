"""Single queries to vectors over HTTP by MiniLM, asked by 16 clients on the same machine."""

from typing import ClassVar

from bench.speed import encoding, serving
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.rows.served_static import _NEEDED


class ServedTransformer(Row):
    lines = (
        Line(
            "served embeddings, MiniLM", "noisyir", "sentence_transformers", "sentence-transformers, same ASGI stack",
            at_least=1.5, unit="queries", waits=True,
        ),
    )  # fmt: skip
    size = 2_000
    turns = 3
    needs: ClassVar = {"noisyir": _NEEDED}
    grows = True

    def prepare(self, work: Work) -> None:
        encoding.save_model(work, backbone="transformer")

    def noisyir(self, work: Work) -> Taken:
        with serving.ours(work.folder / "model") as address:
            return serving.asked(address, serving.embedding_requests(work, work.size))

    def sentence_transformers(self, work: Work) -> Taken:
        with serving.theirs(work.folder / "model") as address:
            return serving.asked(address, serving.embedding_requests(work, work.size))
