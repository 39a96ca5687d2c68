"""The spans that a reader likes best, in windows, then over all passages of a question."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from noisyir.errors import DataError
from noisyir.models.question_passage import OffsetTokens
from noisyir.models.reader import Reader
from noisyir.models.text_tokenizer import Rows, Tokens, token_batches
from noisyir.readers.sampling import span_scores
from noisyir.readers.windows import window_starts


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
