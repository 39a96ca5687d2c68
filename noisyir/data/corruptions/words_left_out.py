"""Wrong pairs whose document has lost what it says: a share of the right one's content words is missing."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from noisyir.data.rewriting import Rewriter, Rewriting
from noisyir.retrieval.analysis import STOP_WORDS
from noisyir.settings import Fraction

_ATTEMPTS = 5


class WordsLeftOut(Rewriting):
    """Any training pairs, each with its own document without some of its words."""

    kind: Literal["words_left_out"] = "words_left_out"
    need: ClassVar[str] = "a document with content words and others, of which so many can go that no answer is left"
    share: Fraction = Field(0.5, description="share of the document's content words that is left out")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """Versions without words that are drawn anew each time.

        Source: words dropped as in the noise model of Lample et al., ICLR 2018, section 2.3; here content words alone.
        """

        def versions(document: int) -> Iterator[str]:
            return (without_words(texts[document], self.share, rng) for _ in range(_ATTEMPTS))

        return versions


def without_words(text: str, share: float, rng: np.random.Generator) -> str:
    """The text without round(share * n), but at least 1, of its n content words, which are drawn uniformly.

    A content word is a run of letters, digits and _ that is none of Lucene's stop words.  A word goes with the space
    before it; what is between words stays.  "" where there is no content word.
    """
    words = [found.span(1) for found in re.finditer(r"(\s*\w+)", text) if found[0].strip().lower() not in STOP_WORDS]
    if not words:
        return ""
    gone = rng.choice(len(words), size=max(1, round(share * len(words))), replace=False)
    pieces, upto = [], 0
    for start, end in (words[n] for n in np.sort(gone).tolist()):
        pieces.append(text[upto:start])
        upto = end
    return "".join([*pieces, text[upto:]]).strip()
