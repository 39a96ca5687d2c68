"""Static training beside sentence-transformers': the same pairs, batch, rate and weights, by turns in one process.

    python bench/static_training.py                                 # pydocs: the Python that runs this
    python bench/static_training.py --squad ../shared/data/squad    # SQuAD v1.1

Each turn times, one after the other:

noisyir        our stage's loop from raw texts: tokenise once, then `epochs` epochs (AdamW on touched rows)
trainer        SentenceTransformerTrainer with MultipleNegativesRankingLoss, from raw texts, as its users run it
bare loop      the same loss and torch's fused AdamW in a plain loop, tokenising each batch: no Trainer overhead
steps only     both sides again with all texts tokenised beforehand: nothing but forward, backward, optimiser

Every side clips gradients and warms up the same way.  Peers are timed over fewer steps; all numbers are pairs/s.
"""

import argparse
import logging
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch

from noisyir.data.formats.pydocs import Pydocs
from noisyir.data.formats.squad import Squad
from noisyir.models.bi_encoder import BiEncoder, initial_bi_encoder
from noisyir.models.settings import InitModelParams
from noisyir.models.tokens import passage_text
from noisyir.models.weights import locate_weights
from noisyir.training.batches import Ragged, TrainingPairs
from noisyir.training.bi_encoder import train
from noisyir.training.objective import Contrastive
from noisyir.training.run import TrainingContext
from noisyir.training.settings import TrainDprParams

Texts = list[tuple[str, str]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--squad", help="folder of SQuAD v1.1; without it, pydocs")
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=6, help="over which our one tokenisation is spread")
    parser.add_argument("--pairs", type=int, default=20000, help="pairs an epoch of ours")
    parser.add_argument("--peer-steps", type=int, default=12)
    parser.add_argument("--turns", type=int, default=3)
    asked = parser.parse_args()
    logging.getLogger("transformers").setLevel(logging.ERROR)
    texts = read_pairs(asked.squad)[: asked.pairs]
    params = TrainDprParams(
        epochs=asked.epochs, batch_size=asked.batch, learning_rate=3e-3, warmup_ratio=0.0, decay="constant",
        clip_norm=1.0, dev_queries=0,
    )  # fmt: skip
    folder = Path(tempfile.mkdtemp())
    initial_bi_encoder(locate_weights("minilm"), InitModelParams()).save(folder)
    peer_texts = texts[: asked.batch * asked.peer_steps]
    rates: dict[str, list[float]] = {}
    for turn in range(asked.turns):
        found = ours(folder, texts, params) | theirs(folder, peer_texts, params)
        print(f"turn {turn + 1}: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in found.items()), flush=True)
        for name, rate in found.items():
            rates.setdefault(name, []).append(rate)
    median = {name: statistics.median(values) for name, values in rates.items()}
    print(f"\n{len(texts):,} pairs, batch {asked.batch}, {torch.get_num_threads()} threads; median pairs/s")
    for name, rate in median.items():
        print(f"  {name:<32}{rate:>10,.0f}")
    for mine, peer in (("noisyir", "trainer"), ("noisyir", "bare loop"), ("noisyir steps only", "peer steps only")):
        ratio = [a / b for a, b in zip(rates[mine], rates[peer], strict=True)]
        print(f"  {mine} / {peer}: {statistics.median(ratio):.1f}x (turns: {', '.join(f'{r:.1f}' for r in ratio)})")


def read_pairs(squad: str | None) -> Texts:
    """(query, passage) texts of the training split, in a fixed random order."""
    source = (Squad(path=squad) if squad else Pydocs()).open()
    passages = {item.doc_id: passage_text(item.title, item.text) for item in source.documents()}
    queries = {item.query_id: item.text for item in source.queries()}
    pairs = [(queries[j.query_id], passages[j.doc_id]) for j in source.judgements() if j.split == "train"]
    return [pairs[i] for i in np.random.default_rng(0).permutation(len(pairs))]


def ours(folder: Path, texts: Texts, params: TrainDprParams) -> dict[str, float]:
    from noisyir.models.bi_encoder import load_bi_encoder

    encoder = load_bi_encoder(folder, "cpu")
    began = time.perf_counter()
    pairs = tokenised(encoder, texts)
    ready = time.perf_counter()
    with tempfile.TemporaryDirectory() as work:
        context = TrainingContext(
            rng=lambda *purpose: np.random.default_rng(list(map(ord, "/".join(map(str, purpose))))),
            work=Path(work), checkpoint_seconds=60.0, progress=lambda *_: None, metric=lambda *_: None,
        )  # fmt: skip
        train(encoder, pairs, None, params, Contrastive(), context)
    ended = time.perf_counter()
    steps = len(texts) * params.epochs
    return {"noisyir": steps / (ended - began), "noisyir steps only": steps / (ended - ready)}


def tokenised(encoder: BiEncoder, texts: Texts) -> TrainingPairs:
    """Distinct texts, tokenised, as the stage prepares them."""
    (query_texts, query), (passage_texts, passage) = (distinct([pair[side] for pair in texts]) for side in (0, 1))
    known = np.unique(np.stack([query, passage], axis=1), axis=0)
    return TrainingPairs(
        queries=encoder.tokenize(query_texts, "query"),
        passages=encoder.tokenize(passage_texts, "passage"),
        query=query,
        passage=passage,
        text=np.arange(len(query_texts)),
        known=Ragged.grouped(known[:, 0], known[:, 1], len(query_texts)),
        negatives=Ragged(np.zeros(len(query_texts) + 1, np.int64), np.empty(0, np.int64)),
    )


def distinct(texts: list[str]) -> tuple[list[str], np.ndarray]:
    """Each text once, and which of them every given text is."""
    encoded = pa.array(texts).dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def theirs(folder: Path, texts: Texts, params: TrainDprParams) -> dict[str, float]:
    trainer = trainer_seconds(folder, texts, params)
    bare, steps_only = loop_seconds(folder, texts, params)
    seconds = {"trainer": trainer, "bare loop": bare, "peer steps only": steps_only}
    return {name: len(texts) / taken for name, taken in seconds.items()}


def trainer_seconds(folder: Path, texts: Texts, params: TrainDprParams) -> float:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(folder), device="cpu")
    queries, passages = zip(*texts, strict=True)
    with tempfile.TemporaryDirectory() as out:
        arguments = SentenceTransformerTrainingArguments(
            output_dir=out, num_train_epochs=1, per_device_train_batch_size=params.batch_size,
            learning_rate=params.learning_rate, lr_scheduler_type="constant", max_grad_norm=params.clip_norm,
            save_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True, logging_strategy="no",
        )  # fmt: skip
        data = Dataset.from_dict({"anchor": list(queries), "positive": list(passages)})
        loss = MultipleNegativesRankingLoss(model, scale=params.scale)
        trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
        began = time.perf_counter()
        trainer.train()
        return time.perf_counter() - began


def loop_seconds(folder: Path, texts: Texts, params: TrainDprParams) -> tuple[float, float]:
    """Seconds of a plain loop around the peer's loss: with, and without, tokenising."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    model = SentenceTransformer(str(folder), device="cpu")
    loss = MultipleNegativesRankingLoss(model, scale=params.scale)
    adam = torch.optim.AdamW(model.parameters(), lr=params.learning_rate, weight_decay=0.0, fused=True)
    tokenising = stepping = 0.0
    for start in range(0, len(texts), params.batch_size):
        began = time.perf_counter()
        columns = zip(*texts[start : start + params.batch_size], strict=True)
        features = [model.preprocess(list(column)) for column in columns]
        ready = time.perf_counter()
        loss(features, None).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), params.clip_norm)
        adam.step()
        adam.zero_grad()
        tokenising, stepping = tokenising + ready - began, stepping + time.perf_counter() - ready
    return tokenising + stepping, stepping


if __name__ == "__main__":
    main()
