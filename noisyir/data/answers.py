"""Whether a passage holds an answer, by the rule of DPR's open-domain evaluation, and the hit rate built on it."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import pyarrow as pa


def tokens(text: str) -> list[str]:
    """The lower-cased tokens of a text after Unicode NFD: runs of letters, digits and marks, or one other character.

    Separators and control characters are dropped; punctuation and articles are tokens.
    Source: DPR (Karpukhin et al., EMNLP 2020), `SimpleTokenizer` of its evaluation code, which is DrQA's.
    """
    return token_line(text).split()


def answer_match(
    rankings: Mapping[str, Sequence[str]],
    aliases: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    depths: Sequence[int],
) -> pa.Table:
    """Whether one of the first k hits of each query holds an answer, as measure `AnswerMatch@k` (1 or 0).

    Its mean is DPR's R@k, a hit rate.  Only texts are searched, not titles; each document is tokenised once.

    Args:
        rankings: Query id to document ids, best first; a missing query counts 0.
        aliases: Query id to answers; a query without a token in any answer is left out.
        texts: Document id to text.
        depths: Values of k.
    """

    @cache
    def line_of(doc_id: str) -> str:
        return token_line(texts[doc_id])

    usable = {query_id: lines for query_id, answers in sorted(aliases.items()) if (lines := answer_lines(answers))}
    first = [
        _first_hit(map(line_of, rankings.get(query_id, ())[: max(depths)]), lines) for query_id, lines in usable.items()
    ]
    return pa.table(
        {
            "measure": pa.array([f"AnswerMatch@{depth}" for depth in depths for _ in usable], pa.string()),
            "query_id": pa.array(list(usable) * len(depths), pa.string()),
            "value": pa.array([float(rank is not None and rank <= k) for k in depths for rank in first], pa.float64()),
        }
    )


def _first_hit(passages: Iterable[str], answers: Sequence[str]) -> int | None:
    for rank, passage in enumerate(passages, 1):
        for answer in answers:  # `any` with a generator takes twice as long, and this is the inner loop
            if answer in passage:
                return rank
    return None


def answer_lines(answers: Iterable[str]) -> list[str]:
    """The token lines of the answers; empty ones are dropped."""
    return [line for line in map(token_line, answers) if line.strip()]


def answers_by_query(table: pa.Table) -> dict[str, list[str]]:
    """The token lines of the answers to each query of ANSWERS."""
    return dict(zip(table["query_id"].to_pylist(), map(answer_lines, table["aliases"].to_pylist()), strict=True))


def token_line(text: str) -> str:
    """The tokens of a text between spaces: a sub-list of tokens is a substring, which C finds fast.

    Lower-casing the line is lower-casing each token: the one contextual rule, Greek final sigma, stops at a space.
    """
    return f" {' '.join(token_pattern().findall(unicodedata.normalize('NFD', text)))} ".lower()


@cache
def token_pattern() -> Any:
    """The pattern of a token in text after NFD."""
    import regex

    flags = regex.IGNORECASE | regex.UNICODE | regex.MULTILINE
    return regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", flags=flags)
