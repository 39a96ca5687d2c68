"""sentence-transformers behind Starlette and uvicorn, as one writes it by hand: a request is encoded in a thread.

usage: python -m bench.speed.peer_server FOLDER PORT
"""

import base64
import json
import sys

import uvicorn
from sentence_transformers import SentenceTransformer
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


def main(folder: str, port: str) -> None:
    model = SentenceTransformer(folder, device="cpu", trust_remote_code=False)

    async def embeddings(request: Request) -> JSONResponse:
        asked = json.loads(await request.body())
        vectors = await run_in_threadpool(model.encode, [asked["input"]], normalize_embeddings=True)
        data = [{"index": 0, "embedding": base64.b64encode(vectors[0].tobytes()).decode()}]
        return JSONResponse({"data": data, "model": asked["model"]})

    app = Starlette(routes=[Route("/v1/embeddings", embeddings, methods=["POST"])])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning", access_log=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
