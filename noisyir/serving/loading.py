"""A model that answers: found by its name and loaded whole, with its index, its ranker, and facts about its data."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch

from noisyir.app.lookup import Indexed, experiment_that_kept, finished_runs, newest_index, terms_of
from noisyir.app.systems import System, find_system
from noisyir.audits.stages.audit import AUDIT
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.provenance import files_digest, lineage
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store, open_store
from noisyir.evaluation.recommendation import HYBRID
from noisyir.methods import experiments
from noisyir.models.backends import CALIBRATED, Backend, check_backend
from noisyir.models.bi_encoder import BiEncoder, load_bi_encoder
from noisyir.models.cross_encoder import CrossEncoder, TextPairs, load_cross_encoder
from noisyir.models.ranker import ranker_max_len
from noisyir.models.text_tokenizer import SIDES, Side, Tokens, as_bags, passage_text
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.registry import CHAMPION
from noisyir.retrieval.bm25 import LexicalSearcher, open_lexical_index
from noisyir.retrieval.encode import Encoder, embed_all
from noisyir.retrieval.fusion import candidates_of, fused_run, fused_scores
from noisyir.retrieval.settings import Bm25Params, SearchParams
from noisyir.retrieval.stages.bm25 import BM25
from noisyir.retrieval.texts import Hits, Vectors, run_table, shortened
from noisyir.retrieval.vector_search import Index, best, dimension_of, open_vectors

FOLLOWED = f"models:/{RETRIEVER.name}@{CHAMPION}"
_ONE = pa.array(["query"])
_PAIRS_SHOWN = 5
_OF_PAIR = ("query_id", "doc_id", "query", "verdict", "judged", "p_clean", "rests_on", "reason")


@dataclass(frozen=True)
class ServeOptions:
    """How a model is served; every process of a server has the same.

    model: a folder, an experiment, a key, or a registered model.  index: None: searched where there is one.
    wait_ms: that a text waits for others where nothing is being computed.  items, tokens: of one request; body: its
    bytes.  waiting: texts that may wait.  names: by which the server goes, besides loopback's.  cors: origins of other
    pages that may ask.  follow: seconds between two looks for a new champion.  force: although another is better.
    """

    model: str
    store: str | None = None
    index: bool | None = None
    backend: Backend = "torch"
    precision: Literal["fp32", "bf16"] = "fp32"
    device: str = "auto"
    threads: int | None = None
    wait_ms: float = 0.0
    items: int = 2048
    tokens: int = 1_000_000
    body: int = 8 << 20
    waiting: int = 8192
    key_file: str | None = None
    names: tuple[str, ...] = ()
    cors: tuple[str, ...] = ()
    follow: float | None = None
    force: bool = False

    @property
    def cpu_threads(self) -> int:
        """Of one process."""
        return Runtime(threads=self.threads).cpu_threads


class Embedded(NamedTuple):
    """Vectors (text, dim) of some texts, and how many tokens were read."""

    vectors: Vectors
    tokens: int


class Ranking(NamedTuple):
    """Rows of documents, best first, and their scores."""

    rows: list[int]
    scores: list[float]


class ServedIndex:
    """Documents and the systems that search them: `vectors`, `bm25` where their terms were indexed, and `hybrid`.

    hybrid: what of the run that kept the model combines the two; None where it did not.
    """

    def __init__(self, store: Store, system: System, options: ServeOptions, hybrid: System | None) -> None:
        found, builds, how = _newest(store, system), store.builds.all(), SearchParams()
        self.ref = found.index.ref("index")
        table = store.builds.table(found.corpus, ("doc_id", "doc_row", "title", "text")).sort_by("doc_row")
        self._columns = {name: table[name].combine_chunks() for name in ("doc_id", "title", "text")}
        self.dimensions = dimension_of(store.builds.folder(self.ref))
        self._vectors: Index = open_vectors(
            store.builds.folder(self.ref), probes=how.probes, breadth=how.breadth,
            device=options.device, threads=options.cpu_threads, few_queries=True,
        )  # fmt: skip
        self._terms: LexicalSearcher | None = None
        if terms := terms_of(builds, found.corpus):
            asked = [meta for meta in builds if meta.stage == BM25.name]
            of = [meta for meta in asked if dict(meta.input_refs())["lexical_index"] == terms.ref("lexical_index")]
            bm25 = Bm25Params(**(of[-1].params if of else {}))
            self._terms = open_lexical_index(
                store.builds.folder(terms.ref("lexical_index")), k1=bm25.k1, b=bm25.b,
                threads=options.cpu_threads, java_heap=Runtime().java_heap,
            )  # fmt: skip
        fused = hybrid.fused if hybrid else None
        self._fusion: dict[str, Any] = store.builds.table(fused.ref("fusion")).to_pylist()[0] if fused else {}
        self._depth = int(hybrid.bm25.params["top_k"]) if hybrid and hybrid.bm25 else 0

    def __len__(self) -> int:
        """How many documents there are."""
        return len(self._columns["doc_id"])

    @property
    def systems(self) -> list[str]:
        """By which documents can be ranked."""
        return ["vectors", *(["bm25"] if self._terms else []), *(["hybrid"] if self._terms and self._fusion else [])]

    def depth(self, k: int) -> int:
        """How many candidates of each side the hybrid takes for its best k."""
        return max(k, self._depth)

    def fused(self, terms: Sequence[Ranking], vectors: Sequence[Ranking], ks: Sequence[int]) -> list[Ranking]:
        """The best documents of two rankings of each query, combined as the run combined them."""
        how, ids = self._fusion, self._columns["doc_id"]
        queries = pa.array([f"{number:06}" for number in range(len(ks))])

        def run(found: Sequence[Ranking]) -> pa.Table:
            rows = pa.array([row for ranking in found for row in ranking.rows], pa.int64())
            scores = np.array([score for ranking in found for score in ranking.scores], np.float32)
            return run_table(queries, Hits(np.array([len(ranking.rows) for ranking in found]), ids.take(rows), scores))

        found = candidates_of(run(terms), run(vectors))
        scores = fused_scores(found, how["by"], how["weight"], how["k"])
        best_of = fused_run(found, scores, max(ks)).to_pydict()
        rankings = [Ranking([], []) for _ in ks]
        for query, name, score in zip(*(best_of[column] for column in ("query_id", "doc_id", "score")), strict=True):
            rankings[int(query)].rows.append(self.row_of[name])
            rankings[int(query)].scores.append(score)
        return [Ranking(rows[:k], kept[:k]) for (rows, kept), k in zip(rankings, ks, strict=True)]

    @cached_property
    def row_of(self) -> dict[str, int]:
        """The row of each document."""
        return {name: row for row, name in enumerate(self._columns["doc_id"].to_pylist())}

    def by_vectors(self, queries: Vectors, ks: Sequence[int]) -> list[Ranking]:
        """The best documents for each vector."""
        scores, rows = best(self._vectors, queries, max(ks))
        found = [min(k, int((row >= 0).sum())) for k, row in zip(ks, rows, strict=True)]
        return [Ranking(rows[n, :k].tolist(), scores[n, :k].tolist()) for n, k in enumerate(found)]

    def by_terms(self, queries: Sequence[str], ks: Sequence[int]) -> list[Ranking]:
        """The best documents for the words of each query."""
        assert self._terms is not None
        hits = self._terms.search(queries, max(ks))
        rows, scores = [self.row_of[name] for name in hits.doc_ids.to_pylist()], hits.scores.tolist()
        ends = np.cumsum(hits.counts).tolist()
        places = [slice(end - n, end - n + min(n, k)) for n, end, k in zip(hits.counts, ends, ks, strict=True)]
        return [Ranking(rows[place], scores[place]) for place in places]

    def texts(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """doc_id, title and text of each document."""
        return [{name: column[row].as_py() for name, column in self._columns.items()} for row in rows]

    def passage(self, row: int) -> str:
        """A document's text, as the model reads it."""
        (found,) = self.texts([row])
        return passage_text(found["title"], found["text"])


class ServedModel:
    """A bi-encoder in memory, and all that it answers with.

    name: as it was asked for; id: as clients call it, a part of a path.  facts: about it and its data.
    """

    def __init__(self, options: ServeOptions) -> None:
        torch.set_num_threads(options.cpu_threads)
        store, folder = open_store(options.store), Path(options.model)
        system = None if (folder / "modules.json").exists() else _system(store, options)
        ref = _model(system) if system else None
        place = store.builds.folder(ref) if ref else folder
        digest = ref.digest if ref else files_digest(folder, (path for path in folder.rglob("*") if path.is_file()))
        self.name, self.digest = options.model, digest
        self.id = folder.resolve().name if ref is None else id_of(options.model)
        self.model: BiEncoder = load_bi_encoder(place, options.device)
        self.index = _index(store, system, options)
        self.default = _default(system) if system else "vectors"
        self._encoder = _encoder(self.model, self.index, options)
        self._precision, self._batch_tokens = options.precision, self.model.batch_tokens(None)
        self.ranker = _ranker(store, ref, options.device) if ref else None
        self.facts = {"digest": digest, **facts_of(store, ref, self.index.ref if self.index else None)}
        audit = audit_of(store, lineage(store, [ref])) if ref and self.index else None
        self._audit = store.builds.table(audit.ref("audit"), _OF_PAIR) if audit else None
        self.audit_page = store.builds.folder(audit.ref("audit_files")) / "audit.html" if audit else None

    @property
    def is_asymmetric(self) -> bool:
        """Whether a text has another vector as a query than as a passage."""
        shape = self.model.shape
        return not shape.shared or shape.query_prefix != shape.passage_prefix

    def embed(self, asked: Sequence[tuple[Sequence[str], Side]]) -> list[Embedded]:
        """Vectors of the texts of each, under cosine of norm 1."""
        found: dict[int, Embedded] = {}
        for side in SIDES:
            places = [place for place, (_, theirs) in enumerate(asked) if theirs == side]
            if places:
                ids = self.model.ids([text for place in places for text in asked[place][0]], side)
                parts = np.cumsum([len(asked[place][0]) for place in places])[:-1]
                counts = [int(lengths.sum()) for lengths in np.split(ids.lengths, parts)]
                vectors = np.split(self._vectors(ids, side), parts)
                found |= dict(zip(places, map(Embedded, vectors, counts), strict=True))
        return [found[place] for place in range(len(asked))]

    def _vectors(self, ids: Tokens, side: Side) -> Vectors:
        tokens = ids if self.model.transformers else as_bags(ids)
        with torch.autocast(self.model.device.type, torch.bfloat16, enabled=self._precision == "bf16"):
            return embed_all(self._encoder, tokens, side, self._batch_tokens)

    def search(self, system: str, asked: Sequence[tuple[str, int]]) -> list[Ranking]:
        """The best k documents of each query by a system."""
        index = self.index
        assert index is not None
        queries, ks = [query for query, _ in asked], [k for _, k in asked]
        if system == "bm25":
            return index.by_terms(queries, ks)
        (found,) = self.embed([(queries, "query")])
        vectors = self.shortened(found.vectors, index.dimensions)
        if system == "vectors":
            return index.by_vectors(vectors, ks)
        depths = [index.depth(k) for k in ks]
        return index.fused(index.by_terms(queries, depths), index.by_vectors(vectors, depths), ks)

    def shortened(self, vectors: Vectors, dimensions: int | None) -> Vectors:
        """The first numbers of each vector, as the model's similarity wants them."""
        return shortened(vectors, dimensions, cosine=self.model.similarity == "cosine")

    def exceeds(self, text: str, side: Side) -> bool:
        """Whether a text is cut before it is read."""
        shape, tokenizer = self.model.shape, self._whole[side]
        prefix, longest = getattr(shape, f"{side}_prefix"), getattr(shape, f"{side}_max_len")
        read = tokenizer.encode(prefix + text, add_special_tokens=bool(self.model.transformers))
        return bool(len(read.ids) > longest)

    @cached_property
    def _whole(self) -> dict[Side, Any]:
        """Tokenizers that do not cut."""
        from tokenizers import Tokenizer

        towers = {"query": self.model.query_tower, "passage": self.model.passage_tower}
        made: dict[Side, Any] = {side: Tokenizer.from_str(towers[side].tokenizer_json) for side in SIDES}
        for tokenizer in made.values():
            tokenizer.no_truncation()
        return made

    def pairs_with(self, doc_id: str) -> list[dict[str, Any]]:
        """Training pairs with this document, the most suspect first, as the audit has them; none without an audit."""
        if self._audit is None:
            return []
        found = self._audit.filter(pc.equal(self._audit["doc_id"], doc_id)).slice(0, _PAIRS_SHOWN)
        pairs: list[dict[str, Any]] = found.to_pylist()
        return pairs

    def relevance(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """The ranker's logits for each query and its texts."""
        assert self.ranker is not None
        queries = [query for query, texts in asked for _ in texts]
        logits = self.ranker.logits(TextPairs(queries, [text for _, texts in asked for text in texts]), None)
        parts = np.cumsum([len(texts) for _, texts in asked])[:-1]
        return [part.tolist() for part in np.split(logits, parts)]


def id_of(name: str) -> str:
    """A name as a part of a path: of a registered model without its alias, of a system its experiment's."""
    plain = experiments.name_of(name).removeprefix("models:/").partition("@")[0]
    return plain.partition(":")[0].replace("/", "-")


def _system(store: Store, options: ServeOptions) -> System:
    """The system of this name, in which a registered model's name alone means its champion.

    ConfigError where another is better, unless it is forced.
    """
    name = FOLLOWED if options.model in (RETRIEVER.name, RETRIEVER.noun) else options.model
    system = find_system(store, name)
    if system.against and not options.force:
        raise ConfigError("serving.force_serves_anyway", against=system.against)
    return system


def _default(system: System) -> str:
    """The name by which a system is searched with."""
    return "hybrid" if system.fused else "vectors" if system.model else "bm25"


def _model(system: System) -> Ref | None:
    """The model that is served: of BM25 the one that its run kept."""
    return system.model or system.kept


def _newest(store: Store, system: System) -> Indexed:
    model = _model(system)
    assert model is not None
    return newest_index(store, model, corpus=system.corpus)


def _hybrid(store: Store, system: System) -> System | None:
    """The system itself where it is one, else the hybrid of the run that kept its model; None where it has none."""
    model = _model(system)
    if system.fused or model is None:
        return system
    experiment = experiment_that_kept(store, model)
    try:
        found = find_system(store, f"{experiment}:{HYBRID}") if experiment else None
    except (ConfigError, StoreError):
        return None
    return found if found and found.model == model else None


def _index(store: Store, system: System | None, options: ServeOptions) -> ServedIndex | None:
    if options.index is False:
        return None
    if system is None:
        if options.index:
            raise StoreError("serving.folder_no_index_name", model=options.model)
        return None
    try:
        return ServedIndex(store, system, options, _hybrid(store, system))
    except StoreError:
        if options.index or not _has_none(store, system):
            raise
        return None


def _has_none(store: Store, system: System) -> bool:
    try:
        _newest(store, system)
    except StoreError:
        return True
    return False


def _encoder(model: BiEncoder, index: ServedIndex | None, options: ServeOptions) -> Encoder:
    check_backend(options.backend, "--backend")
    if options.backend == "torch":
        return model
    from noisyir.models.openvino_encoder import OpenVinoEncoder

    calibration = None
    if options.backend == "openvino-qint8":
        if index is None:
            raise StoreError("serving.backend_openvino_qint_needs")
        calibration = [index.passage(row) for row in range(min(CALIBRATED, len(index)))]
    return OpenVinoEncoder(model, precision=options.precision, threads=options.cpu_threads, calibration=calibration)


def _ranker(store: Store, model: Ref, device: str) -> CrossEncoder | None:
    """The ranker of the run that kept the model; None where it trained none."""
    experiment = experiment_that_kept(store, model)
    runs = finished_runs(store, experiment, "ranker") if experiment else iter(())
    found = next((run.results["ranker"] for run in runs if run.results.get("model") == model), None)
    if found is None:
        return None
    folder = store.builds.folder(found)
    return load_cross_encoder(folder, ranker_max_len(folder), device)


_NO_STORE = "the model is a folder, and its data is not known here: serve it by its experiment or from the registry"
_NOT_AUDITED = "the pairs are not audited: noisyir audit"
_NOT_JUDGED = "no random sample of the pairs was judged: noisyir audit PAIRS --judge"


def facts_of(store: Store, model: Ref | None, index: Ref | None) -> dict[str, Any]:
    """The model's key and experiment, its index, its data's fingerprint, and its audit's rate."""
    if model is None:
        return {"training_data": None, "audit": {"rate": None, "reason": _NO_STORE}}
    behind = lineage(store, [model])
    made = store.builds.meta(model)
    audit = audit_of(store, behind)
    return {
        "key": model.key,
        "experiment": experiment_that_kept(store, model),
        "trained_by": made.stage,
        "created": made.created,
        "index": {"digest": index.digest, "key": index.key} if index else None,
        "training_data": _data(made, behind),
        "audit": rate_of(audit) | ({"key": audit.key, "created": audit.created} if audit else {}),
    }


def _data(made: Meta, behind: Sequence[Meta]) -> dict[str, Any]:
    """The pairs that the trainer read, by digest, and the raw data that they came from."""
    read = dict(made.input_refs()).get("pairs")
    if read is None:
        return {"pairs": None, "source": _source(behind)}
    rows = next((meta.artifacts[read.artifact].rows for meta in behind if meta.build == read.build), None)
    return {"pairs": {"digest": read.digest, "rows": rows}, "source": _source(behind)}


def _source(behind: Sequence[Meta]) -> str | None:
    """The digest of the raw data."""
    return next((meta.inputs.get("source") for meta in behind if meta.stage == "ingest"), None)


def audit_of(store: Store, behind: Sequence[Meta]) -> Meta | None:
    """The newest audit of the same data with the same noise put in, rather one with judgements; None without one."""
    wanted = _source(behind), _put_in(behind)
    found = []
    for meta in reversed(store.builds.all()):
        if meta.stage == AUDIT.name:
            theirs = lineage(store, [meta.ref("audit")], gone=lambda _: None)
            if wanted[0] and (_source(theirs), _put_in(theirs)) == wanted:
                found.append(meta)
    return max(found, key=lambda meta: bool(meta.notes.get("judgements")), default=None)


def _put_in(behind: Sequence[Meta]) -> list[Any]:
    return [dict(meta.in_key) for meta in behind if meta.stage == "corrupt"]


def rate_of(audit: Meta | None) -> dict[str, Any]:
    """The share of wrong pairs with its interval and how many were judged; null, and why, where nobody did."""
    said = audit.notes.get("judgements") if audit else None
    judged = {"judged": said["judged"], "sampled": said["sampled"]} if said else {"judged": 0, "sampled": 0}
    if not said or not said["interval"]:
        return {"rate": None, "reason": _NOT_JUDGED if audit else _NOT_AUDITED, **judged}
    rate, low, high = said["interval"]
    return {"rate": rate, "low": low, "high": high, "confidence": said["confidence"], **judged}
