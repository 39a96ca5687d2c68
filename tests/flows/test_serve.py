"""`noisyir serve` as a process: a run's hybrid and audit, several processes, its end, a kill, and MCP."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import pyarrow.parquet as pq
import pytest

from noisyir.front.cli import main
from tests.local import free_port
from tests.served import http
from tests.tiny import SETTINGS, write_beir

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
CLI = [sys.executable, "-m", "noisyir.front.cli"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A home in which the tiny experiment ran."""
    folder = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("NOISYIR_HOME", str(folder / "home"))
        data = f"data.path={write_beir(folder / 'beir')}"
        assert main(["run", "demo", *SETTINGS, "methods=[dpr]", "noise.rate=0", data, "--no-track"]) == 0
    return folder / "home"


@contextmanager
def started(home, *arguments):
    """The process of a server that answers, and its address."""
    port = free_port()
    command = [*CLI, "serve", *arguments, "--port", str(port)]
    environment = {**os.environ, "NOISYIR_HOME": str(home), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    address = f"http://127.0.0.1:{port}"
    try:
        while True:
            assert process.poll() is None, process.stderr.read()
            try:
                if http.get(f"{address}/health").status_code == 200:
                    break
            except httpx.TransportError:
                time.sleep(0.1)
        yield process, address
    finally:
        process.kill()
        process.wait()


def searched(address, ranker, query="star moon"):
    body = {"query": query, "ranking_options": {"ranker": ranker}}
    return http.post(f"{address}/v1/vector_stores/demo/search", json=body).json()["data"]


def test_each_system_answers_as_noisyir_search_does(home, capsys, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    with started(home, "demo", "--force") as (_, address):
        for ranker, system in {"vectors": "demo", "bm25": "demo:bm25", "hybrid": "demo:hybrid"}.items():
            assert main(["search", system, "star moon", "-k", "10", "--json", "--force"]) == 0
            wanted = json.loads(capsys.readouterr().out)["hits"]
            found = searched(address, ranker)
            assert [hit["file_id"] for hit in found] == [hit["doc_id"] for hit in wanted], ranker
            assert [hit["score"] for hit in found] == pytest.approx([hit["score"] for hit in wanted], abs=1e-5)
        asked = [("star moon", "hybrid"), ("oven", "hybrid"), ("wind", "hybrid"), ("zzz", "bm25"), ("moon", "bm25")]
        alone = [searched(address, ranker, query) for query, ranker in asked]
        with ThreadPoolExecutor(16) as clients:
            together = list(clients.map(lambda one: searched(address, one[1], one[0]), asked * 10))
        for found, wanted in zip(together, alone * 10, strict=True):
            assert [hit["file_id"] for hit in found] == [hit["file_id"] for hit in wanted]
            assert [hit["score"] for hit in found] == pytest.approx([hit["score"] for hit in wanted], abs=1e-6)
    with started(home, "demo:hybrid", "--force") as (_, address):
        assert searched(address, "auto") == searched(address, "hybrid")


def test_a_judged_audit_of_the_same_data_is_told(home, tmp_path, monkeypatch):
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    data = home.parent / "beir"
    assert main(["audit", str(data), "--out", str(tmp_path / "audit")]) == 0
    with started(home, "demo", "--force") as (_, address):
        told = http.get(f"{address}/info").json()["noisyir"]["audit"]
        assert told["rate"] is None and "judged" in told["reason"] and told["key"]
        assert http.get(f"{address}/audit").text.startswith("<!doctype html>")
        row = pq.read_table(tmp_path / "audit" / "audit.parquet").to_pylist()[0]
        told = http.post(f"{address}/why", json={"query": row["query"], "doc_id": row["doc_id"]}).json()
        assert row["query_id"] in {pair["query_id"] for pair in told["pairs"]}


def test_several_processes_share_a_port_and_their_counts(home):
    with started(home, "demo", "--force", "--workers", "2") as (process, address):
        for _ in range(40):
            with httpx.Client(trust_env=False) as alone:
                assert alone.post(f"{address}/embed", json={"inputs": "star"}).status_code == 200
        counted = http.get(f"{address}/metrics").text
        assert 'noisyir_requests_total{path="/embed",status="200"} 40.0' in counted
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) is not None


def test_what_was_begun_is_answered_when_the_end_comes(home):
    with started(home, "demo", "--force") as (process, address):
        answers = []
        many = {"inputs": ["star moon " * 100] * 2000}
        thread = threading.Thread(target=lambda: answers.append(http.post(f"{address}/embed", json=many)))
        thread.start()
        while "/embed" not in http.get(f"{address}/metrics").text and not answers:
            if 'noisyir_batch_size_count{queue="embed"}' in http.get(f"{address}/metrics").text:
                break
        process.send_signal(signal.SIGTERM)
        thread.join(120)
        assert process.wait(60) == 0 or process.returncode == -signal.SIGTERM
        assert answers[0].status_code == 200 and len(answers[0].json()) == 2000


def test_a_server_that_was_killed_while_loading_starts_again_whole(home):
    for seconds in (0.5, 2.0, 4.0):
        environment = {**os.environ, "NOISYIR_HOME": str(home)}
        killed = subprocess.Popen([*CLI, "serve", "demo", "--force", "--port", str(free_port())], env=environment)
        time.sleep(seconds)
        killed.kill()
        killed.wait()
    with started(home, "demo", "--force") as (_, address):
        assert len(searched(address, "vectors")) == 10


def test_a_name_of_nothing_is_refused_with_what_to_type(home):
    environment = {**os.environ, "NOISYIR_HOME": str(home)}
    done = subprocess.run([*CLI, "serve", "nothing"], env=environment, capture_output=True)
    assert done.returncode == 1 and b"noisyir status --builds" in done.stderr
    for port in ("0", "99999"):
        done = subprocess.run([*CLI, "serve", "demo", "--port", port], env=environment, capture_output=True)
        assert done.returncode == 1 and f"--port {port} is no port".encode() in done.stderr


def test_tools_of_mcp(home):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def asked():
        environment = {**os.environ, "NOISYIR_HOME": str(home)}
        arguments = [*CLI[1:], "serve", "demo", "--force", "--mcp"]
        server = StdioServerParameters(command=CLI[0], args=arguments, env=environment)
        async with stdio_client(server) as streams, ClientSession(*streams) as session:
            await session.initialize()
            names = {tool.name for tool in (await session.list_tools()).tools}
            found = await session.call_tool("search", {"query": "star moon", "k": 3})
            wrong = await session.call_tool("search", {"query": "star moon", "k": 0})
            return names, found, wrong, await session.call_tool("audit_rate", {})

    names, found, wrong, rate = asyncio.run(asked())
    assert names == {"search", "audit_rate"}
    texts = [json.loads(part.text) for part in found.content]
    assert len(texts) == 3 and {*texts[0]} == {"doc_id", "title", "text", "score"}
    assert json.loads(rate.content[0].text)["rate"] is None
    assert getattr(wrong, "is_error", getattr(wrong, "isError", None)) is True
