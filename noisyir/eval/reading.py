"""Exact match and F1 of answers, as the scripts of SQuAD and of TriviaQA compute them."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Literal

Normalisation = Literal["squad", "triviaqa"]
_PUNCTUATION = set(string.punctuation)
_QUOTES = {"\N{LEFT SINGLE QUOTATION MARK}", "\N{RIGHT SINGLE QUOTATION MARK}", "\N{ACUTE ACCENT}", "`"}
_ARTICLES = re.compile(r"\b(a|an|the)\b")


def normalised(text: str, by: Normalisation) -> str:
    """Lower case, without punctuation and the articles a, an, the, words parted by one space.

    squad deletes punctuation, triviaqa puts a space in its place and counts four quotation marks to it.  Sources:
    evaluate-v1.1.py (Rajpurkar et al., 2016); evaluation_utils.py of TriviaQA (Joshi et al., 2017).
    """
    text = text.lower()
    if by == "squad":
        text = "".join(character for character in text if character not in _PUNCTUATION)
    else:
        text = "".join(" " if character in _PUNCTUATION | _QUOTES else character for character in text)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """1 where the answer equals one of the references after normalisation, else 0."""
    return float(normalised(answer, by) in [normalised(reference, by) for reference in references])


def best_f1(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """The highest token F1 with any of the references; 0 without references."""
    return max((f1(answer, reference, by) for reference in references), default=0.0)


def f1(answer: str, reference: str, by: Normalisation) -> float:
    """2 P R / (P + R) over the bags of normalised words; 0 where they share none."""
    given, wanted = (normalised(text, by).split() for text in (answer, reference))
    shared = sum((Counter(given) & Counter(wanted)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(given), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)
