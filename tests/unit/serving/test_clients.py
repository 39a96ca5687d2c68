"""The clients that people have, unchanged, against a live server: what they get is what the model computes here."""

import base64
from itertools import pairwise

import cohere
import numpy as np
import openai
import pytest
import torch
from huggingface_hub import InferenceClient
from sentence_transformers import SentenceTransformer

from noisyir.app.lookup import find_model
from noisyir.models.bi_encoder import load_bi_encoder
from noisyir.models.ranker import load_ranker
from noisyir.models.text_tokenizer import passage_text
from noisyir.retrieval.encode import embed_all
from noisyir.retrieval.numpy_bm25 import NumpyBm25
from noisyir.serving.loading import ServedModel
from tests.served import DOCUMENTS, corpus, http, make_world, options, random_encoder, serving
from tests.tiny_models import tiny_bert, tiny_classifier, tiny_encoder

TEXTS = ["w1 w2 w2", "w3", "w4 w59 unknown", ""]


def vectors_of(world, texts, side="passage", name="world"):
    encoder = load_bi_encoder(world.builds.folder(find_model(world, name)), "cpu")
    return embed_all(encoder, encoder.tokenize(texts, side), side, 4096)


@pytest.fixture
def client(served):
    return openai.OpenAI(base_url=f"{served}/v1", api_key="none", max_retries=0)


def test_openai_embeds_texts(client, world):
    wanted = vectors_of(world, TEXTS)
    for form in ("float", "base64"):
        found = client.embeddings.create(input=TEXTS, model="world", encoding_format=form)
        vectors = [one.embedding for one in found.data]
        if form == "base64":
            vectors = [np.frombuffer(base64.b64decode(text), "<f4") for text in vectors]
        np.testing.assert_allclose(vectors, wanted, atol=1e-6)
        assert [one.index for one in found.data] == [0, 1, 2, 3] and found.usage.total_tokens == 7
    plain = client.embeddings.create(input=TEXTS[0], model="world")  # base64, decoded by the client
    np.testing.assert_allclose(plain.data[0].embedding, wanted[0], atol=1e-6)
    assert [model.id for model in client.models.list()] == ["world"] and client.models.retrieve("world").id == "world"


def test_openai_searches_the_index(client, world):
    query = vectors_of(world, ["w1 w2"], "query")[0]
    rows = corpus().to_pylist()
    scores = vectors_of(world, [passage_text(row["title"], row["text"]) for row in rows]) @ query
    found = client.vector_stores.search("world", query="w1 w2", max_num_results=5).data
    assert [hit.file_id for hit in found] == [f"d{n}" for n in np.argsort(-scores, kind="stable")[:5]]
    np.testing.assert_allclose([hit.score for hit in found], np.sort(scores)[::-1][:5], atol=1e-5)
    assert found[0].content[0].text == rows[int(found[0].file_id[1:])]["text"]
    by_words = client.vector_stores.search("world", query="w1 w2", ranking_options={"ranker": "bm25"}).data
    texts = [hit.content[0].text.split() + hit.filename.split() for hit in by_words]
    assert len(by_words) == 10 and all({"w1", "w2"} & {*text} for text in texts)
    (terms,) = [meta.ref("lexical_index") for meta in world.builds.all() if meta.stage == "bm25_index"]
    own = NumpyBm25(world.builds.folder(terms) / "bm25s", k1=1.2, b=0.4).search(["w1 w2"], 10)  # as the run had it
    assert [hit.score for hit in by_words] == pytest.approx(own.scores.tolist())
    two = client.vector_stores.search("world", query=["w1 w2", "w7"], max_num_results=50).data
    assert len({hit.file_id for hit in two}) == len(two) == 50
    assert all(one.score >= other.score for one, other in pairwise(two))
    least = found[2].score
    kept = client.vector_stores.search("world", query="w1 w2", ranking_options={"score_threshold": least}).data
    assert [hit.file_id for hit in kept] == [hit.file_id for hit in found[:3]]
    assert [store.id for store in client.vector_stores.list()] == ["world"]
    assert client.vector_stores.retrieve("world").file_counts.total == DOCUMENTS


def test_openai_reads_what_is_wrong(client):
    with pytest.raises(openai.NotFoundError, match="called 'world'"):
        client.embeddings.create(input="w1", model="text-embedding-3-small")
    with pytest.raises(openai.NotFoundError, match="called 'world'"):
        client.vector_stores.search("other", query="w1")
    for wrong in ([1, 2, 3], [[1, 2]]):
        with pytest.raises(openai.BadRequestError, match="token ids"):
            client.embeddings.create(input=wrong, model="world")
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(input="w1", model="world", dimensions=17)
    assert refused.value.param == "dimensions" and refused.value.type == "invalid_request_error"
    whole, cut = (
        np.array(client.embeddings.create(input="w1", model="world", dimensions=length).data[0].embedding)
        for length in (16, 8)
    )
    assert len(cut) == 8 and cut == pytest.approx(whole[:8] / np.linalg.norm(whole[:8]), abs=1e-6)
    said = client.embeddings.with_raw_response.create(input="w1", model="world", dimensions=8).headers
    assert "trained to be cut to none" in said["noisyir-warning"]
    wrong_ones = {"max_num_results": 51, "filters": {"key": "a", "value": "b", "type": "eq"}, "query": []}
    for name, value in {**wrong_ones, "ranking_options": {"ranker": "colbert"}}.items():
        with pytest.raises(openai.BadRequestError):
            client.vector_stores.search("world", **{"query": "w1", name: value})


def test_huggingface_hub_speaks_tei(served, world):
    for address in (served, f"{served}/embed"):
        client = InferenceClient(address)
        found = client.feature_extraction("w1 w2 w2", prompt_name="query", truncate=True, normalize=True)
        np.testing.assert_allclose(found, vectors_of(world, ["w1 w2 w2"], "query"), atol=1e-6)
    wanted = vectors_of(world, ["w1", "w1 w2", "w9"])
    found = InferenceClient(served).sentence_similarity("w1", other_sentences=["w1 w2", "w9"])
    np.testing.assert_allclose(found, wanted[1:] @ wanted[0], atol=1e-5)


def test_cohere_reranks_by_similarity(served, world):
    query, *texts = vectors_of(world, ["w1 w2", "w9", "w1 w2", "w1 w7"])
    for client in (cohere.Client("key", base_url=served), cohere.ClientV2("key", base_url=served)):
        found = client.rerank(model="world", query="w1 w2", documents=["w9", "w1 w2", "w1 w7"], top_n=2).results
        assert [one.index for one in found] == [1, 2]
        np.testing.assert_allclose(
            [one.relevance_score for one in found], [texts[1] @ query, texts[2] @ query], atol=1e-5
        )
        with pytest.raises(cohere.errors.BadRequestError, match="documents"):
            client.rerank(model="world", query="w1", documents=[])


def test_jina_and_tei_share_a_path(served):
    texts = ["w9", "w1 w2"]
    by_jina = http.post(f"{served}/rerank", json={"query": "w1", "documents": [{"text": text} for text in texts],
                                                   "return_documents": True}).json()  # fmt: skip
    by_tei = http.post(f"{served}/rerank", json={"query": "w1", "texts": texts, "return_text": True}).json()
    assert [(row["index"], row["relevance_score"], row["document"]["text"]) for row in by_jina["results"]] == [
        (row["index"], row["score"], row["text"]) for row in by_tei
    ]
    assert by_tei[0]["index"] == 1


def test_vectors_are_those_of_sentence_transformers_by_side(tmp_path, store, caplog):
    """Of a transformer with prefixes; who leaves out the side gets a passage's, a header, and one line in the log."""
    encoder = tiny_encoder(
        tiny_bert(tmp_path / "bert"), backbone="transformer", query_prefix="w7 ", passage_prefix="w8 "
    )
    encoder.save(tmp_path / "mine")
    theirs = SentenceTransformer(str(tmp_path / "mine"), device="cpu", trust_remote_code=False)
    with serving(options(store, model=str(tmp_path / "mine"))) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
        for side, encode in (("query", theirs.encode_query), ("passage", theirs.encode_document)):
            found = client.embeddings.create(
                input=TEXTS, model="mine", encoding_format="float", extra_body={"input_type": side}
            )
            np.testing.assert_allclose([one.embedding for one in found.data], encode(TEXTS), atol=1e-5)
        answers = [http.post(f"{address}/v1/embeddings", json={"input": TEXTS}) for _ in range(2)]
        assert all("embedded as a passage" in answer.headers["noisyir-warning"] for answer in answers)
        np.testing.assert_allclose(
            [one["embedding"] for one in answers[0].json()["data"]], theirs.encode_document(TEXTS), atol=1e-5
        )
        about = http.get(f"{address}/info").json()["noisyir"]
        assert about["prompts"] == {"query": "w7 ", "passage": "w8 "} and "passage" in about["without_input_type"]
        assert about["audit"]["rate"] is None and about["audit"]["reason"]
        wrong = http.post(
            f"{address}/v1/embeddings", json={"input": "w1", "input_type": "query", "prompt_name": "passage"}
        )
        assert wrong.status_code == 400
        long = {"inputs": "w1 " * 40, "truncate": False}
        assert http.post(f"{address}/embed", json=long).status_code == 413
        assert http.post(f"{address}/embed", json={**long, "inputs": "w1 " * 9}).status_code == 200
    assert len([row for row in caplog.records if "two sides" in row.message]) == 1


def test_a_ranker_that_was_trained_reranks(tmp_path, store):
    folder = tiny_classifier(tmp_path / "ranker")
    (folder / "ranker.json").write_text('{"max_len": 32}')
    make_world(store, random_encoder(), ranker=folder)
    texts = [f"w{n} w{n + 1}" for n in range(40)]
    with serving(options(store)) as address:
        raw = http.post(f"{address}/rerank", json={"query": "w1 w2", "texts": texts, "raw_scores": True}).json()
        likely = http.post(f"{address}/v1/rerank", json={"query": "w1 w2", "documents": texts}).json()["results"]
        assert http.get(f"{address}/info").json()["noisyir"]["rerank"] == "ranker"
    with torch.inference_mode():
        wanted = load_ranker(folder, "cpu")(["w1 w2"] * 40, texts).numpy()
    assert [row["index"] for row in raw] == np.argsort(-wanted, kind="stable").tolist()
    np.testing.assert_allclose([row["score"] for row in raw], np.sort(wanted)[::-1], atol=1e-4)
    np.testing.assert_allclose(
        [row["relevance_score"] for row in likely], 1 / (1 + np.exp(-np.sort(wanted)[::-1])), atol=1e-4
    )


def test_vectors_that_are_not_normed_stay_so(store):
    make_world(store, random_encoder(similarity="dot"))
    with serving(options(store)) as address:
        own = np.array(http.post(f"{address}/embed", json={"inputs": ["w1", "w2 w3"]}).json())
        normed = np.array(http.post(f"{address}/embed", json={"inputs": ["w1", "w2 w3"], "normalize": True}).json())
    np.testing.assert_allclose(own, vectors_of(store, ["w1", "w2 w3"]), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(normed, axis=1), 1, atol=1e-5)
    assert abs(np.linalg.norm(own, axis=1) - 1).min() > 0.1


def test_info_says_which_model_and_index_answer(served, world):
    told = http.get(f"{served}/info").json()
    model = ServedModel(options(world))
    assert told["model_sha"] == told["noisyir"]["digest"] == find_model(world, "world").digest
    assert told["noisyir"]["index"]["digest"] == model.index.ref.digest
    assert told["noisyir"]["systems"] == ["vectors", "bm25"] and told["noisyir"]["without_input_type"] is None
