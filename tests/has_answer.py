"""The rule of answer match spelled out, against which the fast ways are held."""

from collections.abc import Iterable, Sequence

from noisyir.data.answers import tokens


def contains(passage_tokens: Sequence[str], answer_tokens: Sequence[str]) -> bool:
    """Whether the answer's tokens are a contiguous sub-list of the passage's; an answer without tokens never is."""
    size = len(answer_tokens)
    starts = range(len(passage_tokens) - size + 1)
    return bool(size) and any(list(passage_tokens[start : start + size]) == list(answer_tokens) for start in starts)


def has_answer(answers: Iterable[str], text: str) -> bool:
    """Whether the text holds at least one of the answers; answers that tokenise to nothing are dropped."""
    return any(contains(tokens(text), tokens(answer)) for answer in answers)
