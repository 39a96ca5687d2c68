"""Import of a large collection against a plain read and write with pyarrow: processor time of paired runs, and memory.

usage: python bench/import_speed.py [--passages 1000000] [--runs 3] [--json]

Each run is a process of its own; the two take turns, so that other work on the machine meets both.  The plain run reads
corpus.jsonl with pyarrow.json and writes Parquet, and checks nothing.  Both use one thread.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

WORDS = 60  # of a passage: MS MARCO's have about so many


def made(folder: Path, passages: int) -> Path:
    """A BEIR folder of made-up passages, with a query for every thousandth."""
    chance = random.Random(0)
    vocabulary = ["".join(chance.choices("etaoinshrdlu", k=chance.randint(2, 9))) for _ in range(20_000)]
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as out:
        for number in range(passages):
            text = " ".join(chance.choices(vocabulary, k=WORDS))
            out.write(json.dumps({"_id": str(number), "title": "", "text": text}) + "\n")
    with (folder / "queries.jsonl").open("w") as queries, (folder / "qrels/test.tsv").open("w") as qrels:
        qrels.write("query-id\tcorpus-id\tscore\n")
        for number in range(0, passages, 1000):
            queries.write(json.dumps({"_id": f"q{number}", "text": " ".join(chance.choices(vocabulary, k=6))}) + "\n")
            qrels.write(f"q{number}\t{number}\t1\n")
    return folder


def ours(source: Path, out: Path) -> None:
    from noisyir.app.data_import import import_data

    import_data(str(source), out / "tables")


def plain(source: Path, out: Path) -> None:
    import pyarrow as pa
    import pyarrow.json
    import pyarrow.parquet as pq

    options = pa.json.ReadOptions(use_threads=False, block_size=1 << 24)
    with pa.json.open_json(source / "corpus.jsonl", read_options=options) as reader:
        with pq.ParquetWriter(out / "corpus.parquet", reader.schema) as writer:
            for batch in reader:
                writer.write_batch(batch)


def timed(which: str, source: Path) -> tuple[float, float]:
    """(seconds of processor time, peak MB) of one run in a process of its own."""
    with tempfile.TemporaryDirectory(dir=source.parent) as out:
        command = [sys.executable, __file__, "--one", which, "--source", str(source), "--out", out]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, megabytes = map(float, said.split())
    return seconds, megabytes


def one(which: str, source: Path, out: Path) -> None:
    """Run one and print its processor time, without that of the imports, and its peak memory."""
    import pandas  # noqa: F401 - pyarrow loads it at first use; loading is no part of the measurement
    import pyarrow as pa

    import noisyir.app.data_import  # noqa: F401

    pa.set_cpu_count(1)
    before = time.process_time()
    {"ours": ours, "plain": plain}[which](source, out)
    print(time.process_time() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("--source", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one, given.source, given.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        source = made(Path(folder) / "made", given.passages)
        runs = [(timed("ours", source), timed("plain", source)) for _ in range(given.runs)]
    found = {
        "passages": given.passages,
        "import_cpu_s": [round(mine[0], 2) for mine, _ in runs],
        "pyarrow_cpu_s": [round(theirs[0], 2) for _, theirs in runs],
        "times_pyarrow": round(median(mine[0] / theirs[0] for mine, theirs in runs), 2),
        "import_peak_mb": round(max(mine[1] for mine, _ in runs)),
        "pyarrow_peak_mb": round(max(theirs[1] for _, theirs in runs)),
    }
    print(json.dumps(found) if given.json else "\n".join(f"{name:<16}{value}" for name, value in found.items()))


if __name__ == "__main__":
    main()
