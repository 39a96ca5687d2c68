"""Training pairs as kinds of noise are told of them, made of plain lists."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from noisyir.corruption.kinds import PairsToCorrupt
from noisyir.data.id_texts import text_key


def training_pairs(
    query: Sequence[int],
    document: Sequence[int],
    texts: list[str],
    *,
    work: Path,
    source: Sequence[int] | None = None,
    questions: list[str] | None = None,
    answers: dict[int, str] | None = None,
    seed: int = 0,
    vectors: Any = None,
) -> PairsToCorrupt:
    """Pairs of queries and documents of `texts`, by number.

    answers: by query, a word; a text that has it is relevant.  questions: by query.
    """
    asked, held = np.array(query, np.int64), answers or {}
    known = (
        np.unique(np.stack([asked, np.array(document, np.int64)], axis=1), axis=0) if len(asked) else np.empty((0, 2))
    )

    def holds_answer(row: int, text: str) -> bool:
        return held.get(int(asked[row]), "\0") in text.split()

    def is_relevant(rows: Any, documents: Any) -> Any:
        pairs = zip(rows.tolist(), documents.tolist(), strict=True)
        return np.fromiter((holds_answer(row, texts[number]) for row, number in pairs), bool, len(rows))

    there = {text_key(text) for text in texts}
    return PairsToCorrupt(
        query=asked,
        document=np.array(document, np.int64),
        known=known.astype(np.int64),
        is_relevant=is_relevant,
        texts=texts,
        vectors=lambda: vectors,
        source=np.array(source if source is not None else [-1] * len(asked), np.int64),
        questions=lambda: [(questions or [])[number] for number in query],
        holds_answer=holds_answer,
        is_there=lambda text: text_key(text) in there,
        rng=lambda purpose: np.random.default_rng([seed, *purpose.encode()]),
        work=work,
    )
