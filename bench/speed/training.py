"""What the rows of training share: noisyir's pairs from raw texts, its loop, and the peer's Trainer."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.speed.row import Stopwatch, Taken

TextPairs = Sequence[tuple[str, str]]
_FIRST = 8  # pairs of a run before the one that counts


def ours(folder: Path, texts: TextPairs, params: Any) -> Taken:
    """noisyir's loop from raw texts: tokenise once, then train; `step_seconds` are without the tokenising.

    With `params.keep_states` the states are there before the clock starts; `kept_seconds` count their making.
    """
    import numpy as np

    from noisyir.models.at_once import tune_for_training
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.training.bi_encoder import train
    from noisyir.training.learner import Contrastive
    from noisyir.training.run import TrainingContext

    encoder = load_bi_encoder(folder, "cpu")
    tune_for_training(encoder.transformers, encoder.device, params.precision)
    with tempfile.TemporaryDirectory() as states, Stopwatch() as making:
        if params.keep_states:
            _keep_states(encoder, texts, params.freeze, Path(states))
            encoder.read_kept(Path(states))
    encoder.limit(params.freeze, params.lora, 0)
    for some in (texts[:_FIRST], texts):  # the first loads what is loaded at first use
        with tempfile.TemporaryDirectory() as work, Stopwatch() as all_of_it:
            pairs = tokenised(encoder, some)
            context = TrainingContext(
                rng=lambda *purpose: np.random.default_rng(list(map(ord, "/".join(map(str, purpose))))),
                work=Path(work), checkpoint_seconds=60.0, progress=lambda *_: None, metric=lambda *_: None,
            )  # fmt: skip
            with Stopwatch() as steps:
                train(encoder, pairs, None, params, Contrastive(), context)
    alone = {"step_seconds": steps.seconds, "step_cpu_seconds": steps.cpu_seconds}
    with_states = {"kept_seconds": all_of_it.seconds + making.seconds}
    return all_of_it.taken(items=len(texts) * params.epochs, **alone, **with_states)


def _keep_states(encoder: Any, texts: TextPairs, layers: int, folder: Path) -> None:
    """Write the states of all texts, as the stage does."""
    import numpy as np

    from noisyir.models.kept_states import STATES, digest_of, keys_of, lower_states, write_about
    from noisyir.models.text_tokenizer import SIDES

    keys, lengths = [], []
    with (folder / STATES).open("wb") as out:
        for number, side in enumerate(SIDES):
            tokens = encoder.tokenize(_distinct([pair[number] for pair in texts])[0], side)
            tower = encoder.query_tower if side == "query" else encoder.passage_tower
            out.write(lower_states(tower, layers, tokens, encoder.batch_tokens(None)).tobytes())
            keys.append(keys_of(tokens, side))
            lengths.append(tokens.lengths)
    digest = digest_of(encoder.transformers, layers)
    write_about(folder, layers, digest, encoder.dim, np.concatenate(keys), np.concatenate(lengths))


def tokenised(encoder: Any, texts: TextPairs) -> Any:
    """Distinct texts, tokenised, as the stage prepares them."""
    import numpy as np

    from noisyir.training.batches import Ragged, TrainingPairs

    (query_texts, query), (passage_texts, passage) = (_distinct([pair[side] for pair in texts]) for side in (0, 1))
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


def _distinct(texts: list[str]) -> tuple[list[str], Any]:
    """Each text once, and which of them every given text is."""
    import numpy as np
    import pyarrow as pa

    encoded = pa.array(texts).dictionary_encode()
    return encoded.dictionary.to_pylist(), np.asarray(encoded.indices, np.int64)


def theirs(model: Any, loss: Any, texts: TextPairs, **settings: Any) -> Taken:
    """One epoch of SentenceTransformerTrainer from raw texts, as its users run it."""
    from datasets import Dataset
    from sentence_transformers import SentenceTransformerTrainer, SentenceTransformerTrainingArguments

    for some in (texts[:_FIRST], texts):
        queries, passages = zip(*some, strict=True)
        data = Dataset.from_dict({"anchor": list(queries), "positive": list(passages)})
        with tempfile.TemporaryDirectory() as out:
            arguments = SentenceTransformerTrainingArguments(
                output_dir=out, num_train_epochs=1, lr_scheduler_type="constant", save_strategy="no", report_to="none",
                disable_tqdm=True, use_cpu=True, logging_strategy="no", **settings,
            )  # fmt: skip
            trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)
            with Stopwatch() as watch:
                trainer.train()
    return watch.taken(items=len(texts))
