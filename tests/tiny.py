"""A tiny collection in BEIR layout, large enough for every stage to do real work on, and settings for it."""

import json
import random
from pathlib import Path

# of the demo: seconds instead of minutes; the last method, npc, is the one whose model is kept
SETTINGS = (
    "data.dataset=beir",
    "bm25_index.engine=bm25s",
    "methods=[dpr,npc]",
    "audit=null",
    "train.batch_size=16",
    "train.learning_rate=0.01",
    "train.epochs=2",
    "compare.resamples=200",
)
TOPICS = {
    "cooking": "oven flour butter recipe bake sugar dough kitchen pan salt".split(),
    "sailing": "boat wind harbour anchor sail mast knot tide crew rope".split(),
    "astronomy": "star telescope planet orbit galaxy moon comet light lens night".split(),
    "law": "court judge contract clause appeal verdict statute claim lawyer right".split(),
}


def write_beir(folder: Path, *, documents: int = 80, train: int = 60, held_out: int = 12, seed: int = 0) -> Path:
    """Documents of twelve words on one of four topics; a query is three words of its document."""
    draw = random.Random(seed)
    docs = []
    for number in range(documents):
        topic = list(TOPICS)[number % len(TOPICS)]
        docs.append(
            (f"d{number}", topic, " ".join([*draw.choices(TOPICS[topic], k=10), f"word{number}", f"mark{number}"]))
        )
    (folder / "qrels").mkdir(parents=True)
    _write_lines(folder / "corpus.jsonl", [{"_id": i, "title": title, "text": text} for i, title, text in docs])
    queries = []
    for split, count in (("train", train), ("dev", held_out), ("test", held_out)):
        rows = ["query-id\tcorpus-id\tscore"]
        for number in range(count):
            doc_id, _, text = docs[(len(queries) * 7) % documents]
            words = text.split()
            queries.append({"_id": f"{split}{number}", "text": " ".join([*draw.sample(words[:10], 2), words[10]])})
            rows.append(f"{split}{number}\t{doc_id}\t1")
        (folder / "qrels" / f"{split}.tsv").write_text("\n".join(rows) + "\n")
    _write_lines(folder / "queries.jsonl", queries)
    return folder


def _write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
