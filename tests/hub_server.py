"""A hub for tests on this machine: a data set and models to read, and repositories that take what is pushed."""

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

COMMIT = "c" * 40


class Hub:
    """What the server has, what it was asked, and what was pushed to it, by path."""

    def __init__(self, files: Mapping[str, bytes], models: Mapping[str, Path], url: str) -> None:
        self.files, self.models, self.url = dict(files), dict(models), url
        self.asked: list[str] = []
        self.sent: list[str] = []  # files of models
        self.created: list[dict[str, object]] = []
        self.checked: list[str] = []
        self.pushed: dict[str, bytes] = {}


class Handler(BaseHTTPRequestHandler):
    """Answers as the Hub does, as far as huggingface_hub asks."""

    hub: Hub

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def answer(self, body: object, status: int = 200, **headers: str) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        hub, path = self.hub, self.path.partition("?")[0]
        hub.asked.append(f"{self.command} {self.path}")
        if path.startswith("/datasets/org/name/resolve/"):
            data = hub.files[path.split("/", 6)[6]]
            self.answer(data, ETag=f'"{hashlib.sha1(data).hexdigest()}"', X_Repo_Commit=COMMIT)
        elif path.startswith("/api/datasets/org/name/tree/"):
            self.answer(
                [{"type": "file", "path": name, "size": len(hub.files[name]), "oid": COMMIT} for name in hub.files]
            )
        elif path.startswith("/api/datasets/org/name"):
            siblings = [{"rfilename": name} for name in hub.files]
            self.answer({"id": "org/name", "sha": COMMIT, "siblings": siblings, "private": False})
        else:
            self.answer_of_model(path.strip("/").split("/"))

    def answer_of_model(self, parts: list[str]) -> None:
        about = parts[:2] == ["api", "models"]
        folder = self.hub.models.get("/".join(parts[2:4] if about else parts[:2]))
        if folder is None:
            self.answer({"error": "Repository not found"}, 404, X_Error_Code="RepoNotFound")
        elif about:
            files = sorted(path for path in folder.rglob("*") if path.is_file())
            siblings = [{"rfilename": str(path.relative_to(folder)), "size": path.stat().st_size} for path in files]
            self.answer({"id": "/".join(parts[2:4]), "sha": COMMIT, "siblings": siblings})
        else:
            data = (folder / "/".join(parts[4:])).read_bytes()
            self.hub.sent.extend(["/".join(parts[4:])] * (self.command == "GET"))
            self.answer(data, ETag=f'"{hashlib.sha256(data).hexdigest()}"', X_Repo_Commit=COMMIT)

    def do_POST(self) -> None:
        hub = self.hub
        hub.asked.append(f"POST {self.path}")
        sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/api/repos/create":
            wanted = json.loads(sent)
            hub.created.append({name: wanted.get(name) for name in ("name", "organization", "visibility")})
            self.answer({"url": f"{hub.url}/{wanted['organization']}/{wanted['name']}"})
        elif self.path == "/api/validate-yaml":  # what the Hub thinks of a card, it alone knows
            hub.checked.append(json.loads(sent)["content"])
            self.answer({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            names = [file["path"] for file in json.loads(sent)["files"]]
            self.answer({"files": [{"path": name, "uploadMode": "regular", "shouldIgnore": False} for name in names]})
        elif "/commit/" in self.path:
            values = [json.loads(line)["value"] for line in sent.splitlines()]
            hub.pushed |= {value["path"]: base64.b64decode(value["content"]) for value in values if "content" in value}
            self.answer({"commitUrl": f"{hub.url}/me/mine/commit/{COMMIT}", "commitOid": COMMIT, "hookOutput": ""})
        else:
            self.answer({}, 404)


@contextmanager
def serving(files: Mapping[str, bytes] | None = None, models: Mapping[str, Path] | None = None) -> Iterator[Hub]:
    """A hub with one data set, org/name, of these files, and models by name, each a folder."""
    kind = type("Serving", (Handler,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    kind.hub = hub = Hub(files or {}, models or {}, f"http://127.0.0.1:{server.server_port}")
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
