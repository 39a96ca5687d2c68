"""Answers in passages: places by the rule of has-answer, those that DS-Top keeps, those that a reader likes best."""

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from noisyir.data.answers import answer_lines, token_line, token_pattern, tokens
from noisyir.errors import DataError
from noisyir.models.question_passage import OffsetTokens
from noisyir.models.reader import Reader
from noisyir.models.text_tokenizer import Rows, Tokens, token_batches
from noisyir.readers.sampling import span_scores
from noisyir.readers.windows import window_starts

Place = tuple[int, int]


def places(text: str, answers: Iterable[str]) -> list[Place]:
    """Every (start, end) in characters, end exclusive, whose tokens are those of an answer, in order of the text.

    Tokens are has-answer's: Unicode NFD, in lower case.  An answer that tokenises to nothing is nowhere.  Left out is
    a match that begins or ends within a character, which no offset can say: "=" in the sign of "not equal".
    """
    return places_of_lines(text, token_line(text), answer_lines(answers))


def places_of_lines(text: str, line: str, answers: Sequence[str]) -> list[Place]:
    """As `places`, where the text's token line and the answers' are known."""
    if not (held := [answer for answer in answers if answer in line]):
        return []
    tokens = _token_places(text)
    found = set()
    for answer in held:
        count = answer.count(" ") - 1
        first = line.find(answer)
        while first >= 0:
            number = line.count(" ", 0, first)
            start, end = tokens[number][0], tokens[number + count - 1][1]
            if start is not None and end is not None:
                found.add((start, end))
            first = line.find(answer, first + 1)
    return sorted(found)


def _token_places(text: str) -> list[tuple[int | None, int | None]]:
    """Where each token begins and ends in the text; None within a character.

    NFD reorders marks, but only among marks, and these are never parted: where one character ends and the next begins
    stays known.
    """
    lengths = (len(unicodedata.normalize("NFD", character)) for character in text)
    places = {place: number for number, place in enumerate(accumulate(lengths, initial=0))}
    decomposed = unicodedata.normalize("NFD", text)
    return [(places.get(m.start()), places.get(m.end())) for m in token_pattern().finditer(decomposed)]


_CHARACTERS = range(25, 1501)  # of a passage
_AROUND = 20  # tokens on either side of a span
_STOP_WORDS = frozenset(
    """i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing a an the and but if or because as until while of at by for with
    about against between into through during before after above below to from up down in out on off over under again
    further then once here there when where why how all any both each few more most other some such no nor not only own
    same so than too very s t can will just don should now d ll m o re ve y""".split()
)


def ngrams(text: str) -> set[tuple[str, ...]]:
    """Its distinct words and pairs of neighbours; left out is what holds a stop word or punctuation."""
    words = tokens(text)
    found = [*zip(words, strict=True), *pairwise(words)]
    return {gram for gram in found if all(word not in _STOP_WORDS and word[0].isalnum() for word in gram)}


def overlap(question: str, text: str, start: int, end: int) -> int:
    """How many of the question's n-grams occur in the span and `_AROUND` tokens on either side."""
    before, after = tokens(text[:start])[-_AROUND:], tokens(text[end:])[:_AROUND]
    return len(ngrams(question) & ngrams(" ".join([*before, text[start:end], *after])))


def top_spans(
    overlaps: Sequence[int], passages: Sequence[str], lengths: Sequence[int], top: int
) -> npt.NDArray[np.bool_]:
    """Rows of one question's spans that are kept: the best of each passage, in the `top` best passages.

    Best is the largest overlap, which must not be 0, and the first where it is equal.  Passages shorter than 25
    characters or longer than 1,500 are left out.

    overlaps, passages (ids), lengths (characters of the passage): by span, in the order of the passages' ids.
    """
    best: dict[str, int] = {}
    for row, (count, passage, length) in enumerate(zip(overlaps, passages, lengths, strict=True)):
        if count > 0 and length in _CHARACTERS and (passage not in best or count > overlaps[best[passage]]):
            best[passage] = row
    kept = np.zeros(len(overlaps), bool)
    kept[sorted(best.values(), key=lambda row: -overlaps[row])[:top]] = True
    return kept


@dataclass(frozen=True)
class Windows:
    """Windows of (question, passage) pairs by number: the pair, and its passage's tokens from `first` to `stop`."""

    pair: Rows
    first: Rows
    stop: Rows


class SpanChoice(NamedTuple):
    """Spans: of which pair, which characters of its passage (end exclusive), and start + end logit."""

    pair: Rows
    start: Rows
    end: Rows
    score: npt.NDArray[np.float32]


def all_windows(lengths: Rows, room: Rows, stride: int) -> Windows:
    """Every window of every pair; none of a passage without tokens.

    lengths: tokens of each pair's passage; room: how many of them fit beside its question.
    """
    pairs, firsts = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, (length, fits) in enumerate(zip(lengths.tolist(), room.tolist(), strict=True)):
        if length:
            firsts.append(window_starts(length, fits, stride))
            pairs.append(np.full(len(firsts[-1]), number))
    pair, first = np.concatenate(pairs), np.concatenate(firsts)
    return Windows(pair, first, np.minimum(first + room[pair], lengths[pair]))


@torch.inference_mode()
def find_spans(
    reader: Reader,
    questions: Tokens,
    passages: OffsetTokens,
    pairs: tuple[Rows, Rows],
    windows: Windows,
    *,
    n_best: int,
    max_answer_len: int,
    bf16: bool,
    batch_tokens: int,
    progress: Callable[[int], None],
) -> SpanChoice:
    """The `n_best` best spans of each window; a span in two windows is found twice.

    pairs: rows of questions and of passages.  batch_tokens: tokens of one batch, padding included; `progress` is told
    how many windows each had.  DataError when a logit is not finite.
    """
    parts = [SpanChoice(*(np.empty(0, np.int64),) * 3, np.empty(0, np.float32))]
    asked, read = (rows[windows.pair] for rows in pairs)
    lengths = windows.stop - windows.first + questions.lengths[asked]
    for rows in token_batches(lengths, batch_tokens):
        texts = passages.windows(read[rows], windows.first[rows], windows.stop[rows])
        start, end = reader(questions.take(asked[rows]), texts, bf16=bf16)[:2]
        spans = span_scores(start, end, max_answer_len)
        best = spans.flatten(1).topk(min(n_best, spans[0].numel()), dim=1)
        score, place = best.values.cpu().numpy(), best.indices.cpu().numpy()
        if np.isnan(score).any() or not np.isfinite(score[:, 0]).all():
            raise DataError("the reader gives NaN or infinite logits: its training diverged; lower its learning rate")
        window, column = np.nonzero(np.isfinite(score))  # a short window has fewer spans
        first, longer = np.divmod(place[window, column], spans.shape[2])
        number = rows[window]
        base = passages.tokens.offsets[read[number]] + windows.first[number] + first
        parts.append(
            SpanChoice(windows.pair[number], passages.start[base], passages.end[base + longer], score[window, column])
        )
        progress(len(rows))
    return SpanChoice(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def ranked(
    found: SpanChoice, question: Rows, passage: Rows, texts: Sequence[str], n_best: int
) -> list[tuple[int, int, int]]:
    """(row of `found`, question, rank from 1) of each question's best spans, the first of those with the same text.

    question, passage: rows by pair; texts: by passage.  Equal scores are in the order of passages, then places.  Spans
    of white space alone are left out.
    """
    asked, read = question[found.pair], passage[found.pair]
    order = np.lexsort((found.end, found.start, read, -found.score, asked))
    kept: list[tuple[int, int, int]] = []
    seen: set[str] = set()
    at = -1
    for row in order.tolist():
        if asked[row] != at:
            at, seen = int(asked[row]), {""}
        text = texts[read[row]][found.start[row] : found.end[row]].strip()
        if len(seen) <= n_best and text not in seen:
            kept.append((row, at, len(seen)))
            seen.add(text)
    return kept
