"""Export of a retriever as ONNX, full-precision and 8-bit, alongside its sentence-transformers folder."""

from functools import partial
from pathlib import Path

from noisyir.app.other_runtimes import Array, Embed, Written, write_copies
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.portable import Padded, write_onnx
from noisyir.models.text_tokenizer import Side

SUFFIX, OF_MODEL = "-onnx", True


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write `onnx/model.onnx` and `onnx/model_int8.onnx`; two towers are named query and document instead of model."""
    needs, load = ("onnx", "onnxscript", "onnxruntime"), 'import onnxruntime; onnxruntime.InferenceSession("{}")'
    return write_copies(store, name, target, licence, write_side, needs=needs, load=load)


def write_side(folder: Path, encoder: BiEncoder, side: Side, stem: str) -> Written:
    """Write both files of a side and return their loaders."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    (folder / "onnx").mkdir(exist_ok=True)
    whole, small = f"onnx/{stem}.onnx", f"onnx/{stem}_int8.onnx"
    write_onnx(encoder, side, folder / whole)
    quantize_dynamic(folder / whole, folder / small, weight_type=QuantType.QInt8, per_channel=True)
    return {file: partial(opened, folder / file) for file in (whole, small)}


def opened(file: Path) -> Embed:
    """Open a graph."""
    import onnxruntime

    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])

    def embed(texts: Padded) -> Array:
        found: Array = session.run(None, dict(texts))[0]
        return found

    return embed
