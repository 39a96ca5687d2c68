"""What pairs look like as texts: the words that query and document share, and how each of them is built."""

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from noisyir.retrieval.analysis import analyse

Array = np.ndarray

SHARED = ("overlap", "idf_overlap", "overlap_start", "jaccard")
BUILT = ("words", "characters", "punctuation", "digits", "distinct_words", "lines")
_START = 120  # characters: what a title, a signature or a first sentence takes


def shared_words(
    queries: Sequence[str], documents: Sequence[str], query: Int[Array, " pair"], document: Int[Array, " pair"]
) -> Float[Array, "pair 4"]:
    """The columns SHARED of every pair, each in [0, 1]: of terms as BM25's analyser gives them, each counted once.

    Shares of the query's terms that the document holds, plain, weighted by ln(1 + (N - n + 1/2) / (n + 1/2)) (BM25's
    IDF) and within the first 120 characters; and the terms of both over those of either.  0 for a query without terms.
    """
    asked = [frozenset(analyse(text)) for text in queries]
    held = [frozenset(analyse(text)) for text in documents]
    start = [frozenset(analyse(text[:_START])) for text in documents]
    count, found_in = len(documents), Counter(term for terms in held for term in terms)
    weigh = {term: _idf(found_in[term], count) for terms in asked for term in terms}
    weight = [sum(weigh[term] for term in sorted(terms)) for terms in asked]
    columns = np.zeros((len(query), len(SHARED)))
    for row, (q, d) in enumerate(zip(query.tolist(), document.tolist(), strict=True)):
        terms = asked[q]
        if terms:
            both = terms & held[d]
            idf = sum(weigh[term] for term in sorted(both)) / weight[q]
            shares = len(both) / len(terms), idf, len(terms & start[d]) / len(terms)
            columns[row] = *shares, len(both) / len(terms | held[d])
    return columns


def built(texts: Sequence[str]) -> Float[Array, "text 6"]:
    """The columns BUILT of every text: counts, and shares of the characters or of the words."""
    return np.array([_built(text) for text in texts], np.float64).reshape(-1, len(BUILT))


def _built(text: str) -> tuple[float, ...]:
    words, size = text.split(), max(len(text), 1)
    punctuation = sum(not (char.isalnum() or char.isspace()) for char in text)
    digits = sum(map(str.isdigit, text))
    distinct = len(set(words)) / max(len(words), 1)
    return len(words), len(text), punctuation / size, digits / size, distinct, len(text.splitlines())


def _idf(found_in: int, count: int) -> float:
    return math.log(1 + (count - found_in + 0.5) / (found_in + 0.5))
