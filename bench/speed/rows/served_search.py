"""Searches over HTTP in 100,000 documents by a static model's exact index, asked by 16 clients on the same machine."""

from typing import ClassVar

from bench.speed import encoding, serving
from bench.speed.row import Line, Row, Taken, Work
from bench.speed.rows.served_static import _NEEDED
from bench.speed.texts import Texts

_DOCUMENTS = 100_000


class ServedSearch(Row):
    lines = (
        Line(
            "served searches, 100,000 documents", "noisyir", "one_client", "300 a second",
            limit=1 / 300, unit="queries", waits=True,
        ),
        Line(
            "served searches, p99", "noisyir", "one_client", "100 ms",
            limit=100, quantity="p99_ms", waits=True,
        ),
        Line("served searches", "noisyir", "one_client", "one client", unit="queries", waits=True),
    )  # fmt: skip
    size = 4_000
    turns = 3
    needs: ClassVar = {"noisyir": (*_NEEDED, "faiss"), "one_client": (*_NEEDED, "faiss")}
    takes_minutes = True
    grows = True

    def prepare(self, work: Work) -> None:
        import pyarrow as pa

        from noisyir.engine.store import Store
        from noisyir.models.bi_encoder import load_bi_encoder
        from tests.served import make_world

        encoding.save_model(work)
        rows = range(_DOCUMENTS)
        documents = {
            "doc_id": [f"d{n}" for n in rows],
            "doc_row": pa.array(rows, pa.int32()),
            "title": [""] * len(rows),
        }
        texts = Texts.read(work.texts).some_passages(_DOCUMENTS)
        store = Store(work.folder / "store", home=work.folder)
        make_world(
            store, load_bi_encoder(work.folder / "model", "cpu"), documents=pa.table({**documents, "text": texts})
        )

    def noisyir(self, work: Work) -> Taken:
        return self._asked(work, serving.CLIENTS)

    def one_client(self, work: Work) -> Taken:
        return self._asked(work, 1)

    def _asked(self, work: Work, clients: int) -> Taken:
        body = {"max_num_results": 10}
        path = "/v1/vector_stores/world/search"
        requests = [serving.request(path, {"query": text, **body}) for text in serving.queries(work, work.size)]
        with serving.served(
            "noisyir.front.cli", "serve", "world", "--store", str(work.folder / "store"), "--port", "{port}"
        ) as address:
            return serving.asked(address, requests, clients)
