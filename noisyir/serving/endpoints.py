"""HTTP endpoints as one ASGI application: each validates, waits for its batch, and answers in its protocol."""

import asyncio
import logging
import math
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import numpy as np
import orjson
from markupsafe import Markup
from pydantic import BaseModel, ValidationError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from noisyir import __version__
from noisyir.audits.own_pages import OwnPage
from noisyir.audits.page import json_for_html
from noisyir.base.pages.cells import templates
from noisyir.models.text_tokenizer import Side
from noisyir.retrieval.texts import Vectors
from noisyir.serving import protocols
from noisyir.serving.batching import OverloadedError
from noisyir.serving.index import ServedIndex
from noisyir.serving.live import LiveModel
from noisyir.serving.loading import ServedModel
from noisyir.serving.protocols import RefusedError, listed
from noisyir.serving.traffic import AccessGuard, Metrics, answer, read_body, refusal_of

log = logging.getLogger("noisyir")

_WITHOUT_SIDE = "input_type is missing: embedded as a passage"
_OF_AUDIT = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
_PAGE = OwnPage("noisyir.serving", ("texts.js", "search.js"), ("report.css", "search.css"))
_DEPTH = 100  # ranks reported
_MOST_WORDS = 32  # query words left out, one at a time
Asked = TypeVar("Asked", bound=BaseModel)


class Endpoints:
    """The endpoints, with the currently served model; a request keeps the model that it started with."""

    def __init__(self, live: LiveModel, metrics: Metrics, *, has_key: bool) -> None:
        self.metrics, self.has_key, self.options = metrics, has_key, live.options
        self.began = int(time.time())
        self.answer_with(live)

    def answer_with(self, live: LiveModel) -> None:
        """Switch to another model."""
        self.live, self._warned = live, False
        self.metrics.model(live.model.id, live.model.digest)

    def routes(self) -> list[Route]:
        """Return each endpoint by path."""
        posts: dict[str, tuple[type[BaseModel], Any]] = {
            "/v1/embeddings": (protocols.EmbeddingsRequest, self.embeddings),
            "/embed": (protocols.EmbedRequest, self.embed),
            "/similarity": (protocols.SimilarityRequest, self.similarity),
            "/v1/rerank": (protocols.RerankRequest, self.rerank),
            "/v2/rerank": (protocols.RerankRequest, self.rerank),
            "/v1/vector_stores/{id}/search": (protocols.SearchRequest, self.search),
            "/why": (protocols.WhyRequest, self.why),
        }
        gets = {
            "/": self.page,
            "/audit": self.audit,
            "/health": self.health,
            "/info": self.info,
            "/metrics": self.show_metrics,
            "/v1/models": self.models,
            "/v1/models/{id}": self.models,
            "/v1/vector_stores": self.stores,
            "/v1/vector_stores/{id}": self.stores,
        }
        made = [Route(path, self._posting(kind, call), methods=["POST"]) for path, (kind, call) in posts.items()]
        made += [Route(path, self._by_shape, methods=["POST"]) for path in ("/", "/rerank")]
        return made + [Route(path, call, methods=["GET"]) for path, call in gets.items()]

    def _posting(self, kind: type[Asked], call: Callable[[Request, Asked], Awaitable[Response]]) -> Any:
        async def endpoint(request: Request) -> Response:
            return await call(request, _read(kind, await read_body(request, self.options.body)))

        return endpoint

    async def _by_shape(self, request: Request) -> Response:
        """Dispatch /rerank (TEI or Jina) and TEI's root path, used by huggingface_hub, by the fields of the body."""
        body = await read_body(request, self.options.body)
        given = _json(body)
        if "documents" in given:
            return await self.rerank(request, _read(protocols.RerankRequest, body))
        if "texts" in given or request.scope["path"] == "/rerank":
            return await self.rerank_texts(request, _read(protocols.TeiRerankRequest, body))
        if isinstance(given.get("inputs"), dict):
            return await self.similarity(request, _read(protocols.SimilarityRequest, body))
        return await self.embed(request, _read(protocols.EmbedRequest, body))

    # OpenAI ---------------------------------------------------------------------------------------------------

    async def embeddings(self, request: Request, asked: protocols.EmbeddingsRequest) -> Response:
        """POST /v1/embeddings."""
        live, side = self.live, protocols.side_of(asked.input_type, asked.prompt_name)
        _check_model(live, asked.model)
        _check_dimensions(live, asked.dimensions)
        found = await live.embed(listed(asked.input), side)
        in_base64, vectors = asked.encoding_format == "base64", live.model.shortened(found.vectors, asked.dimensions)
        data = [
            {"object": "embedding", "index": n, "embedding": protocols.base64_of(vector) if in_base64 else vector}
            for n, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": found.tokens, "total_tokens": found.tokens}
        whole = {"object": "list", "data": data, "model": live.model.id, "usage": usage}
        return answer(whole, self._warning(live, side, asked.dimensions))

    async def models(self, request: Request) -> Response:
        """GET /v1/models, and single models."""
        name, live = request.path_params.get("id"), self.live
        about = {"id": live.model.id, "object": "model", "created": self.began, "owned_by": "noisyir"}
        if name is None:
            return answer({"object": "list", "data": [about]})
        _check_model(live, name)
        return answer(about)

    async def stores(self, request: Request) -> Response:
        """GET /v1/vector_stores, and single ones: the index, if there is one."""
        name, live = request.path_params.get("id"), self.live
        index = live.model.index
        if name is not None:
            _check_store(live, name)
        documents = len(index) if index else 0
        counts = {"completed": documents, "total": documents, "in_progress": 0, "failed": 0, "cancelled": 0}
        about = {
            "id": live.model.id, "object": "vector_store", "name": live.model.id, "created_at": self.began,
            "last_active_at": None, "status": "completed", "usage_bytes": 0, "file_counts": counts,
            "metadata": {"systems": ",".join(index.systems if index else [])},
        }  # fmt: skip
        if name is not None:
            return answer(about)
        return answer({"object": "list", "data": [about] if index else [], "has_more": False})

    async def search(self, request: Request, asked: protocols.SearchRequest) -> Response:
        """POST /v1/vector_stores/{id}/search; with several queries, each document keeps its best score."""
        live, began = self.live, time.perf_counter()
        index = _check_store(live, request.path_params["id"])
        if asked.filters:
            raise RefusedError("documents have no attributes to filter by: leave filters out", None, "filters")
        system = _system(live, index.systems, asked.ranking_options.ranker)
        queries = listed(asked.query)
        live.check_count(queries)
        found = await asyncio.gather(*(live.search(query, system, asked.max_num_results) for query in queries))
        least = asked.ranking_options.score_threshold
        scores: dict[int, float] = {}
        for row, score in ((row, score) for ranking in found for row, score in zip(*ranking, strict=True)):
            if least is None or score >= least:
                scores[row] = max(score, scores.get(row, -math.inf))
        first = sorted(scores, key=lambda row: -scores[row])[: asked.max_num_results]
        hits = [{**text, "score": scores[row]} for row, text in zip(first, index.texts(first), strict=True)]
        took = f"{1000 * (time.perf_counter() - began):.1f}"
        return answer(protocols.found_page(queries, hits), {"noisyir-system": system, "noisyir-ms": took})

    # TEI ------------------------------------------------------------------------------------------------------

    async def embed(self, request: Request, asked: protocols.EmbedRequest) -> Response:
        """POST /embed: a list of vectors."""
        live, options = self.live, asked.parameters or asked
        side = protocols.side_of(options.prompt_name)
        texts = listed(asked.inputs)
        await _check_tei(live, options, texts, side)
        vectors = live.model.shortened((await live.embed(texts, side)).vectors, options.dimensions)
        return answer(_normed(vectors) if options.normalize else vectors, self._warning(live, side, options.dimensions))

    async def similarity(self, request: Request, asked: protocols.SimilarityRequest) -> Response:
        """POST /similarity: one number per sentence; the source is a query if the model distinguishes queries."""
        live, inputs = self.live, asked.inputs
        one, others = await asyncio.gather(
            live.embed([inputs.source_sentence], "query"), live.embed(inputs.sentences, "passage")
        )
        return answer(_normed(others.vectors) @ _normed(one.vectors)[0])

    async def rerank_texts(self, request: Request, asked: protocols.TeiRerankRequest) -> Response:
        """TEI's POST /rerank: indices and scores, best first."""
        scores = await self.live.relevance(asked.query, asked.texts, raw=asked.raw_scores)
        order = sorted(range(len(scores)), key=lambda row: -scores[row])
        shown = [{"text": asked.texts[row]} if asked.return_text else {} for row in order]
        return answer([{"index": row, "score": scores[row], **more} for row, more in zip(order, shown, strict=True)])

    async def health(self, request: Request) -> Response:
        """GET /health: always healthy, because the server starts listening only after loading the model."""
        return Response()

    async def info(self, request: Request) -> Response:
        """GET /info: TEI's fields, plus facts about the model and its data."""
        model, options = self.live.model, self.options
        shape = model.model.shape
        rerank = "ranker" if model.ranker else "bi-encoder"
        return answer(
            {
                "model_id": model.id,
                "model_sha": model.digest,
                "model_dtype": options.precision,
                "model_type": {"embedding": {"pooling": shape.pooling}},
                "max_input_length": max(shape.query_max_len, shape.passage_max_len),
                "max_client_batch_size": options.items,
                "max_batch_requests": self.live.at_once,
                "max_batch_tokens": options.tokens,
                "max_concurrent_requests": options.waiting,
                "auto_truncate": True,
                "tokenization_workers": 1,
                "version": __version__,
                "noisyir": {
                    **model.facts,
                    "similarity": shape.similarity,
                    "dim": model.model.dim,
                    "matryoshka": shape.matryoshka,
                    "prompts": {"query": shape.query_prefix, "passage": shape.passage_prefix},
                    "asymmetric": model.is_asymmetric,
                    "without_input_type": _WITHOUT_SIDE if model.is_asymmetric else None,
                    "rerank": rerank,
                    "systems": model.index.systems if model.index else [],
                },
            }
        )

    async def show_metrics(self, request: Request) -> Response:
        """GET /metrics, in Prometheus format."""
        return Response(self.metrics.text(), media_type=self.metrics.media_type)

    # Cohere and Jina ------------------------------------------------------------------------------------------

    async def rerank(self, request: Request, asked: protocols.RerankRequest) -> Response:
        """POST /v1/rerank and /v2/rerank."""
        live, texts = self.live, asked.texts
        _check_model(live, asked.model)
        scores = await live.relevance(asked.query, texts)
        order = sorted(range(len(scores)), key=lambda row: -scores[row])[: asked.top_n]
        results = [
            {"index": row, "relevance_score": scores[row]}
            | ({"document": {"text": texts[row]}} if asked.return_documents else {})
            for row in order
        ]
        meta = {"api_version": {"version": request.scope["path"].split("/")[1].removeprefix("v")}}
        return answer({"id": uuid.uuid4().hex, "model": live.model.id, "results": results, "meta": meta})

    # The page -------------------------------------------------------------------------------------------------

    async def page(self, request: Request) -> Response:
        """GET /: the search page."""
        return HTMLResponse(search_page(self.live.model, has_key=self.has_key), headers=_PAGE.headers)

    async def audit(self, request: Request) -> Response:
        """GET /audit: the audit page of the model's data."""
        page = self.live.model.audit_page
        if page is None:
            raise RefusedError("the model's data was not audited here: noisyir audit", 404)
        return FileResponse(page, headers={"Content-Security-Policy": _OF_AUDIT, "Referrer-Policy": "no-referrer"})

    async def why(self, request: Request, asked: protocols.WhyRequest) -> Response:
        """Explain a document's retrieval: its rank in each system, and its score without each query word."""
        live = self.live
        if live.model.index is None or (row := live.model.index.row_of.get(asked.doc_id)) is None:
            raise RefusedError(f"no document {asked.doc_id!r} is in the index", 404)
        return answer(await why(live, asked.query, row))

    def _warning(self, live: LiveModel, side: Side | None, cut_to: int | None) -> dict[str, str]:
        """Return a warning header if a two-sided model gets no side, or vectors are cut to an untrained length."""
        shape = live.model.model.shape
        if cut_to not in (None, live.model.model.dim, *shape.matryoshka):
            lengths = ", ".join(map(str, shape.matryoshka)) or "none"
            return {"noisyir-warning": f"cut to {cut_to} dimensions; the model was trained to be cut to {lengths}"}
        if side or not live.model.is_asymmetric:
            return {}
        if not self._warned:
            self._warned = True
            log.warning("%s has two sides: %s. Clients should send query or passage", live.model.id, _WITHOUT_SIDE)
        return {"noisyir-warning": _WITHOUT_SIDE}


def _check_model(live: LiveModel, name: str | None) -> None:
    if name not in (None, live.model.id, live.model.name):
        raise RefusedError(f"there is no model {name!r} here: it is called {live.model.id!r}", 404, "model")


def _check_store(live: LiveModel, name: str) -> ServedIndex:
    if live.model.index is None or name not in (live.model.id, live.model.name):
        there = f"it is called {live.model.id!r}" if live.model.index else "no index is served"
        raise RefusedError(f"there is no vector store {name!r} here: {there}", 404, "vector_store_id")
    return live.model.index


def _check_dimensions(live: LiveModel, wanted: int | None) -> None:
    dim = live.model.model.dim
    if wanted is not None and not 1 <= wanted <= dim:
        raise RefusedError(
            f"the model has {dim} dimensions, and {wanted} were asked for: send fewer", None, "dimensions"
        )


async def _check_tei(live: LiveModel, options: protocols.TeiOptions, texts: Sequence[str], side: Side | None) -> None:
    _check_dimensions(live, options.dimensions)
    if options.normalize is False and live.model.model.similarity == "cosine":
        raise RefusedError("the model's vectors have norm 1: leave normalize out", None, "normalize")
    if options.truncation_direction.lower() == "left":
        raise RefusedError("texts are cut on the right: leave truncation_direction out", None, "truncation_direction")
    if not options.truncate:
        for text in texts[: live.options.items]:
            if await asyncio.to_thread(live.model.exceeds, text, side or "passage"):
                raise RefusedError("a text is longer than the model reads: shorten it, or send truncate=true", 413)


def _system(live: LiveModel, systems: Sequence[str], wanted: str) -> str:
    if wanted in ("auto", "none") or wanted.startswith("default"):
        return live.model.default
    if wanted not in systems:
        raise RefusedError(f"no ranker {wanted!r} here: {', '.join(systems)}", None, "ranking_options.ranker")
    return wanted


def _read(kind: type[Asked], body: bytes) -> Asked:
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        raise protocols.in_one_line(error) from error


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RefusedError(f"the body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise RefusedError("the body is no JSON object")
    return found


def serving_app(endpoints: Endpoints, keys: Sequence[str], lifespan: Any = None) -> Starlette:
    """Build the application."""
    options = endpoints.options
    middleware = [Middleware(AccessGuard, options=options, keys=keys, metrics=endpoints.metrics)]
    if options.cors:
        methods, headers = ["GET", "POST"], ["authorization", "content-type"]
        cors = Middleware(CORSMiddleware, allow_origins=options.cors, allow_methods=methods, allow_headers=headers)
        middleware.insert(0, cors)

    async def refused(request: Request, error: Exception) -> Response:
        return refusal_of(request, error)

    kinds = (RefusedError, OverloadedError, HTTPException, ClientDisconnect)
    handlers: Any = dict.fromkeys(kinds, refused)
    return Starlette(routes=endpoints.routes(), middleware=middleware, exception_handlers=handlers, lifespan=lifespan)


def _normed(vectors: Vectors) -> Vectors:
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    normed: Vectors = (vectors / np.where(norms > 0, norms, 1)).astype(np.float32)
    return normed


def search_page(model: ServedModel, *, has_key: bool) -> str:
    """Return the page as HTML, without any text of the data."""
    systems = model.index.systems if model.index else []
    known = {"store": model.id, "systems": systems, "has_key": has_key, "audit": model.facts["audit"], "common": []}
    told = {"model": model.id, "documents": len(model.index) if model.index else 0, "systems": systems}
    return (
        templates(_PAGE.room)
        .get_template("search.html")
        .render(style=_PAGE.style, script=_PAGE.script, data=Markup(json_for_html(known)), **told)
    )


async def why(live: LiveModel, query: str, row: int) -> dict[str, Any]:
    """Return the document's rank in each system, its score without each query word, and its training pairs' audit."""
    index = live.model.index
    assert index is not None
    places = {}
    for system in index.systems:
        found = await live.search(query, system, _DEPTH)
        place = found.rows.index(row) if row in found.rows else None
        places[system] = None if place is None else {"rank": place + 1, "score": found.scores[place]}
    parts = re.split(r"(\s+)", query.strip())
    words = list(range(0, len(parts), 2))[:_MOST_WORDS]
    without = ["".join(part for place, part in enumerate(parts) if place != word) for word in words]
    asked = (await live.embed([query, *without], "query")).vectors
    document = (await live.embed([index.passage(row)], "passage")).vectors[0]
    scores = np.asarray(asked @ document).tolist()
    told = [{"word": parts[word], "without": score} for word, score in zip(words, scores[1:], strict=True)]
    pairs = live.model.pairs_with(index.texts([row])[0]["doc_id"])
    return {"places": places, "score": scores[0], "words": told, "pairs": pairs}
