"""Requests and errors of each protocol, field by field as clients send and read them; nothing is computed.

OpenAI: platform.openai.com/docs/api-reference. TEI: Text Embeddings Inference 1.7, openapi.json. Cohere and Jina:
their rerank APIs, which differ only in errors.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field, ValidationError, field_validator

from noisyir.models.text_tokenizer import Side
from noisyir.retrieval.texts import Vectors

Protocol = Literal["openai", "tei", "cohere"]
Texts = str | list[str]
_SIDES: Mapping[str, Side] = {
    "query": "query", "search_query": "query", "passage": "passage", "document": "passage",
    "search_document": "passage",
}  # fmt: skip
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_OPENAI_CODES = {401: "invalid_api_key", 404: "not_found", 413: "request_too_large", 429: "rate_limit_exceeded"}
_TEI_TYPES = {413: "Validation", 422: "Tokenizer", 429: "Overloaded", 503: "Unhealthy"}
MALFORMED: Mapping[Protocol, int] = {"openai": 400, "tei": 422, "cohere": 400}


class RefusedError(Exception):
    """A rejected request.

    Attributes:
        status: HTTP status; None: the protocol's status for malformed requests.
    """

    def __init__(self, message: str, status: int | None = None, param: str | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.param = message, status, param


def protocol_of(path: str) -> Protocol:
    """Return the protocol that a path belongs to."""
    if path.endswith("/rerank") and path != "/rerank":
        return "cohere"
    return "openai" if path.startswith("/v1/") else "tei"


def error_body(protocol: Protocol, status: int, message: str, param: str | None = None) -> dict[str, Any]:
    """Return an error in the protocol's format."""
    if protocol == "openai":
        kind = _OPENAI_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
        return {"error": {"message": message, "type": kind, "param": param, "code": _OPENAI_CODES.get(status)}}
    if protocol == "cohere":
        return {"message": message, "detail": message}
    return {"error": message, "error_type": _TEI_TYPES.get(status, "Backend" if status >= 500 else "Validation")}


def in_one_line(error: ValidationError) -> RefusedError:
    """Return the first validation error of a body, as a rejection."""
    fault = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"] if not str(part).startswith(("function-", "list[", "str")))
    message = fault["msg"].removeprefix("Value error, ")
    return RefusedError(f"{place}: {message}" if place else message, param=place or None)


def side_of(*names: str | None) -> Side | None:
    """Map these words (input_type, prompt_name) to a side; None if none is given."""
    given = [name for name in names if name]
    if unknown := [name for name in given if name.lower() not in _SIDES]:
        why = f"{unknown[0]!r} is no side of the model: send query, passage or document"
        raise RefusedError(why, None, "input_type")
    sides = {_SIDES[name.lower()] for name in given}
    if len(sides) > 1:
        raise RefusedError(f"{' and '.join(map(repr, given))} contradict each other: send one", None, "input_type")
    return sides.pop() if sides else None


def base64_of(vector: Vectors) -> str:
    """Encode the vector's little-endian float32 values, as OpenAI's clients expect."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def _refuse_ids(value: Any) -> Any:
    """Reject token ids, because another tokenizer's ids would mean other words here."""
    inside = value[0] if isinstance(value, list) and value else value
    if isinstance(inside, int | list):
        raise ValueError(
            "send texts: token ids are another model's, and would be other words here (in LangChain, "
            "check_embedding_ctx_length=False)"
        )
    return value


def listed(texts: Texts) -> list[str]:
    """Return one text or several as a list."""
    return [texts] if isinstance(texts, str) else texts


class EmbeddingsRequest(BaseModel):
    """OpenAI's /v1/embeddings, with the side as named by NVIDIA, Cohere and Voyage, or by TEI."""

    input: Texts
    model: str | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: int | None = None
    input_type: str | None = None
    prompt_name: str | None = None

    _no_ids = field_validator("input", mode="before")(_refuse_ids)


class TeiOptions(BaseModel):
    """TEI's embedding options; without `truncate`, texts longer than the model's limit are rejected."""

    prompt_name: str | None = None
    truncate: bool = True
    truncation_direction: Literal["left", "right", "Left", "Right"] = "right"
    normalize: bool | None = None
    dimensions: int | None = None


class EmbedRequest(TeiOptions):
    """TEI's /embed; huggingface_hub sends the options in `parameters`."""

    inputs: Texts
    parameters: TeiOptions | None = None

    _no_ids = field_validator("inputs", mode="before")(_refuse_ids)


class Similar(BaseModel):
    """A text, and the texts to compare it with."""

    source_sentence: str
    sentences: list[str]


class SimilarityRequest(BaseModel):
    """TEI's /similarity."""

    inputs: Similar
    parameters: TeiOptions | None = None


class TeiRerankRequest(BaseModel):
    """TEI's /rerank."""

    query: str
    texts: list[str] = Field(min_length=1)
    raw_scores: bool = False
    return_text: bool = False


class RerankDocument(BaseModel):
    """A Cohere or Jina document: its text."""

    text: str


class RerankRequest(BaseModel):
    """Cohere's and Jina's rerank."""

    query: str
    documents: list[str | RerankDocument] = Field(min_length=1)
    model: str | None = None
    top_n: int | None = Field(None, ge=1)
    return_documents: bool = False

    @property
    def texts(self) -> list[str]:
        """The documents' texts."""
        return [found if isinstance(found, str) else found.text for found in self.documents]


class RankingOptions(BaseModel):
    """OpenAI's ranking options; `ranker` may also name a served system."""

    ranker: str = "auto"
    score_threshold: float | None = None


class SearchRequest(BaseModel):
    """OpenAI's search in a vector store."""

    query: Texts
    max_num_results: int = Field(10, ge=1, le=50)
    ranking_options: RankingOptions = RankingOptions()
    filters: dict[str, Any] | None = None
    rewrite_query: bool = False


class WhyRequest(BaseModel):
    """The search page's request to explain why a document was found."""

    query: str
    doc_id: str


def found_page(queries: Sequence[str], found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a page of results, each with doc_id, title, text, score and further attributes."""
    data = [
        {
            "file_id": hit["doc_id"],
            "filename": hit["title"] or hit["doc_id"],
            "score": hit["score"],
            "attributes": {"doc_id": hit["doc_id"][:512], "title": hit["title"][:512]},
            "content": [{"type": "text", "text": hit["text"]}],
        }
        for hit in found
    ]
    kind = "vector_store.search_results.page"
    return {"object": kind, "search_query": list(queries), "data": data, "has_more": False, "next_page": None}
