"""Import of a BEIR folder with all its checks, beside pyarrow's plain reading and writing, which checks nothing.

Both use one thread.
"""

import json
import tempfile
from pathlib import Path

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts


class ImportCorpus(Row):
    lines = (Line("import of a collection", "noisyir", "pyarrow", "plain pyarrow, JSON to Parquet", unit="documents"),)
    size = 100_000
    turns = 3
    grows = True

    def prepare(self, work: Work) -> None:
        (folder := work.folder / "beir" / "qrels").mkdir(parents=True)
        with (folder.parent / "corpus.jsonl").open("w") as out:
            for number, text in enumerate(Texts.read(work.texts).some_passages(work.size)):
                out.write(json.dumps({"_id": str(number), "title": "", "text": text}) + "\n")
        (folder.parent / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": "what is asked"}) + "\n")
        (folder / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t0\t1\n")

    def noisyir(self, work: Work) -> Taken:
        import pandas  # noqa: F401 - pyarrow loads it at first use
        import pyarrow as pa

        from noisyir.app.data_import import import_data

        pa.set_cpu_count(1)
        with tempfile.TemporaryDirectory() as out, Stopwatch() as watch:
            import_data(str(work.folder / "beir"), Path(out) / "tables")
        return watch.taken(items=work.size)

    def pyarrow(self, work: Work) -> Taken:
        import pyarrow.json as pj
        import pyarrow.parquet as pq

        options = pj.ReadOptions(use_threads=False, block_size=1 << 24)
        with tempfile.TemporaryDirectory() as out, Stopwatch() as watch:
            with (
                pj.open_json(work.folder / "beir" / "corpus.jsonl", read_options=options) as reader,
                pq.ParquetWriter(Path(out) / "corpus.parquet", reader.schema) as writer,
            ):
                for batch in reader:
                    writer.write_batch(batch)
        return watch.taken(items=work.size)
