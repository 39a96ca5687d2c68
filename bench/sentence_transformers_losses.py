"""NPC and CCR in sentence-transformers' Trainer beside noisyir's: SQuAD, static, half of the pairs made wrong.

    python bench/sentence_transformers_losses.py ../shared/data/squad
    python bench/sentence_transformers_losses.py ../shared/data/squad --pairs 20000 --methods npc

Per seed the same pairs, the same wrong ones and the same start; batches, their order and AdamW are each trainer's own.
MRR@10 over all paragraphs; of NPC also how well each detection tells wrong pairs.
"""

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments

import noisyir
from bench.records_by_kind import RecordsByKind
from noisyir.data.formats.squad import Squad
from noisyir.detection.calibration.logistic import auroc
from noisyir.methods.experiments import from_settings
from noisyir.methods.npc.objective import Detected, NoisyPairCorrection
from noisyir.models.bi_encoder import BiEncoder, initial_bi_encoder, load_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.text_tokenizer import Tokens, passage_text
from noisyir.models.weights import locate_weights
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.learner import Contrastive
from noisyir.training.run import TrainingContext
from noisyir.training.validation import Held, dev_mrr

METHODS: dict[str, dict[str, Any]] = {
    "dpr": {"correct": False},
    # as published, two populations are taken for granted (Zhang et al., Eq. 4)
    "npc": {"settings": {"npc.consistency": 1, "npc.doubt": 0.25, "npc_detect.components": "two"}},
    "npc_tested": {"settings": {"npc.consistency": 1, "npc.doubt": 0.25}},  # two populations must show themselves
    "ccr": {"correct": False, "beta": 0.2},
}
SCALE, BATCH, RATE = 20.0, 256, 3e-3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("squad", help="folder of SQuAD v1.1")
    parser.add_argument("--pairs", type=int, default=6000)
    parser.add_argument("--dev", type=int, default=3000, help="dev questions")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--rate", type=float, default=0.5, help="share of wrong pairs")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    asked = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    data, folder = Data(asked.squad, asked.dev), Path(tempfile.mkdtemp())
    initial_bi_encoder(locate_weights("minilm"), InitModelParams()).save(folder)
    print(f"start  MRR@10 {data.mrr(load_bi_encoder(folder, 'cpu')):.4f}", flush=True)
    found: dict[tuple[str, str], list[float]] = {}
    for seed in range(asked.seeds):
        pairs, is_wrong = data.noisy(asked.pairs, asked.rate, seed)
        for method in asked.methods:
            for name, run in (("noisyir", ours), ("trainer", theirs)):
                began = time.perf_counter()
                encoder, history = run(folder, data, pairs, method, asked.epochs, seed)
                value = data.mrr(encoder)
                found.setdefault((method, name), []).append(value)
                seconds = time.perf_counter() - began
                print(f"seed {seed} {method} {name:<8} MRR@10 {value:.4f}  {seconds:4.0f} s", flush=True)
                for found_then in history:
                    print(f"  epoch {found_then.epoch}: {quality(found_then, is_wrong)}", flush=True)
    for method in asked.methods:
        mine, peer = found[method, "noisyir"], found[method, "trainer"]
        gaps = [b - a for a, b in zip(mine, peer, strict=True)]
        spread = statistics.stdev(mine) if len(mine) > 1 else float("nan")
        print(
            f"{method}: noisyir {statistics.mean(mine):.4f}, trainer {statistics.mean(peer):.4f}, difference "
            f"{statistics.mean(gaps):+.4f} (by seed: {', '.join(f'{g:+.4f}' for g in gaps)}); our spread {spread:.4f}"
        )


class Data:
    """SQuAD's texts, and what dev is measured on."""

    def __init__(self, folder: str, dev: int) -> None:
        source = RecordsByKind(Squad(path=folder).open())
        documents = list(source.documents())
        self.texts = [passage_text(item.title, item.text) for item in documents]
        self.tokens: Tokens | None = None
        row = {item.doc_id: number for number, item in enumerate(documents)}
        asked = {item.query_id: item.text for item in source.queries}
        judged = source.judgements
        self.train = [(asked[j.query_id], row[j.doc_id]) for j in judged if j.split == "train"]
        held = [(asked[j.query_id], row[j.doc_id]) for j in judged if j.split == "dev"]
        self.dev = [held[i] for i in np.random.default_rng(0).permutation(len(held))[:dev]]

    def noisy(self, count: int, rate: float, seed: int) -> tuple[list[tuple[str, int]], np.ndarray]:
        """Some pairs, a share of them with a random paragraph; which are wrong."""
        rng = np.random.default_rng(seed)
        chosen = [self.train[i] for i in rng.permutation(len(self.train))[:count]]
        is_wrong = np.arange(count) < round(rate * count)
        other = rng.integers(len(self.texts), size=count)
        pairs = [(text, int(other[i]) if is_wrong[i] else row) for i, (text, row) in enumerate(chosen)]
        order = rng.permutation(count)
        return [pairs[i] for i in order], is_wrong[order]

    def passages(self, encoder: BiEncoder) -> Tokens:
        """All paragraphs; every model here has the same tokenizer."""
        if self.tokens is None:
            self.tokens = encoder.tokenize(self.texts, "passage")
        return self.tokens

    def mrr(self, encoder: BiEncoder) -> float:
        relevant = np.array([row for _, row in self.dev])
        questions = encoder.tokenize([text for text, _ in self.dev], "query")
        return dev_mrr(encoder, Held(questions, self.passages(encoder), one_each(relevant)))


def quality(found: Detected, is_wrong: np.ndarray) -> str:
    """How well a detection tells the wrong pairs, and what it flags."""
    area = auroc(found.score.astype(np.float64), is_wrong)
    flagged = ~found.is_clean
    return (
        f"AUROC {area.value if area else 0:.3f}, flagged {flagged[is_wrong].mean():.0%} of the wrong pairs and "
        f"{flagged[~is_wrong].mean():.0%} of the right ones"
    )


def one_each(values: np.ndarray) -> Ragged:
    return Ragged(np.arange(len(values) + 1), values.astype(np.int64))


def ours(
    folder: Path, data: Data, pairs: list[tuple[str, int]], method: str, epochs: int, seed: int
) -> tuple[BiEncoder, list[Detected]]:
    encoder = load_bi_encoder(folder, "cpu")
    told = METHODS[method]
    fixed = {"batch_size": BATCH, "dev_queries": 0, "scale": SCALE, "clip_norm": 1.0, "learning_rate": RATE}
    fixed |= {"epochs": epochs, "ccr": {"beta": told.get("beta", 0.0)}}
    given = [f"{name}={value}" for name, value in told.get("settings", {}).items()]
    exp = from_settings({"name": "ours", "train": fixed}, given)

    def rng(*purpose: object) -> np.random.Generator:
        return np.random.default_rng([seed, *map(ord, "/".join(map(str, purpose)))])

    numbered = tokenised(encoder, data, pairs)
    plain = not told.get("correct", True)
    correction = Contrastive() if plain else NoisyPairCorrection(encoder, numbered, exp.correction(), rng)
    with tempfile.TemporaryDirectory() as work:
        context = TrainingContext(
            rng=rng, work=Path(work), checkpoint_seconds=1e6, progress=lambda *_: None, metric=lambda *_: None
        )
        train(encoder, numbered, None, exp.correction(), correction, context)
    return encoder, correction.history if isinstance(correction, NoisyPairCorrection) else []


def tokenised(encoder: BiEncoder, data: Data, pairs: list[tuple[str, int]]) -> TrainingPairs:
    texts = list(dict.fromkeys(text for text, _ in pairs))
    number = {text: place for place, text in enumerate(texts)}
    query = np.array([number[text] for text, _ in pairs])
    passage = np.array([row for _, row in pairs])
    known = np.unique(np.stack([query, passage], axis=1), axis=0)
    return TrainingPairs(
        queries=encoder.tokenize(texts, "query"),
        passages=data.passages(encoder),
        query=query,
        passage=passage,
        text=np.arange(len(texts)),
        known=Ragged.grouped(known[:, 0], known[:, 1], len(texts)),
        negatives=Ragged(np.zeros(len(texts) + 1, np.int64), np.empty(0, np.int64)),
    )


def theirs(
    folder: Path, data: Data, pairs: list[tuple[str, int]], method: str, epochs: int, seed: int
) -> tuple[BiEncoder, list[Detected]]:
    model = SentenceTransformer(str(folder), device="cpu")
    texts = {"anchor": [text for text, _ in pairs], "positive": [data.texts[row] for _, row in pairs]}
    loss = noisyir.losses.NoisyPairLoss(model, Dataset.from_dict(texts), scale=SCALE, seed=seed, **METHODS[method])
    with tempfile.TemporaryDirectory() as out:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=out, num_train_epochs=epochs, per_device_train_batch_size=BATCH, learning_rate=RATE,
            lr_scheduler_type="linear", warmup_steps=0.1, max_grad_norm=1.0, save_strategy="no", report_to="none",
            disable_tqdm=True, use_cpu=True, logging_strategy="no", seed=seed,
        )  # fmt: skip
        SentenceTransformerTrainer(
            model=model, args=arguments, train_dataset=loss.pairs, loss=loss, callbacks=[loss.callback]
        ).train()
        model.save(f"{out}/model")
        encoder = load_bi_encoder(Path(out) / "model", "cpu")
    return encoder, loss.detections


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
