"""A served model: found by name and loaded with its index, its ranker and facts about its data."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import torch

from noisyir.app.lookup import Indexed, experiment_that_kept, finished_runs, newest_index
from noisyir.app.systems import System, find_system, hybrid_with, path_of
from noisyir.base.errors import ConfigError, StoreError
from noisyir.engine.meta import Ref
from noisyir.engine.provenance import files_digest, lineage
from noisyir.engine.store import Store, open_store
from noisyir.models.backends import CALIBRATED, check_backend
from noisyir.models.bi_encoder import BiEncoder, load_bi_encoder
from noisyir.models.cross_encoder import CrossEncoder, TextPairs, load_cross_encoder
from noisyir.models.ranker import ranker_max_len
from noisyir.models.text_tokenizer import SIDES, Side, Tokens, as_bags
from noisyir.registry.kinds import RETRIEVER
from noisyir.registry.registry import CHAMPION
from noisyir.retrieval.encode import Encoder, embed_all
from noisyir.retrieval.texts import Vectors, shortened
from noisyir.serving.facts import audit_of, facts_of
from noisyir.serving.index import Embedded, Ranking, ServedIndex
from noisyir.serving.options import ServeOptions

FOLLOWED = f"models:/{RETRIEVER.name}@{CHAMPION}"
_PAIRS_SHOWN = 5
_OF_PAIR = ("query_id", "doc_id", "query", "verdict", "judged", "p_clean", "rests_on", "reason")


class ServedModel:
    """A bi-encoder in memory with its index, ranker and facts.

    `name` is the requested name, `id` the one that clients use in paths.
    """

    def __init__(self, options: ServeOptions) -> None:
        torch.set_num_threads(options.cpu_threads)
        store, folder = open_store(options.store), Path(options.model)
        system = None if (folder / "modules.json").exists() else _system(store, options)
        ref = system.indexed if system else None
        place = store.builds.folder(ref) if ref else folder
        digest = ref.digest if ref else files_digest(folder, (path for path in folder.rglob("*") if path.is_file()))
        self.name, self.digest = options.model, digest
        self.id = folder.resolve().name if ref is None else path_of(options.model)
        self.model: BiEncoder = load_bi_encoder(place, options.device)
        self.index = _index(store, system, options)
        self.default = "hybrid" if system and system.fused else "bm25" if system and not system.model else "vectors"
        self._encoder = _encoder(self.model, self.index, options)
        self._precision, self._batch_tokens = options.precision, self.model.batch_tokens(None)
        self.ranker = _ranker(store, ref, options.device) if ref else None
        self.facts = {"digest": digest, **facts_of(store, ref, self.index.ref if self.index else None)}
        audit = audit_of(store, lineage(store, [ref])) if ref and self.index else None
        self._audit = store.builds.table(audit.ref("audit"), _OF_PAIR) if audit else None
        self.audit_page = store.builds.folder(audit.ref("audit_files")) / "audit.html" if audit else None

    @property
    def is_asymmetric(self) -> bool:
        """Whether queries and passages are embedded differently."""
        shape = self.model.shape
        return not shape.shared or shape.query_prefix != shape.passage_prefix

    def embed(self, asked: Sequence[tuple[Sequence[str], Side]]) -> list[Embedded]:
        """Embed the texts of each request; vectors have norm 1 under cosine."""
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
        """Rank the best k documents for each (query, k)."""
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
        """Truncate vectors to `dimensions`, renormalized under cosine."""
        return shortened(vectors, dimensions, cosine=self.model.similarity == "cosine")

    def exceeds(self, text: str, side: Side) -> bool:
        """Whether a text is longer than the model reads."""
        shape, tokenizer = self.model.shape, self._whole[side]
        prefix, longest = getattr(shape, f"{side}_prefix"), getattr(shape, f"{side}_max_len")
        read = tokenizer.encode(prefix + text, add_special_tokens=bool(self.model.transformers))
        return bool(len(read.ids) > longest)

    @cached_property
    def _whole(self) -> dict[Side, Any]:
        """Tokenizers without truncation."""
        from tokenizers import Tokenizer

        towers = {"query": self.model.query_tower, "passage": self.model.passage_tower}
        made: dict[Side, Any] = {side: Tokenizer.from_str(towers[side].tokenizer_json) for side in SIDES}
        for tokenizer in made.values():
            tokenizer.no_truncation()
        return made

    def pairs_with(self, doc_id: str) -> list[dict[str, Any]]:
        """Audited training pairs with this document, the most suspect first."""
        if self._audit is None:
            return []
        found = self._audit.filter(pc.equal(self._audit["doc_id"], doc_id)).slice(0, _PAIRS_SHOWN)
        pairs: list[dict[str, Any]] = found.to_pylist()
        return pairs

    def relevance(self, asked: Sequence[tuple[str, Sequence[str]]]) -> list[list[float]]:
        """Ranker logits for each query and its texts."""
        assert self.ranker is not None
        queries = [query for query, texts in asked for _ in texts]
        logits = self.ranker.logits(TextPairs(queries, [text for _, texts in asked for text in texts]), None)
        parts = np.cumsum([len(texts) for _, texts in asked])[:-1]
        return [part.tolist() for part in np.split(logits, parts)]


def _system(store: Store, options: ServeOptions) -> System:
    """The system to serve; a registered model's bare name means its champion.

    Raises:
        ConfigError: If another system is better and `force` is not set.
    """
    name = FOLLOWED if options.model in (RETRIEVER.name, RETRIEVER.noun) else options.model
    system = find_system(store, name)
    if system.doubt and not options.force:
        raise ConfigError("serving.doubtful_model", doubt=system.doubt)
    return system


def _newest(store: Store, system: System) -> Indexed:
    model = system.indexed
    assert model is not None
    return newest_index(store, model, corpus=system.corpus)


def _index(store: Store, system: System | None, options: ServeOptions) -> ServedIndex | None:
    if options.index is False:
        return None
    if system is None:
        if options.index:
            raise StoreError("serving.folder_without_index", model=options.model)
        return None
    try:
        return ServedIndex(store, _newest(store, system), options, hybrid_with(store, system))
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
            raise StoreError("serving.qint8_without_index")
        calibration = [index.passage(row) for row in range(min(CALIBRATED, len(index)))]
    return OpenVinoEncoder(model, precision=options.precision, threads=options.cpu_threads, calibration=calibration)


def _ranker(store: Store, model: Ref, device: str) -> CrossEncoder | None:
    """The ranker from the run that kept the model; None if it trained none."""
    experiment = experiment_that_kept(store, model)
    runs = finished_runs(store, experiment, "ranker") if experiment else iter(())
    found = next((run.results["ranker"] for run in runs if run.results.get("model") == model), None)
    if found is None:
        return None
    folder = store.builds.folder(found)
    return load_cross_encoder(folder, ranker_max_len(folder), device)
