"""A server that speaks S3's protocol, on loopback, for the length of a block; it answers one request at a time."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Lock, Thread
from typing import Any

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


@contextmanager
def s3_server(before: Callable[[Application], Application] = lambda inside: inside) -> Iterator[dict[str, str]]:
    """The environment in which clients find it, with a bucket named `bucket`.  before: what requests pass first."""
    import s3fs
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Observer(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            pass

    inside, one_at_a_time = DomainDispatcherApplication(create_backend_app), Lock()

    def alone(about: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        with one_at_a_time:  # moto looks at a condition and writes in two steps
            return list(inside(about, start))

    server = make_server("127.0.0.1", 0, before(alone), threaded=True, request_handler=Observer)
    Thread(target=server.serve_forever, daemon=True).start()
    environment = {
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
    }
    former = dict(os.environ)
    os.environ |= environment
    try:
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().makedirs("bucket", exist_ok=True)  # the server is new, what it holds is the process's
        yield environment
    finally:
        s3fs.S3FileSystem.clear_instance_cache()
        server.shutdown()
        for name in environment:
            os.environ.pop(name)
        os.environ |= {name: former[name] for name in environment if name in former}
