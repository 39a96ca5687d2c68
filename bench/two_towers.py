"""The two towers of DPR's and AR2's checkpoints, given as safetensors, as one model folder."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from noisyir.base.errors import DataError
from noisyir.engine.outside_errors import one_line
from noisyir.models.bi_encoder import BiEncoder, refuse_too_long
from noisyir.models.layout import Shape
from noisyir.models.soundness import ANEW, opening
from noisyir.models.text_tokenizer import Side
from noisyir.models.transformer_tower import load_transformer, read_tokenizer
from noisyir.models.weights import locate_weights

# prefixes of a tower's weights in the checkpoints, and in Hugging Face's DPR classes
_PREFIXES: Mapping[Side, tuple[str, ...]] = {
    "query": ("question_model.", "question_encoder.bert_model."),
    "passage": ("ctx_model.", "ctx_encoder.bert_model."),
}


def join_towers(
    files: Sequence[str | Path],
    encoder: str,
    folder: str | Path,
    *,
    query_max_len: int = 32,
    passage_max_len: int = 128,
) -> Path:
    """Write one folder, for `model.weights` and SentenceTransformer, with both towers; they score by dot products.

    Args:
        files: One file with both towers, or a file of each.
        encoder: A folder or name with the towers' config.json and tokenizer, such as nghuyong/ernie-2.0-base-en.
        folder: A new folder.
        query_max_len: Tokens of a query, as in AR2.
        passage_max_len: Tokens of a passage, likewise.

    Raises:
        FileExistsError: If the folder exists.
        ValueError: If a tower is missing.
        DataError: If a file is broken.
    """
    folder, source = Path(folder), locate_weights(encoder, "encoder")
    if folder.exists():
        raise FileExistsError(f"{folder} exists: name a new folder")
    shape = Shape("transformer", False, "cls", "dot", "", "", query_max_len, passage_max_len)
    query, passage = (_tower(files, side, source) for side in _PREFIXES)
    refuse_too_long(source, passage.encoder, "*_max_len", query_max_len, passage_max_len)
    BiEncoder(query, passage, shape).eval().save(folder)
    return folder


def _tower(files: Sequence[str | Path], side: Side, source: Path) -> Any:
    """One tower, read by transformers from a folder of its own."""
    from safetensors.torch import save_file

    found = dict(_weights(files, _PREFIXES[side]))
    if not found:
        raise ValueError(
            f"no weight in {', '.join(map(str, files))} begins with {' or '.join(_PREFIXES[side])}: give both towers"
        )
    with TemporaryDirectory() as work, opening(source):
        save_file(found, Path(work, "model.safetensors"), {"format": "pt"})
        Path(work, "config.json").write_bytes((source / "config.json").read_bytes())
        for name, text in read_tokenizer(source).items():
            Path(work, name).write_text(text, encoding="utf-8")
        try:
            with opening(Path(work)):
                return load_transformer(Path(work), "cls")
        except DataError as error:  # its folder is here and gone
            raise DataError(error.code, **{**error.values, "folder": ", ".join(map(str, files))}) from error


def _weights(files: Sequence[str | Path], prefixes: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """The weights under one of the prefixes, without it."""
    from safetensors import SafetensorError, safe_open

    for path in files:
        try:
            with safe_open(path, "pt") as file:
                for name in file.keys():
                    for prefix in filter(name.startswith, prefixes):
                        yield name.removeprefix(prefix), file.get_tensor(name)
        except (OSError, SafetensorError) as error:
            fault = one_line(error)
            raise DataError(
                "models.unreadable", folder=path, fails="is no safetensors", fault=fault, anew=ANEW
            ) from error
