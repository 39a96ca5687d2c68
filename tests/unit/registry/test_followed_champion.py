"""A server that follows the registry's champion: no request is lost, and each is answered by one whole model."""

import os
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

from noisyir.app.lookup import find_model
from noisyir.engine.store import Store
from tests.local import free_port, until
from tests.served import http, make_world, options, random_encoder, serving

NAME = "noisyir-retriever"


@pytest.fixture
def promoted(backend, home):
    """`promoted(digest)`: make a version of these bytes the champion."""
    client = backend.client
    client.create_registered_model(NAME)

    def promote(digest: str) -> None:
        version = str(client.create_model_version(NAME, "runs:/none/model").version)
        client.set_model_version_tag(NAME, version, "artifact_digest", digest)
        client.set_model_version_tag(NAME, version, "artifact_key", "k")
        client.set_registered_model_alias(NAME, "champion", version)

    return promote


def asking(address, answers, over) -> list[threading.Thread]:
    """Clients that ask for a vector and for documents until it is over."""

    def ask() -> None:
        while not over.is_set():
            vector = http.post(f"{address}/v1/embeddings", json={"input": "w1 w2", "model": NAME})
            hits = http.post(f"{address}/v1/vector_stores/{NAME}/search", json={"query": "w1 w2"})
            answers.append((vector, hits))

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    return threads


def test_a_new_champion_answers_without_a_lost_request(home, promoted, caplog, monkeypatch):
    store, answers, over = Store(home / "store", home=home), [], threading.Event()
    for seed, name in enumerate(("one", "two")):
        make_world(store, random_encoder(seed), name=name)
    first, second = (find_model(store, name).digest for name in ("one", "two"))
    promoted(first)
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    with serving(options(store, model=NAME, follow=0.1)) as address:

        def answered_by(digest: str) -> bool:
            return http.get(f"{address}/info").json()["model_sha"] == digest

        assert answered_by(first)
        threads = asking(address, answers, over)
        until(lambda: len(answers) > 20)
        promoted(second)
        until(lambda: answered_by(second))
        promoted("bytes that this store does not have")
        until(lambda: "is not followed" in caplog.text)
        over.set()
        for thread in threads:
            thread.join()
        assert answered_by(second) and "no longer in" in caplog.text
    assert {response.status_code for pair in answers for response in pair} == {200}
    vectors = np.array([pair[0].json()["data"][0]["embedding"] for pair in answers])
    assert len(np.unique(vectors.round(5), axis=0)) == 2
    assert len({tuple(hit["file_id"] for hit in pair[1].json()["data"]) for pair in answers}) == 2


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_one_that_is_killed_while_it_takes_a_new_champion_starts_again_with_all_of_it(home, promoted):
    store = Store(home / "store", home=home)
    for seed, name in enumerate(("one", "two")):
        make_world(store, random_encoder(seed), name=name)
    digests = [find_model(store, name).digest for name in ("one", "two")]
    promoted(digests[0])
    port = free_port()
    following = ["serve", NAME, "--follow-champion", "--every", "0.1", "--port", str(port)]
    command = [sys.executable, "-m", "noisyir.front.cli", *following]
    environment = {**os.environ, "NOISYIR_HOME": str(home), "OMP_NUM_THREADS": "1"}
    address, answers = f"http://127.0.0.1:{port}", []

    def is_up(process) -> bool:
        assert process.poll() is None
        try:
            return http.get(f"{address}/health").status_code == 200
        except httpx.TransportError:
            return False

    for turn, seconds in enumerate((0.0, 0.15, 0.3, 1.0)):
        digest = digests[turn % 2]
        with subprocess.Popen(command, env=environment) as process:
            try:
                until(lambda process=process: is_up(process))
                assert http.get(f"{address}/info").json()["model_sha"] == digest
                vector = http.post(f"{address}/v1/embeddings", json={"input": "w1 w2"}).json()["data"][0]["embedding"]
                hits = http.post(f"{address}/v1/vector_stores/{NAME}/search", json={"query": "w1 w2"}).json()["data"]
                answers.append((vector, [hit["file_id"] for hit in hits]))
                promoted(digests[1 - turn % 2])
                time.sleep(seconds)
            finally:
                process.kill()
    assert answers[0] == answers[2] != answers[1] == answers[3]
