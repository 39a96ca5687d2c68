"""What the rows of encoding share: the model's folder, and passages to normalised vectors on either side."""

from typing import Any

from bench.speed.row import Stopwatch, Taken, Work
from bench.speed.texts import Texts

LENGTH = 256  # tokens at which all sides truncate


def save_model(work: Work, **shape: Any) -> None:
    """Write MiniLM as noisyir and the peers read it."""
    from noisyir.models.bi_encoder import initial_bi_encoder
    from noisyir.models.settings import InitModelParams
    from noisyir.models.weights import locate_weights

    params = InitModelParams(query_max_len=LENGTH, passage_max_len=LENGTH, **shape)
    initial_bi_encoder(locate_weights("minilm"), params).save(work.folder / "model")


def ours(work: Work, device: str = "cpu", precision: str = "fp32") -> Taken:
    """noisyir, tokenising included, as its stage encodes a shard."""
    import torch

    from noisyir.engine.runtime import Runtime
    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.retrieval.encode import embed_all

    encoder = load_bi_encoder(work.folder / "model", device)
    batch_tokens = encoder.batch_tokens(Runtime().batch_tokens if device == "cpu" else "auto")
    passages = Texts.read(work.texts).some_passages(work.size)
    for some in (passages[:64], passages):  # the first loads what is loaded at first use
        with Stopwatch() as watch, torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16"):
            embed_all(encoder, encoder.tokenize(some, "passage"), "passage", batch_tokens)
    return watch.taken(items=len(passages))


def theirs(work: Work, batch_size: int, **how: Any) -> Taken:
    """sentence-transformers; how: what its model is loaded with."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(work.folder / "model"), **how)
    passages = Texts.read(work.texts).some_passages(work.size)
    for some in (passages[:64], passages):
        with Stopwatch() as watch:
            model.encode(some, batch_size=batch_size, normalize_embeddings=True)
    return watch.taken(items=len(passages))
