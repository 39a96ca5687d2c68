"""A model's copies for onnxruntime and OpenVINO: the same vectors, and close ones where weights have 8 bits."""

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from noisyir.app.other_runtimes import vectors_of
from noisyir.models.bi_encoder import initial_bi_encoder, load_bi_encoder
from noisyir.models.portable import padded
from noisyir.models.settings import InitModelParams
from noisyir.models.weights import MINILM, locate_weights

EXACT, CLOSE = 1e-5, 0.95  # largest difference of whole weights; least cosine of weights of 8 bits
TEXTS = ["parse a date and a date", "", "open the file, read it line by line, and close the file again", "z"]
SHAPES = [{"backbone": "static"}, {"backbone": "transformer", "layers": 1, "query_prefix": "query: "}]


@pytest.fixture(scope="module", params=SHAPES, ids=["static", "transformer"])
def encoder(request, tmp_path_factory):
    """A model as it is exported: saved, and loaded again."""
    folder = tmp_path_factory.mktemp("model") / request.param["backbone"]
    initial_bi_encoder(locate_weights(MINILM, "model.weights"), InitModelParams(**request.param)).save(folder)
    return folder, load_bi_encoder(folder, "cpu")


def check(folder, encoder, side, copies):
    ours = vectors_of(encoder, TEXTS, side)
    whole, small = (opened()(padded(encoder.ids(TEXTS, side))) for opened in copies.values())
    assert np.abs(whole - ours).max() < EXACT
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(small, axis=1)
    assert ((small * ours).sum(axis=1)[norms > 0] > CLOSE * norms[norms > 0]).all() and not small[norms == 0].any()
    encode = SentenceTransformer(str(folder), device="cpu")
    theirs = (encode.encode_query if side == "query" else encode.encode_document)(TEXTS)
    assert np.abs(theirs - ours).max() < EXACT


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["onnx", "openvino"])
def test_every_runtime_gives_the_models_vectors(encoder, runtime):
    for package in {"onnx": ("onnxscript", "onnxruntime"), "openvino": ("openvino", "nncf")}[runtime]:
        pytest.importorskip(package, reason="needs the extra: pip install 'noisyir[export]'")
    from noisyir.app.exports import onnx, openvino

    folder, model = encoder
    write = {"onnx": onnx.write_side, "openvino": openvino.write_side}[runtime]
    copies = write(folder, model, "passage", "model")
    for side in ("query", "passage"):
        check(folder, model, side, copies)
