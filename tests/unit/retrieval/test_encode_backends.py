"""encode.backend: vectors near torch's under a key of their own, and one line where its package is not there."""

import re

import numpy as np
import pyarrow as pa
import pytest

from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.detection.detectors.ensemble import Ensemble
from noisyir.detection.stages.score_pairs import SCORE_PAIRS
from noisyir.models import backends
from noisyir.retrieval.settings import EncodeParams
from noisyir.retrieval.stages.encode import ENCODE
from tests.tiny_models import WORDS, tiny_bert, tiny_encoder

TEXTS = [" ".join(WORDS[number : number + 1 + number % 7]) for number in range(20)]
CORPUS = pa.table({
    "doc_id": [f"d{n}" for n in range(20)], "doc_row": pa.array(range(20), pa.int32()), "title": [""] * 20,
    "text": TEXTS,
})  # fmt: skip
QUERIES = pa.table({"query_id": [f"q{n}" for n in range(5)], "text": TEXTS[:5], "split": ["test"] * 5})


def vectors(run_stage_on, model, **params):
    given = {"model": model, "corpus": CORPUS, "queries": QUERIES}
    found = run_stage_on(ENCODE, EncodeParams(splits=("test",), **params), given)
    return [np.array(found[name]["vector"].to_pylist()) for name in ("doc_vectors", "query_vectors")]


def test_the_stage_encodes_by_the_backend_that_is_asked_for(run_stage_on, store, tmp_path):
    pytest.importorskip("openvino", reason="needs the extra: pip install 'noisyir[export]'")
    model = tmp_path / "model"
    tiny_encoder(tiny_bert(tmp_path / "bert"), backbone="transformer").save(model)
    torchs, theirs = (vectors(run_stage_on, model, shard_rows=8, backend=name) for name in ("torch", "openvino"))
    for one, other in zip(torchs, theirs, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)
        assert (one != other).any(), "another program has computed them"
    assert len({meta.key for meta in store.builds.all() if meta.stage == "encode"}) == 2


def test_torch_is_the_default_and_in_no_key():
    keys = [EncodeParams(**given).key_values() for given in ({}, {"backend": "torch"}, {"backend": "openvino-qint8"})]
    assert keys == [{}, {}, {"backend": "openvino-qint8", "eight_bits": 2}]


@pytest.mark.parametrize(
    ("stage", "params", "setting"),
    [(ENCODE, EncodeParams, "encode.backend"), (SCORE_PAIRS, Ensemble, "detectors.NAME.backend")],
)
@pytest.mark.parametrize(("backend", "missing"), [("openvino", "openvino"), ("openvino-qint8", "openvino, nncf")])
def test_a_backend_that_is_not_installed_is_refused_before_any_work(
    monkeypatch, backend, missing, stage, params, setting
):
    monkeypatch.setattr(backends, "find_spec", lambda name: None)
    wanted = rf"^{setting}={backend} needs {missing}: {re.escape(install_hint('export'))}$"
    with pytest.raises(MissingPackageError, match=wanted):
        stage.check_ready(params(backend=backend))
    stage.check_ready(params())
