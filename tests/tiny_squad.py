"""A tiny SQuAD over the words of `tests.tiny_models`: facts that tell, and passages that only hold their answers."""

import json
from pathlib import Path
from typing import Any

SETTINGS = (
    "task=reader",
    "data.kind=squad",
    "bm25_index.engine=bm25s",
    "report.examples=2",
    "reader.init.max_len=48",
    "reader.init.question_max_len=12",
    "reader.spans.top_k=4",
    "reader.train.epochs=2",
    "reader.train.updates_per_epoch=2",
    "reader.train.batch_size=4",
    "reader.train.learning_rate=0.001",
    "reader.read.stride=8",
)


def write_squad(folder: Path, *, train: int = 10, dev: int = 6) -> Path:
    """Question n asks for what stands behind `w<n>` and `w<n+20>`; another paragraph holds the answer, and no more."""
    for name, numbers in (("train", range(train)), ("dev", range(train, train + dev))):
        (folder / f"{name}-v1.1.json").write_text(json.dumps({"version": "1.1", "data": [_article(name, numbers)]}))
    return folder


def _article(title: str, numbers: range) -> dict[str, Any]:
    paragraphs = []
    for n in numbers:
        asked = {
            "id": f"{title}{n}",
            "question": f"w{n} w{n + 20}?",
            "answers": [{"text": f"W{n + 40}", "answer_start": 0}],
        }
        paragraphs.append({"context": f"w{n} w{n + 20}, w{n + 40} w59 w58.", "qas": [asked]})
        paragraphs.append({"context": f"w{n} w57 w{n + 40} w56 w{n + 40}", "qas": []})
        paragraphs.append({"context": f"w57 w{n + 20} w56", "qas": []})
    return {"title": title, "paragraphs": paragraphs}
