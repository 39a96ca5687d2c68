"""A decoder that learns by adapters, with vectors that are cut, from the command to what others load."""

import json
import random

import numpy as np
import pytest

from noisyir.front.cli import main
from tests.tiny_models import WORDS, tiny_decoder

pytestmark = pytest.mark.slow


def test_a_decoder_by_adapters_is_trained_searched_and_exported_whole_and_by_its_adapters(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    from sentence_transformers import SentenceTransformer

    base, draw, prompt = tiny_decoder(tmp_path / "base"), random.Random(0), "w1 w2 "
    rows = [(f"w{n % 60} {draw.choice(WORDS)}", f"{' '.join(draw.sample(WORDS, 4))} w{n % 60}") for n in range(120)]
    pairs = [json.dumps({"query": f"{query} w{n}", "document": text}) for n, (query, text) in enumerate(rows)]
    (tmp_path / "p.jsonl").write_text("\n".join(pairs) + "\n")
    settings = [
        "data.kind=pairs", f"data.path={tmp_path / 'p.jsonl'}", "data.hold_out={dev: 0.2, test: 0.2}", "noise=null",
        "methods=[dpr]", "bm25_index.engine=bm25s", f"model.weights={base}", "model.backbone=transformer",
        f"model.query_prefix='{prompt}'", "model.query_max_len=16", "model.passage_max_len=24",
        "train.matryoshka=[8, 16]", "train.epochs=1", "train.batch_size=32", "encode.dimensions=16", "name=x",
    ]  # fmt: skip
    (tmp_path / "x.yaml").write_text("name: x\n")
    learn = ["train.lora.rank=4", "model.pooling=last"]

    def noisyir(*args):
        capsys.readouterr()
        code = main([str(arg) for arg in args])
        return code, *capsys.readouterr()

    for wrong, said in {
        "train.lora.targets=[query]": "no linear layer 'query'",
        "train.matryoshka=[32]": "32 is no cut",
        "encode.dimensions=64": "vectors have 32",
        "model.backbone=static": "set model.backbone=transformer",
    }.items():
        code, _, err = noisyir("run", tmp_path / "x.yaml", *settings, *learn, wrong, "--no-track")
        assert code == 1 and said in err and not (tmp_path / "home" / "store" / "encode").exists()
    code, _, err = noisyir("run", tmp_path / "x.yaml", *settings, *learn, "--no-track")
    assert code == 0, err
    code, out, err = noisyir("search", "x:dpr", "w5", "-k", 3, "--json", "--force")
    assert code == 0 and len(json.loads(out)["hits"]) == 3, err
    for kind in ("sentence-transformers", "lora"):
        code, _, err = noisyir("export", "x", "--format", kind, "--to", tmp_path / kind, "--force")
        assert code == 0, err
    whole, adapted = (
        SentenceTransformer(str(tmp_path / kind), device="cpu") for kind in ("sentence-transformers", "lora")
    )
    texts = ["w1 w2", "w3 w4 w5 w6"]
    assert whole.prompts["query"] == adapted.prompts["query"] == prompt
    np.testing.assert_allclose(whole.encode_query(texts), adapted.encode_query(texts), atol=1e-5)
    np.testing.assert_allclose(whole.encode_document(texts), adapted.encode_document(texts), atol=1e-5)
    assert "first 8, 16 numbers" in (tmp_path / "sentence-transformers" / "README.md").read_text()
