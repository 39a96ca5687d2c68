"""Who may ask and how much: foreign pages, keys, and requests that are malformed, too large, slow or given up."""

import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from noisyir.base.errors import ConfigError
from noisyir.serving import live, traffic
from noisyir.serving.server import keys_of, serve
from tests.served import http, options, serving

SMALL = {"items": 4, "tokens": 40, "body": 2000, "waiting": 8}
CALLS = {
    "/v1/embeddings": {"input": ["w1"]},
    "/embed": {"inputs": "w1"},
    "/": {"inputs": "w1"},
    "/similarity": {"inputs": {"source_sentence": "w1", "sentences": ["w2"]}},
    "/rerank": {"query": "w1", "texts": ["w2"]},
    "/v1/rerank": {"query": "w1", "documents": ["w2"]},
    "/v2/rerank": {"query": "w1", "documents": ["w2"]},
    "/v1/vector_stores/world/search": {"query": "w1"},
    "/why": {"query": "w1", "doc_id": "d1"},
}
MANY = {"/v1/embeddings": {"input": ["w1"] * 5}, "/embed": {"inputs": ["w1"] * 5},
        "/rerank": {"query": "w1", "texts": ["w2"] * 5}, "/v1/rerank": {"query": "w1", "documents": ["w2"] * 5},
        "/v1/vector_stores/world/search": {"query": ["w1"] * 5}}  # fmt: skip


@pytest.fixture(scope="module")
def small(world):
    """A server that takes little at once."""
    with serving(options(world, **SMALL)) as address:
        yield address


def in_shape(path, answer):
    """Whether an error is as the clients of its path read it."""
    said = answer.json()
    if path in ("/v1/rerank", "/v2/rerank"):
        return {*said} == {"message", "detail"}
    if path.startswith("/v1/"):
        return {*said} == {"error"} and {*said["error"]} == {"message", "type", "param", "code"}
    return {*said} == {"error", "error_type"}


@pytest.mark.parametrize("path", CALLS)
def test_each_call_answers_and_tells_what_is_wrong_in_its_own_shape(small, path):
    assert http.post(small + path, json=CALLS[path]).status_code == 200
    deep = b'{"input":' + b"[" * 900 + b"]" * 900 + b"}"
    wrong = [
        b"",
        b"{",
        b"[]",
        b"null",
        b"7",
        b"\xff\xfe",
        deep,
        b'{"input": NaN}',
        b'{"input": "\\ud800"}',
        b'{"inputs": "\\ud800"}',
    ]
    for field in ("input", "inputs", "query", "texts", "documents", "doc_id"):
        wrong += [json.dumps({**CALLS[path], field: value}).encode() for value in (None, {"a": 1}, [], [None], 1e400)]
    seen = set()
    for body in wrong:
        answer = http.post(small + path, content=body, headers={"content-type": "application/json"})
        seen.add(answer.status_code)
        assert answer.status_code in (200, 400, 404, 422), (body, answer.text)
        assert answer.status_code == 200 or in_shape(path, answer), answer.text
    assert seen & {400, 422}
    for answer in (http.put(small + path), http.post(f"{small}{path}x", json={})):
        assert answer.status_code in (404, 405)


@pytest.mark.parametrize("path", CALLS)
@pytest.mark.parametrize(
    ("headers", "fits"),
    [
        ({"host": "evil.example"}, False),
        ({"origin": "http://evil.example"}, False),
        ({"origin": "null"}, False),
        ({"host": "localhost:1"}, True),
        ({"host": "localhost:1", "origin": "http://localhost:2"}, False),
    ],
)
def test_what_another_site_asks_is_refused(small, path, headers, fits):
    answer = http.post(small + path, json=CALLS[path], headers=headers)
    assert answer.status_code == (200 if fits else 403) and (fits or in_shape(path, answer))


def test_cors_is_closed_but_for_sites_that_are_named(world, small):
    asked = {"origin": "https://mine.example", "access-control-request-method": "POST"}
    assert "access-control-allow-origin" not in http.options(f"{small}/embed", headers=asked).headers
    with serving(options(world, cors=("https://mine.example",), names=("box.example",))) as address:
        assert http.options(f"{address}/embed", headers=asked).headers["access-control-allow-origin"] == asked["origin"]
        answer = http.post(f"{address}/embed", json={"inputs": "w1"}, headers={"origin": asked["origin"]})
        assert answer.status_code == 200 and answer.headers["access-control-allow-origin"] == asked["origin"]
        assert http.get(f"{address}/info", headers={"host": "box.example:80"}).status_code == 200
        foreign = http.post(f"{address}/embed", json={"inputs": "w1"}, headers={"origin": "https://other.example"})
        assert foreign.status_code == 403 and "access-control-allow-origin" not in foreign.headers


@pytest.mark.parametrize("path", MANY)
def test_too_much_at_once_is_refused_in_the_protocols_shape(small, path):
    large = [MANY[path], {**CALLS[path], "padding": "x" * 3000}]
    for body in large:
        answer = http.post(small + path, json=body)
        assert answer.status_code == 413 and in_shape(path, answer)
    chunked = http.post(
        small + path, content=iter([json.dumps(large[1]).encode()[at : at + 500] for at in range(0, 3000, 500)])
    )
    assert chunked.status_code == 413 and in_shape(path, chunked)


def test_tokens_are_counted(small):
    texts = [" ".join(["w1 w2 w3"] * 5)] * 4
    assert http.post(f"{small}/v1/embeddings", json={"input": texts[:2]}).status_code == 200
    assert http.post(f"{small}/v1/embeddings", json={"input": texts}).status_code == 413


def test_more_than_may_wait_is_told_to_come_again(world, monkeypatch):
    """And who came first is answered."""
    compute = live.ServedModel.embed
    monkeypatch.setattr(live.ServedModel, "embed", lambda self, asked: time.sleep(0.3) or compute(self, asked))

    def ask(path):
        return http.post(address + path, json=CALLS[path])

    with serving(options(world, waiting=2, wait_ms=0.0)) as address, ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(ask, ["/v1/embeddings", "/embed", "/v1/rerank"] * 8))
    assert {answer.status_code for answer in answers} == {200, 429}
    for answer in answers:
        if answer.status_code == 429:
            assert in_shape(answer.request.url.path, answer) and answer.headers["retry-after"] == "1"


def sent(address, *parts, wait=0.0):
    """What the server says to raw bytes, sent with pauses."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as peer:
        for part in parts:
            peer.sendall(part)
            time.sleep(wait)
        peer.settimeout(5)
        try:
            return peer.recv(65536)
        except (TimeoutError, ConnectionError):
            return b""


def test_slow_and_given_up_requests_harm_nobody(small, monkeypatch, caplog):
    monkeypatch.setattr(traffic, "_BODY_SECONDS", 0.3)
    head = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 40\r\n\r\n"
    assert b" 408 " in sent(small, head, b'{"inp').splitlines()[0]
    host, port = small.removeprefix("http://").split(":")
    for length in (0, 10):
        peer = socket.create_connection((host, int(port)))
        peer.sendall(head + b"x" * length)
        peer.close()
    lines = [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9", b"POST /embed HTTP/1.1", b"GET /info HTTP/1.0"]
    odd = [line + b"\r\n\r\n" for line in lines]
    for garbage in (*odd, head.replace(b"40", b"-4") + b"{}", head.replace(b"40", b"9" * 30)):
        said = sent(small, garbage)
        assert not said or 400 <= int(said.split(b" ")[1]) < 500, (garbage, said)
    assert http.get(f"{small}/health").status_code == 200
    counted = http.get(f"{small}/metrics").text
    assert 'status="5' not in counted and 'status="408"' in counted
    assert not [record for record in caplog.records if record.exc_info]


def test_a_fault_of_ours_is_in_the_log_and_not_in_the_answer(world, monkeypatch, caplog):
    def broken(self, asked):
        raise ZeroDivisionError("a secret")

    with serving(options(world)) as address:
        monkeypatch.setattr("noisyir.serving.loading.embed_all", lambda *_: broken(None, None))
        for path in ("/v1/embeddings", "/embed", "/v1/rerank"):
            answer = http.post(address + path, json=CALLS[path])
            assert answer.status_code == 500 and in_shape(path, answer) and "secret" not in answer.text
    assert "a secret" in caplog.text


def test_a_key_is_asked_for(world, tmp_path):
    file = tmp_path / "keys"
    file.write_text("a-key-of-enough-letters\nanother-key-of-letters\n")
    file.chmod(0o600)
    with serving(options(world, key_file=str(file))) as address:
        for path, body in CALLS.items():
            for key in (None, "Bearer x", "Bearer wrong", "Basic a-key-of-enough-letters", "Bearer \xe9"):
                headers = {"authorization": key.encode("latin-1")} if key else {}
                answer = http.post(address + path, json=body, headers=headers)
                assert answer.status_code == 401 and in_shape(path, answer)
            for key in ("a-key-of-enough-letters", "another-key-of-letters"):
                assert (
                    http.post(address + path, json=body, headers={"authorization": f"Bearer {key}"}).status_code == 200
                )
        assert http.get(f"{address}/health").status_code == http.get(f"{address}/").status_code == 200
        assert http.get(f"{address}/info").status_code == http.get(f"{address}/metrics").status_code == 401


def test_what_would_be_open_to_everyone_is_refused(world, tmp_path):
    with pytest.raises(ConfigError, match="--key-file"):
        serve(options(world), "0.0.0.0", 0, 1, print)
    file = tmp_path / "keys"
    for text, mode in (("short", 0o600), ("", 0o600), ("a-key-of-enough-letters", 0o644)):
        file.write_text(text)
        file.chmod(mode)
        with pytest.raises(ConfigError, match="key-file"):
            keys_of(options(world, key_file=str(file)))
    file.chmod(0o600)  # as the message says
    assert keys_of(options(world, key_file=str(file))) == ["a-key-of-enough-letters"]


def test_requests_of_many_are_answered_with_their_own(small):
    wanted = {
        text: http.post(f"{small}/embed", json={"inputs": text}).json()[0] for text in map("w{}".format, range(40))
    }
    found = {}

    def ask(text):
        found[text] = http.post(f"{small}/embed", json={"inputs": text})

    threads = [threading.Thread(target=ask, args=(text,)) for text in wanted]
    for some in (threads[:8], threads[8:16], threads[16:24]):  # as many as may wait
        for thread in some:
            thread.start()
        for thread in some:
            thread.join()
    for text, answer in found.items():
        assert answer.status_code == 200
        np.testing.assert_allclose(answer.json()[0], wanted[text], atol=1e-6)
