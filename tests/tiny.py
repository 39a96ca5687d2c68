"""A tiny collection in BEIR layout, large enough for every stage to do real work on, and settings for it."""

import json
import random
from pathlib import Path

import numpy as np

from noisyir.models.layout import Shape, write_layout

# of the demo: seconds instead of minutes; the last method, npc, is the one whose model is kept
SETTINGS = (
    "data.kind=beir",
    "bm25_index.engine=bm25s",
    "methods=[dpr,npc]",
    "audit=null",
    "register_if=always",  # BM25 is perfect there
    "train.batch_size=16",
    "train.learning_rate=0.01",
    "train.epochs=2",
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


def tiny_data(folder: Path, **beir: int) -> tuple[str, str]:
    """Settings that name a collection, written to the folder, and a model of random vectors of its words.

    Each run writes, reads and hashes its models several times: the packaged one is of 46 MB, this one of 0.1 MB.
    """
    return f"data.path={write_beir(folder, **beir)}", f"model.weights={write_words(folder / 'words')}"


def write_words(folder: Path) -> Path:
    """A static model of the words above."""
    from safetensors.numpy import save_file
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    numbered = [f"{word}{number}" for word in ("word", "mark") for number in range(160)]
    words = ["[UNK]", *numbered, *(word for topic in TOPICS.items() for word in (topic[0], *topic[1]))]
    tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(dict.fromkeys(words))}, "[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Lowercase(), pre_tokenizers.Whitespace()
    write_layout(folder, Shape("static", True, "mean", "cosine", "", "", 64, 64), 64)
    vectors = np.random.default_rng(0).normal(0, 0.05, (tokenizer.get_vocab_size(), 64)).astype(np.float32)
    save_file({"embedding.weight": vectors}, folder / "model.safetensors")
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def _write_lines(path: Path, rows: list[dict[str, str]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_dpr(folder: Path, subset: str = "nq", *, train: int = 60, held_out: int = 12, seed: int = 0) -> Path:
    """The same documents in the layout of DPR's release; a question's answer is the word that only its passage has."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    passages = []
    for number in range(80):
        topic = list(TOPICS)[number % len(TOPICS)]
        words = [*draw.choices(TOPICS[topic], k=10), f"word{number}", f"mark{number}"]
        passages.append((str(number + 1), " ".join(words), topic))
    rows = ["id\ttext\ttitle", *("\t".join(passage) for passage in passages)]
    (folder / "psgs_w100.tsv").write_text("\n".join(rows) + "\n")

    def ask(number: int) -> tuple[str, list[str], str]:
        doc_id, text, _ = passages[number * 7 % len(passages)]
        words = text.split()
        return " ".join([*draw.sample(words[:10], 2), words[10]]), [words[11]], doc_id

    asked = [ask(number) for number in range(train + 2 * held_out)]
    contexts = [
        {"question": text, "answers": answers, "positive_ctxs": [{"title": "", "text": "", "passage_id": doc_id}]}
        for text, answers, doc_id in asked
    ]
    (folder / f"biencoder-{subset}-train.json").write_text(json.dumps(contexts[:train]))
    (folder / f"biencoder-{subset}-dev.json").write_text(json.dumps(contexts[train : train + held_out]))
    for split, some in (("dev", asked[train : train + held_out]), ("test", asked[train + held_out :])):
        lines = [f"{text}\t{answers}" for text, answers, _ in some]
        (folder / f"{subset}-{split}.qa.csv").write_text("\n".join(lines) + "\n")
    return folder
