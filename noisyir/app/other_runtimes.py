"""Model copies for other runtimes: the graphs, and their deviation from the original vectors."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from jaxtyping import Float

from noisyir.app.exports.sentence_transformers import write_model
from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.base.pages.cells import markdown_table, percent
from noisyir.data.stages.ingest import INGEST
from noisyir.engine.meta import Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.store import Store
from noisyir.models.bi_encoder import BiEncoder, load_bi_encoder
from noisyir.models.portable import Padded, padded
from noisyir.models.text_tokenizer import SIDES, Side, passage_text

Array = np.ndarray
Embed = Callable[[Padded], Array]
Written = Mapping[str, Callable[[], Embed]]  # graph file to its loader
Write = Callable[[Path, BiEncoder, Side, str], Written]

_SAMPLE = 256  # number of queries, and of documents, to compare copies on
_AT_ONCE, _TOP = 32, 10
_ONE_TOWER: Mapping[Side, str] = {"passage": "model"}
_TWO_TOWERS: Mapping[Side, str] = {"query": "query", "passage": "document"}
_OWN = ("what is measured", "does it say the same?")  # if the model's data is unknown


@dataclass(frozen=True)
class RuntimeDifference:
    """Deviation of a copy: the largest difference and the cosines of vectors, and the shared part of a top ten."""

    file: str
    megabytes: float
    largest: float
    cosine: float
    least_cosine: float
    same_top: float


def write_copies(
    store: Store, name: str, target: Path, licence: str | None, write: Write, *, needs: Sequence[str], load: str
) -> str:
    """Write the model's folder and card with its copies; report each copy's deviation, in the card, too.

    Args:
        write: Writes one side; called with the folder, the model, the side and the file stem.
        load: The line of Python that loads a copy, with {} for its path.

    Raises:
        MissingPackageError: If a needed module cannot be imported; names the extra that installs it.
    """
    if missing := [module for module in needs if find_spec(module) is None]:
        raise MissingPackageError("app.export_needs", missing=", ".join(missing), install_hint=install_hint("export"))
    model = write_model(store, name, target, licence)
    encoder = load_bi_encoder(target, "cpu")
    texts = _sample(store, model)
    own = {side: vectors_of(encoder, texts[side], side) for side in SIDES}
    found = []
    for side, stem in (_ONE_TOWER if encoder.shape.shared else _TWO_TOWERS).items():
        for file, opened in write(target, encoder, side, stem).items():
            embed = opened()
            reads = SIDES if encoder.shape.shared else (side,)
            vectors = {**own, **{read: _embedded(encoder, embed, texts[read], read) for read in reads}}
            found.append(_difference(target, file, own, vectors, reads))
    card = target / "README.md"
    card.write_text(card.read_text(encoding="utf-8") + _section(found), encoding="utf-8")
    rows = "\n".join("  ".join(row) for row in _rows(found))
    return f"{target}\n{rows}\n{load.format(target / found[0].file)}"


def _sample(store: Store, model: Ref) -> dict[Side, list[str]]:
    """Return the first queries and documents of the model's source data."""
    read = next((meta for meta in lineage(store, [model]) if meta.stage == INGEST.name), None)
    if read is None:
        return {side: list(_OWN) for side in SIDES}
    queries = store.builds.table(read.ref("queries"), ("text",)).slice(0, _SAMPLE)
    documents = next(iter(store.builds.batches(read.ref("corpus"), ("title", "text"), _SAMPLE)))
    passages = map(passage_text, documents["title"].to_pylist(), documents["text"].to_pylist())
    return {"query": queries["text"].to_pylist(), "passage": list(passages)}


def vectors_of(encoder: BiEncoder, texts: Sequence[str], side: Side) -> Float[Array, "text dim"]:
    """Return the original model's vectors."""
    import torch

    with torch.no_grad():
        return np.asarray(encoder.embed(encoder.tokenize(texts, side), side))


def _embedded(encoder: BiEncoder, embed: Embed, texts: Sequence[str], side: Side) -> Float[Array, "text dim"]:
    parts = (texts[start : start + _AT_ONCE] for start in range(0, len(texts), _AT_ONCE))
    return np.concatenate([embed(padded(encoder.ids(part, side))) for part in parts])


def _difference(
    folder: Path, file: str, own: Mapping[Side, Array], copy: Mapping[Side, Array], sides: Sequence[Side]
) -> RuntimeDifference:
    ours, theirs = (np.concatenate([vectors[side] for side in sides]) for vectors in (own, copy))
    norms = np.linalg.norm(ours, axis=1) * np.linalg.norm(theirs, axis=1)
    cosines = np.where(norms > 0, (ours * theirs).sum(axis=1) / np.where(norms > 0, norms, 1), 1.0)
    same = [len({*one} & {*other}) / len(one) for one, other in zip(_tops(own), _tops(copy), strict=True)]
    size = sum(part.stat().st_size for part in folder.glob(f"{file.rsplit('.', 1)[0]}.*")) / 1e6
    largest, mean, least = float(np.abs(ours - theirs).max()), float(cosines.mean()), float(cosines.min())
    return RuntimeDifference(file, size, largest, mean, least, float(np.mean(same)))


def _tops(vectors: Mapping[Side, Array]) -> list[list[int]]:
    """Return the rows of the documents nearest to each query."""
    order = np.argsort(-(vectors["query"] @ vectors["passage"].T), axis=1, kind="stable")
    return [list(map(int, row)) for row in order[:, :_TOP]]


def _rows(found: Sequence[RuntimeDifference]) -> list[list[str]]:
    """Return one row per copy, headings first."""
    headings = ["copy", "MB", "largest difference", "mean cosine", "least cosine", f"same top {_TOP}"]
    return [headings] + [
        [
            *(one.file, f"{one.megabytes:.1f}", f"{one.largest:.1e}", f"{one.cosine:.5f}", f"{one.least_cosine:.5f}"),
            percent(one.same_top, 1),
        ]
        for one in found
    ]


def _section(found: Sequence[RuntimeDifference]) -> str:
    table = markdown_table(_rows(found), left=1)
    return (
        f"\n## Copies for other runtimes\n\n{table}\nThey take `input_ids` and `attention_mask`, as tokenizer.json "
        "gives them, and give `sentence_embedding`. They were compared with the model's own vectors of "
        f"{_SAMPLE} queries and {_SAMPLE} documents of its data, at most, when they were exported.\n"
    )
