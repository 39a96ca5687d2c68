"""Wrong pairs whose document is a part of the right one: an answer that breaks off, or whose beginning is missing."""

import re
from collections.abc import Iterator
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from noisyir.data.rewriting import Rewriter, Rewriting
from noisyir.settings import Fraction

Part = Literal["first", "last", "ends"]
_PARTS: tuple[Part, ...] = ("first", "last", "ends")


class HalfAnswer(Rewriting):
    """Any training pairs, each with a part of its own document."""

    kind: Literal["half_answer"] = "half_answer"
    need: ClassVar[str] = "a document of two words at least, and a part of it that holds no answer"
    part: Literal["first", "last", "ends", "random"] = Field(
        "random", description="what is kept; ends: the middle is left out; random: one of the three"
    )
    keep: Fraction = Field(0.5, description="share of the document's words in that part")

    def rewriter(self, texts: list[str], rng: np.random.Generator) -> Rewriter:
        """The part asked for; of `random` the three, in a random order.

        Source: the mechanism is ours, after StaQC (Yao et al., WWW 2018), whose wrong documents are steps of an answer
        that do not stand alone.
        """

        def parts(document: int) -> Iterator[str]:
            order = [_PARTS[n] for n in rng.permutation(len(_PARTS))] if self.part == "random" else [self.part]
            return (part_of(texts[document], part, self.keep) for part in order)

        return parts


def part_of(text: str, part: Part, keep: float) -> str:
    """The first or last round(keep * n) of the n words of a text, or as many at both ends; spaced as they are.

    At least one word is kept and one left out: "" where there are not two.
    """
    words = [found.span() for found in re.finditer(r"\S+", text)]
    if len(words) < 2:
        return ""
    kept = min(max(1, round(keep * len(words))), len(words) - 1)
    if part == "first":
        return text[: words[kept - 1][1]]
    if part == "last":
        return text[words[-kept][0] :]
    before, after = (kept + 1) // 2, kept // 2
    ends = text[: words[before - 1][1]], text[words[-after][0] :] if after else ""
    return " ".join(filter(None, ends))
