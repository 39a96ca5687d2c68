"""Terms that BM25 counts: Anserini's English analyser, without Java."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from noisyir.base.errors import MissingPackageError, install_hint
from noisyir.models.text_tokenizer import take_ragged

STOP_WORDS = frozenset(
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with".split()
)
_POSSESSIVE = frozenset(mark + letter for mark in ("'", "\N{RIGHT SINGLE QUOTATION MARK}", "\uff07") for letter in "sS")
# Characters in no word, always with a word boundary on either side (UAX #29).
_APART = r"[.,:;]+(?:[ \t\n\r]|$)|[\t\n\r!#$%&()*+\-/<=>?@\[\\\]^`{|}~]"
_REMEMBERED = 1 << 17  # pieces of texts; about 50 MB


def analyse(text: str) -> list[str]:
    """Return the terms of a text as Anserini's English analyser finds them.

    Unicode words (UAX #29), without a possessive 's, in lower case, without Lucene's 33 stop words, stemmed by Porter's
    algorithm.  Snowball's version differs from Lucene's in two endings: it leaves -bli and -logi.
    """
    pattern, stemmer = _tools()
    found = [text] if text.isascii() and text.isalnum() else pattern.findall(text)
    words = (word[:-2] if word[-2:] in _POSSESSIVE else word for word in found)
    kept = [lower for word in words if (lower := word.lower()) not in STOP_WORDS]
    return [stemmer.stemWord(word) if len(word) > 2 else word for word in kept]


@dataclass(frozen=True)
class Terms:
    """Terms of n texts: text i has the numbers `ids[offsets[i]:offsets[i + 1]]` into `names`, in its order.

    `names` are in order of first occurrence, perhaps with duplicates.
    """

    names: list[str]
    ids: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]


def terms_of(texts: Sequence[str]) -> Terms:
    """Analyse each text, and each distinct piece between spaces only once."""
    column = pa.array(texts, pa.large_string())
    pieces = pc.split_pattern(pc.replace_substring_regex(column, _APART, " "), " ")
    each = pieces.flatten().dictionary_encode()
    found = [_analysed(piece) for piece in each.dictionary.to_pylist()]
    starts = np.concatenate([[0], np.cumsum([len(terms) for terms in found], dtype=np.int64)])
    offsets, ids = take_ragged(starts, each.indices.to_numpy())
    return Terms(list(chain.from_iterable(found)), ids, offsets[pieces.offsets.to_numpy()])


@lru_cache(_REMEMBERED)
def _analysed(piece: str) -> tuple[str, ...]:
    return tuple(analyse(piece))


@cache
def _tools() -> tuple[Any, Any]:
    """Return the word pattern (from a letter, digit or pictograph to a word boundary) and the stemmer."""
    with MissingPackageError.wrapping(
        "retrieval.no_engine", ImportError, engine="bm25s", package="PyStemmer", hint=install_hint("bm25")
    ):
        import regex
        import Stemmer
    # without the stemmer's cache, which is slow once it is full
    return regex.compile(r"(?wV1s)[\p{L}\p{N}_\p{Extended_Pictographic}](?:\B.)*"), Stemmer.Stemmer("porter", 0)
