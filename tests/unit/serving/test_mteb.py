"""A task of MTEB, evaluated by MTEB's own client of such endpoints: the same measures as the model in its process."""

import pytest
from sentence_transformers import SentenceTransformer

from noisyir.app.lookup import find_model
from tests.served import corpus, words

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def task():
    """Fifty queries of three words of their document."""
    pytest.importorskip("mteb")
    from datasets import Dataset
    from mteb.abstasks import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    rows = corpus().to_pylist()
    about = {
        "name": "Tiny", "description": "tiny", "reference": None, "type": "Retrieval", "category": "t2t",
        "eval_splits": ["test"], "eval_langs": ["eng-Latn"], "main_score": "ndcg_at_10", "modalities": ["text"],
        "dataset": {"path": "none/none", "revision": "1"}, "date": None, "domains": None, "task_subtypes": None,
        "license": None, "annotations_creators": None, "dialect": None, "sample_creation": None,
        "bibtex_citation": None,
    }  # fmt: skip

    class Tiny(AbsTaskRetrieval):
        metadata = TaskMetadata(**about)

        def load_data(self, *args, **more):
            documents = [{"id": row["doc_id"], "title": row["title"], "text": row["text"]} for row in rows]
            queries = [{"id": f"q{n}", "text": " ".join(words(n)[:3])} for n in range(50)]
            split = {
                "corpus": Dataset.from_list(documents), "queries": Dataset.from_list(queries),
                "relevant_docs": {f"q{n}": {f"d{n}": 1} for n in range(50)}, "top_ranked": None,
            }  # fmt: skip
            self.dataset, self.data_loaded = {"default": {"test": split}}, True

    return Tiny


def test_mteb_measures_the_endpoint_as_the_model(task, served, world):
    import mteb
    from mteb.models import OpenAIAPIEncodeWrapper

    folder = str(world.builds.folder(find_model(world, "world")))
    near = SentenceTransformer(folder, device="cpu", trust_remote_code=False)
    found = [
        mteb.evaluate(model, task(), cache=None, overwrite_strategy="always").task_results[0].scores["test"][0]
        for model in (OpenAIAPIEncodeWrapper(served, "world", modalities=["text"], use_chat_template=False), near)
    ]
    assert 0.3 < found[0]["ndcg_at_10"] < 1
    assert found[0]["ndcg_at_10"] == pytest.approx(found[1]["ndcg_at_10"], abs=1e-3)
