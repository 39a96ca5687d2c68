"""Single queries to vectors over HTTP by a static model, asked by 16 clients on the same machine."""

from typing import ClassVar

from bench.speed import encoding, serving
from bench.speed.row import Line, Row, Taken, Work

_NEEDED = ("uvloop", "httptools", "orjson", "prometheus_client")


class ServedStatic(Row):
    lines = (
        Line(
            "served embeddings, static", "noisyir", "sentence_transformers", "1,500 a second",
            limit=1 / 1500, unit="queries", waits=True,
        ),
        Line(
            "served embeddings, static, p99", "noisyir", "sentence_transformers", "100 ms",
            limit=100, quantity="p99_ms", waits=True,
        ),
        Line(
            "served embeddings, static", "noisyir", "sentence_transformers", "sentence-transformers, same ASGI stack",
            at_least=1.5, unit="queries", waits=True,
        ),
    )  # fmt: skip
    size = 10_000
    turns = 3
    needs: ClassVar = {"noisyir": _NEEDED}
    grows = True

    def prepare(self, work: Work) -> None:
        encoding.save_model(work)

    def noisyir(self, work: Work) -> Taken:
        with serving.ours(work.folder / "model") as address:
            return serving.asked(address, serving.embedding_requests(work, work.size))

    def sentence_transformers(self, work: Work) -> Taken:
        with serving.theirs(work.folder / "model") as address:
            return serving.asked(address, serving.embedding_requests(work, work.size))
