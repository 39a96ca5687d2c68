"""The judging page's server: who may call it, what it takes, and what it says."""

import json
import re
import stat

import pytest
from starlette.testclient import TestClient

from noisyir.audits.judging.server import Access, judging_app
from tests.unit.app.judging_world import SPICE, session

TOKEN = "a-token"
HOST = "http://127.0.0.1:4711"


@pytest.fixture
def judging(tmp_path):
    made = session(tmp_path)
    yield made
    made.finish()


@pytest.fixture
def client(judging):
    return TestClient(judging_app(judging, TOKEN, lambda: {"summary": "all"}), base_url=HOST)


def asked(client, count=5):
    return client.get(f"/{TOKEN}/pairs?count={count}").json()["pairs"]


def ids(pair):
    return {"query_id": pair["query_id"], "doc_id": pair["document"]["doc_id"]}


def post(client, name, body, **headers):
    return client.post(f"/{TOKEN}/{name}", json=body, headers=headers)


def test_pairs_are_shown_without_what_the_machine_thinks(client):
    first, *_ = found = asked(client)
    assert len(found) == 5
    assert set(first) == {"query_id", "query", "document", "others"}
    assert [other["doc_id"] for other in first["others"]] == [f"o{first['query_id'][1:]}{end}" for end in "ab"]
    assert first["others"][0]["text"] == f"text of {first['others'][0]['doc_id']}"
    assert not re.search("score|p_clean|similarity|teaching", json.dumps(found))


def test_answers_undo_and_skip(client, judging, tmp_path):
    first, second, third = asked(client, 3)
    state = post(
        client, "answer", ids(first) | {"verdict": "wrong", "replacement": first["others"][0]["doc_id"]}
    ).json()["state"]
    assert state["judged"] == 1 and state["last"] == ids(first) | {"verdict": "wrong"}
    assert post(client, "skip", ids(second)).status_code == 200
    assert asked(client, 1) == [third]
    assert post(client, "undo", ids(first)).json()["found"] == first
    assert asked(client, 1) == [first]
    assert post(client, "undo", {}).json()["found"] is None
    assert post(client, "finish", {}).json()["found"] == {"summary": "all"}
    assert len((tmp_path / "judgements.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/", {}, 403),
        ("/x/", {}, 403),
        (f"/{TOKEN}x/pairs", {}, 403),
        ("/tökén/pairs", {}, 403),
        (f"/{TOKEN}/nothing", {}, 404),
        (f"/{TOKEN}/pairs", {"host": "evil.example"}, 421),
        (f"/{TOKEN}/pairs", {"host": "evil.example:4711"}, 421),
        (f"/{TOKEN}/pairs", {"host": "127.0.0.1.evil.example"}, 421),
        (f"/{TOKEN}/pairs", {"host": "[::"}, 421),
        (f"/{TOKEN}/pairs", {"origin": "http://evil.example"}, 403),
        (f"/{TOKEN}/pairs", {"origin": "http://127.0.0.1:8080"}, 403),
        (f"/{TOKEN}/pairs", {"origin": "null"}, 403),
        (f"/{TOKEN}/pairs", {"origin": HOST}, 200),
        (f"/{TOKEN}/pairs", {"host": "localhost:4711"}, 200),
    ],
)
def test_only_the_page_itself_may_ask(client, path, headers, status):
    assert client.get(path, headers=headers).status_code == status


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_what_a_form_can_send_is_refused(client, judging, kind):
    body = json.dumps(ids(asked(client, 1)[0]) | {"verdict": "wrong"})
    answer = client.post(f"/{TOKEN}/answer", content=body, headers={"content-type": kind})
    assert answer.status_code == 415 and judging.state()["judged"] == 0


def test_an_answer_is_posted_never_got(client):
    assert client.get(f"/{TOKEN}/answer").status_code == 405


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b"{", b"\xff", b'{"verdict": "' + b"x" * 70_000 + b'"}', b"[" * 5000]
)
def test_bodies_that_are_no_object_are_refused(client, body):
    answer = client.post(f"/{TOKEN}/answer", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "change",
    [{"verdict": "maybe"}, {"verdict": None}, {"verdict": ["wrong"]}, {"query_id": 7}, {"doc_id": "other"},
     {"replacement": 3}],
)  # fmt: skip
def test_answers_that_make_no_sense_are_refused_and_not_kept(client, judging, change):
    body = ids(asked(client, 1)[0]) | {"verdict": "wrong", "replacement": None} | change
    answer = post(client, "answer", body)
    assert answer.status_code == 422 and answer.json()["error"]
    assert judging.journal.answers == []


def test_a_disk_that_takes_nothing_is_said_so_that_the_page_tries_again(client, judging, monkeypatch):
    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("noisyir.audits.judging.journal.os.fsync", full)
    answer = post(client, "answer", ids(asked(client, 1)[0]) | {"verdict": "wrong"})
    assert answer.status_code == 507 and "No space left" in answer.json()["error"]


def test_the_page_may_load_nothing_and_holds_no_text_of_the_data(client):
    answer = client.get(f"/{TOKEN}/")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "frame-ancestors 'none'" in policy
    assert len(re.findall(r"'sha256-[\w+/=]+'", policy)) == 2
    assert answer.headers["referrer-policy"] == "no-referrer" and answer.headers["cache-control"] == "no-store"
    assert not re.search(r"https?://|src=|@import|url\(", re.sub(r"url\(#hatch\)", "", answer.text))
    assert SPICE not in answer.text and '<main id="main"' in answer.text


def test_the_token_is_kept_for_a_killed_session_where_only_its_owner_reads_it(tmp_path):
    first = Access.of(tmp_path)
    assert first.port == 0 and len(first.token) >= 32 and first.token != Access.of(tmp_path).token
    kept = Access(4711, first.token)
    kept.keep(tmp_path)
    assert stat.S_IMODE((tmp_path / "judging.json").stat().st_mode) == 0o600
    assert Access.of(tmp_path) == kept and kept.url == f"{HOST}/{first.token}/"
    token = f'"{first.token}"'
    damaged = ["{", "[1]", "[" * 100_000]
    damaged += [f'{{"port": {port}, "token": {token}}}' for port in ("70000", "-1", "0", "1e400", "true", '"4711"')]
    damaged += [f'{{"port": 4711, "token": {word}}}' for word in ('""', '"a"', '"a/b"', r'"\ud800"', r'"a\r\nb"', "3")]
    for text in damaged:
        (tmp_path / "judging.json").write_text(text)
        found = Access.of(tmp_path)
        assert found.port == 0 and found.token != first.token, text


ODD = ["\ud800", "", " ", "a\x00b", "o1", "\u202e", "x" * 60_000]


@pytest.mark.parametrize("text", ODD, ids=repr)
@pytest.mark.parametrize("field", ["query_id", "doc_id", "replacement", "verdict"])
@pytest.mark.parametrize("name", ["answer", "undo", "skip"])
def test_a_post_with_odd_texts_is_answered_and_changes_nothing(judging, tmp_path, name, field, text):
    client = TestClient(judging_app(judging, TOKEN, dict), base_url=HOST, raise_server_exceptions=False)
    (first,) = asked(client, 1)
    body = json.dumps(ids(first) | {"verdict": "wrong", field: text})
    found = client.post(f"/{TOKEN}/{name}", content=body, headers={"content-type": "application/json"})
    assert found.status_code in (200, 400, 422) and (name != "answer" or found.status_code != 200)
    assert not (tmp_path / "judgements.jsonl").exists()
    assert post(client, "answer", ids(first) | {"verdict": "clean"}).status_code == 200


@pytest.mark.parametrize("count", ["9" * 5000, "-1", "\u0663", "1e3", "0"])
def test_any_count_of_pairs_is_answered(judging, count):
    client = TestClient(judging_app(judging, TOKEN, dict), base_url=HOST, raise_server_exceptions=False)
    assert client.get(f"/{TOKEN}/pairs", params={"count": count}).status_code == 200
