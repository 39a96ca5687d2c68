"""The example of docs/how-to/clean.md: sentence-transformers trains on the weights that an audit writes."""

import json
import re
from pathlib import Path

import pytest

from tests.tiny_models import tiny_bert

DOCS = Path(__file__).parents[2] / "docs" / "how-to" / "clean.md"


def test_sentence_transformers_reads_the_column_weight(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    pytest.importorskip("accelerate")
    torch = pytest.importorskip("torch")
    from sentence_transformers import SentenceTransformer

    (example,) = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    (tmp_path / "mine-audit").mkdir()
    rows = [{"query_id": n, "query": f"w{n}", "document": f"w{n} w{n + 20}", "weight": n / 8} for n in range(8)]
    path = tmp_path / "mine-audit" / "mine.cleaned.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    start = tiny_bert(tmp_path / "bert")
    code = example.replace("sentence-transformers/all-MiniLM-L6-v2", str(start))
    code = code.replace('report_to="none"', 'report_to="none", use_cpu=True, learning_rate=0.01')
    assert code.count(str(start)) == 1 and "use_cpu" in code
    made: dict = {}
    exec(compile(code, "docs/how-to/clean.md", "exec"), made)
    before = SentenceTransformer(str(start), device="cpu").encode(["w1"])
    assert not torch.allclose(torch.from_numpy(before), torch.from_numpy(made["model"].encode(["w1"])))

    loss = made["WeightedRanking"](made["model"])
    texts = [made["model"].preprocess(some) for some in (["w1", "w2", "w3"], ["w1 w21", "w2 w22", "w3 w23"])]
    made["model"].eval()
    one, two, all_three = (
        loss([dict(text) for text in texts], torch.tensor(weights)).item()
        for weights in ([1.0, 0.0, 0.0], [0.0, 1.0, 1.0], [1.0, 1.0, 1.0])
    )
    assert one > 0 and one + two == pytest.approx(all_three)
