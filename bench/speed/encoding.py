"""What the rows of encoding share: the model's folder, and passages to normalised vectors on either side."""

from pathlib import Path
from typing import Any, Literal

from bench.speed.row import Stopwatch, Taken, Work
from bench.speed.texts import Texts

LENGTH = 256  # tokens at which all sides truncate
_CALIBRATED = 64  # passages, as the stage's


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

    from noisyir.models.bi_encoder import load_bi_encoder

    encoder = load_bi_encoder(work.folder / "model", device)
    batch_tokens = encoder.batch_tokens(None if device == "cpu" else "auto")
    with torch.autocast(encoder.device.type, torch.bfloat16, enabled=precision == "bf16"):
        return _encoded(work, encoder, batch_tokens)


def ours_by_openvino(work: Work, precision: Literal["fp32", "bf16"], *, quantised: bool = False) -> Taken:
    """The same by encode.backend=openvino, or openvino-qint8; making the graph is not timed."""
    import torch

    from noisyir.models.bi_encoder import load_bi_encoder
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    model = load_bi_encoder(work.folder / "model", "cpu")
    calibration = Texts.read(work.texts).some_passages(_CALIBRATED) if quantised else None
    threads = torch.get_num_threads()
    encoder = OpenVinoEncoder(model, precision=precision, threads=threads, calibration=calibration)
    return _encoded(work, encoder, model.batch_tokens(None))


def _encoded(work: Work, encoder: Any, batch_tokens: int) -> Taken:
    from noisyir.retrieval.encode import embed_all

    passages = Texts.read(work.texts).some_passages(work.size)
    for some in (passages[:64], passages):  # the first loads what is loaded at first use
        with Stopwatch() as watch:
            embed_all(encoder, encoder.tokenize(some, "passage"), "passage", batch_tokens)
    return watch.taken(items=len(passages))


def theirs(work: Work, batch_size: int, folder: Path | None = None, **how: Any) -> Taken:
    """sentence-transformers; folder: of its model, if it is another than noisyir's; how: what that is loaded with."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder or work.folder / "model"), **how)
    passages = Texts.read(work.texts).some_passages(work.size)
    for some in (passages[:64], passages):
        with Stopwatch() as watch:
            model.encode(some, batch_size=batch_size, normalize_embeddings=True)
    return watch.taken(items=len(passages))
