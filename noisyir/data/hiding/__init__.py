"""False negatives put in on purpose, a file each: relevant documents that no pair names, and how they come about.

Nothing is written here: the stage hide does that.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import pyarrow as pa
from jaxtyping import Int
from pydantic import Field

from noisyir.schemas.data import CORPUS
from noisyir.settings import Fraction
from noisyir.variants import Variant

BY_IDS = [("query_id", "ascending"), ("doc_id", "ascending")]


@dataclass(frozen=True)
class Labelled:
    """A collection and what is called relevant in it.

    pairs: of all splits; training: those of train, by their ids, with their `row` in `pairs`; qrels: if there are any.
    documents: how many there are; read: streams them.  rng: a generator for a purpose.
    """

    pairs: pa.Table
    training: pa.Table
    qrels: pa.Table | None
    documents: int
    read: Callable[[], Iterable[pa.RecordBatch]]
    rng: Callable[[str], np.random.Generator]


@dataclass(frozen=True)
class Hidden:
    """The truth (query_id, doc_id, edit_rate), and what changes: pairs that go, by row, and documents that come.

    counts: for the build's notes.
    """

    truth: pa.Table
    counts: Mapping[str, int]
    pairs: Int[np.ndarray, " hidden"] = field(default_factory=lambda: np.empty(0, np.int64))
    documents: pa.Table = field(default_factory=CORPUS.schema.empty_table)


class Hiding(Variant):
    """Relevant documents that no pair names, put in on purpose, with the truth kept apart for scoring.

    adds_documents: whether the collection is another one afterwards; else what is made of it serves all seeds.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.hiding"
    default: ClassVar[str | None] = "positives"
    renamed: ClassVar[Mapping[str, str]] = {"mechanism": "kind"}
    adds_documents: ClassVar[bool] = True

    rate: Fraction = Field(
        0.0, description="share hidden of the pairs that a query has beside one; of the training documents, copied"
    )

    def hide(self, given: Labelled) -> Hidden:
        """The documents and pairs to hide; only training pairs are touched."""
        raise NotImplementedError
