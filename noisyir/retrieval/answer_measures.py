"""Exact match and token F1 of answers, normalised as SQuAD or TriviaQA do."""

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
    """Lower-case a text, without punctuation and the articles a, an, the, words separated by one space.

    squad deletes punctuation; triviaqa, with four quotation marks in it, replaces it by a space.  Sources:
    evaluate-v1.1.py (Rajpurkar et al., 2016); evaluation_utils.py of TriviaQA (Joshi et al., 2017).
    """
    text = text.lower()
    if by == "squad":
        text = "".join(character for character in text if character not in _PUNCTUATION)
    else:
        text = "".join(" " if character in _PUNCTUATION | _QUOTES else character for character in text)
    return " ".join(_ARTICLES.sub(" ", text).split())


def exact_match(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """Return 1 if the answer equals a reference after normalisation, else 0."""
    return float(normalised(answer, by) in [normalised(reference, by) for reference in references])


def best_f1(answer: str, references: Sequence[str], by: Normalisation) -> float:
    """Return the highest token F1 with a reference; 0 without references."""
    return max((f1(answer, reference, by) for reference in references), default=0.0)


def f1(answer: str, reference: str, by: Normalisation) -> float:
    """2 P R / (P + R) over the bags of normalised words; 0 if they share none."""
    predicted, expected = (normalised(text, by).split() for text in (answer, reference))
    shared = sum((Counter(predicted) & Counter(expected)).values())
    if not shared:
        return 0.0
    precision, recall = shared / len(predicted), shared / len(expected)
    return 2 * precision * recall / (precision + recall)
