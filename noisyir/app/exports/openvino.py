"""Export of a retriever for OpenVINO, full-precision and 8-bit, alongside its sentence-transformers folder."""

from functools import partial
from pathlib import Path

from noisyir.app.other_runtimes import Array, Embed, Written, write_copies
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import BiEncoder
from noisyir.models.portable import Padded
from noisyir.models.text_tokenizer import Side

SUFFIX, OF_MODEL = "-openvino", True
_EXACT = {"INFERENCE_PRECISION_HINT": "f32"}  # some processors default to 16 bits


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write `openvino/model.xml` and `openvino/model_int8.xml`.

    Two towers are named query and document instead of model.
    """
    needs, load = ("openvino", "nncf"), 'import openvino; openvino.compile_model("{}")'
    return write_copies(store, name, target, licence, write_side, needs=needs, load=load)


def write_side(folder: Path, encoder: BiEncoder, side: Side, stem: str) -> Written:
    """Write both models of a side and return their loaders."""
    from noisyir.models.openvino_encoder import openvino_graph, without_telemetry

    without_telemetry()
    import nncf
    import openvino

    model = openvino_graph(encoder, side)
    (folder / "openvino").mkdir(exist_ok=True)
    whole, small = f"openvino/{stem}.xml", f"openvino/{stem}_int8.xml"
    openvino.save_model(model, folder / whole, compress_to_fp16=False)
    nncf.set_log_level("ERROR")
    smaller = nncf.compress_weights(model, mode=nncf.CompressWeightsMode.INT8_ASYM)
    openvino.save_model(smaller, folder / small, compress_to_fp16=False)
    return {file: partial(opened, folder / file) for file in (whole, small)}


def opened(file: Path) -> Embed:
    """Open a model."""
    from noisyir.models.openvino_encoder import without_telemetry

    without_telemetry()
    import openvino

    compiled = openvino.compile_model(file, "CPU", _EXACT)

    def embed(texts: Padded) -> Array:
        found: Array = compiled(dict(texts))[0]
        return found

    return embed
