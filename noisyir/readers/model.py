"""Extractive question-answering model: any Hugging Face encoder with a span head.

Also finds the best spans per window, and ranks them over all passages of a question.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from noisyir.base.errors import DataError
from noisyir.models.bi_encoder import choose_device
from noisyir.models.heads import OneTransformer, with_head
from noisyir.models.layout import checked_length, write_json
from noisyir.models.question_passage import OffsetTokens, PairTokenizer, Sequences
from noisyir.models.soundness import opening, refuse_broken, refuse_missing
from noisyir.models.text_tokenizer import Rows, Tokens, token_batches
from noisyir.models.transformer_tower import load_with_head, read_tokenizer, save_transformer
from noisyir.readers.answer_spans import window_starts
from noisyir.readers.cds import span_scores
from noisyir.readers.settings import InitReaderParams

_SETTINGS = "reader.json"
_LEAST_ROOM = 8  # minimum passage tokens next to the longest question


@dataclass(frozen=True)
class Spans:
    """Labelled answers by window: tokens `first` to `last`, inclusive, relative to the window."""

    window: Rows
    first: Rows
    last: Rows


class Reads(NamedTuple):
    """Reader output for windows, in float32.

    Attributes:
        start: Start logits of the window's passage tokens, -inf after the last one.
        end: End logits, likewise.
        question: Mean state of the question's tokens; empty if not requested, like the following.
        passage: Mean state of the passage's tokens.
        answer: Mean state of each labelled span's tokens.
        context: Mean state of the passage's tokens outside each span, zero if there are none.
    """

    start: Float[Tensor, "window token"]
    end: Float[Tensor, "window token"]
    question: Float[Tensor, "window dim"]
    passage: Float[Tensor, "window dim"]
    answer: Float[Tensor, "span dim"]
    context: Float[Tensor, "span dim"]


class Reader(OneTransformer):
    """A Hugging Face question-answering model with its tokenizer."""

    at_once = 32  # windows padded together: similar lengths, yet enough to keep a GPU busy

    def __init__(self, model: Any, tokenizer_files: Mapping[str, str], *, max_len: int, question_max_len: int) -> None:
        super().__init__(model, tokenizer_files)
        text, pad = tokenizer_files["tokenizer.json"], model.config.pad_token_id or 0
        self.tokenizer = PairTokenizer.from_json(text, max_len=max_len, question_max_len=question_max_len, pad=pad)
        self._segments = "token_type_ids" in signature(model.forward).parameters

    def forward(self, questions: Tokens, passages: Tokens, spans: Spans | None = None, *, bf16: bool = False) -> Reads:
        """Read passage window i with question i; averages states if `spans` is given.

        Windows of similar length are padded together, all in one graph.
        """
        self.lengths = questions.lengths + passages.lengths + sum(map(len, self.tokenizer.specials))
        order = np.argsort(-self.lengths, kind="stable")
        longest, parts, of_span = int(passages.lengths.max()), [], []
        for rows in np.split(order, range(self.at_once, len(order), self.at_once)):
            sequences = self.tokenizer.join(questions.take(rows), passages.take(rows))
            mine, here = _spans_of(spans, rows)
            parts.append(self._read(sequences, longest, here, bf16=bf16))
            of_span.append(mine)
        back, back_span = (torch.from_numpy(np.argsort(rows)) for rows in (order, np.concatenate(of_span)))
        read = [torch.cat(found) for found in zip(*parts, strict=True)]
        if spans is None:
            return Reads(*(found[back] for found in read[:2]), *read[2:])
        return Reads(*(found[back] for found in read[:4]), *(found[back_span] for found in read[4:]))

    def _read(self, sequences: Sequences, longest: int, spans: Spans | None, *, bf16: bool) -> Reads:
        """Read windows padded to one length; logits have `longest` columns."""
        inputs = {"input_ids": sequences.ids, "attention_mask": sequences.present}
        if self._segments:
            inputs["token_type_ids"] = np.minimum(sequences.types, self.model.config.type_vocab_size - 1)
        tensors = {name: torch.from_numpy(value).to(self.device) for name, value in inputs.items()}
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            found = self.model(**tensors, output_hidden_states=spans is not None)
        start, end = (self._passage(logits.float(), sequences, longest) for logits in found[:2])
        if spans is None:
            none = start.new_zeros(0, 0)
            return Reads(start, end, none, none, none, none)
        weights = torch.from_numpy(_means(sequences, spans)).to(self.device)
        means = weights.flatten(1) @ found.hidden_states[-1].float().flatten(0, 1)
        windows, labelled = len(sequences.ids), len(spans.window)
        return Reads(start, end, *means.split([windows, windows, labelled, labelled]))

    def _passage(
        self, logits: Float[Tensor, "window column"], sequences: Sequences, longest: int
    ) -> Float[Tensor, "window token"]:
        """Gather the passage tokens' logits, starting at column 0; -inf after the last token."""
        columns = sequences.passage.argmax(axis=1)[:, None] + np.arange(longest)
        inside = np.arange(longest) < sequences.passage.sum(axis=1)[:, None]
        places = torch.from_numpy(np.minimum(columns, logits.shape[1] - 1)).to(self.device)
        return logits.gather(1, places).masked_fill(torch.from_numpy(~inside).to(self.device), float("-inf"))

    def save(self, folder: Path) -> None:
        """Write a folder that `load_reader` reads; equal weights give equal bytes."""
        settings = {"max_len": self.tokenizer.max_len, "question_max_len": self.tokenizer.question_max_len}
        save_transformer(folder, self.model, self.tokenizer_files)
        write_json(folder / _SETTINGS, settings)


def _spans_of(spans: Spans | None, rows: Rows) -> tuple[Rows, Spans | None]:
    """Return the numbers of the spans in the windows at `rows`, and these spans with windows renumbered accordingly."""
    if spans is None:
        return np.empty(0, np.int64), None
    place = np.full(int(max(spans.window.max(initial=0), rows.max())) + 1, -1)
    place[rows] = np.arange(len(rows))
    (mine,) = np.nonzero(place[spans.window] >= 0)
    return mine, Spans(place[spans.window[mine]], spans.first[mine], spans.last[mine])


def _means(sequences: Sequences, spans: Spans) -> Float[np.ndarray, "mean window column"]:
    """Return averaging weights: each window's question and passage, each span, and each span's surroundings.

    A matrix product sums in the same order on every device, unlike scattered additions.
    """
    windows, columns = sequences.ids.shape
    begins = sequences.passage.argmax(axis=1)[spans.window, None]
    column = np.arange(columns)
    answer = (column >= begins + spans.first[:, None]) & (column <= begins + spans.last[:, None])
    context = sequences.passage[spans.window] & ~answer
    chosen = np.concatenate([sequences.question, sequences.passage, answer, context]).astype(np.float32)
    chosen /= np.maximum(chosen.sum(axis=1, keepdims=True), 1.0)
    window = np.concatenate([np.tile(np.arange(windows), 2), np.tile(spans.window, 2)])
    weights = np.zeros((len(chosen), windows, columns), np.float32)
    weights[np.arange(len(chosen)), window] = chosen
    return weights


def load_reader(folder: Path, device: str = "auto") -> Reader:
    """Load a saved reader in float32 and evaluation mode.

    Weights are read only from safetensors, and code shipped with them is never executed.
    """
    device = choose_device(device)
    with opening(folder, "is not a reader"):
        settings = json.loads((folder / _SETTINGS).read_text())
        model, missing = load_with_head("AutoModelForQuestionAnswering", folder)
        refuse_missing(folder, "is not a reader", missing)
        lengths = {name: checked_length(settings, name) for name in ("max_len", "question_max_len")}
        reader = Reader(model, read_tokenizer(folder), **lengths)
        words = reader.tokenizer_files["tokenizer.json"]
        refuse_broken(folder, model, len(model.get_input_embeddings().weight), words)
    return reader.to(device).eval()


def initial_reader(folder: Path, params: InitReaderParams, seed: int) -> tuple[Reader, list[str]]:
    """Build the reader described by `params` from the weights in `folder`; also return the names of new weights.

    New weights belong to the head, if the folder has none; they are determined by `seed`.

    Raises:
        DataError: If the folder does not fit `params`, or the longest question leaves no room for a passage.
    """
    made = with_head(folder, params, seed, kind="reader", auto="AutoModelForQuestionAnswering", num_labels=2)
    reader = Reader(made.model, made.tokenizer_files, max_len=params.max_len, question_max_len=params.question_max_len)
    room = params.max_len - sum(map(len, reader.tokenizer.specials)) - params.question_max_len
    if room < _LEAST_ROOM:
        raise DataError(
            "readers.reader_init_max_len", max_len=params.max_len, room=room, question_max_len=params.question_max_len
        )
    return reader.eval(), made.new


@dataclass(frozen=True)
class Windows:
    """Windows of (question, passage) pairs: pair number, and passage tokens from `first` to `stop`."""

    pair: Rows
    first: Rows
    stop: Rows


class SpanChoice(NamedTuple):
    """Predicted spans: pair number, passage characters (end exclusive), and start + end logit."""

    pair: Rows
    start: Rows
    end: Rows
    score: npt.NDArray[np.float32]


def all_windows(lengths: Rows, room: Rows, stride: int) -> Windows:
    """Return every window of every pair; none for passages without tokens.

    Args:
        lengths: Passage tokens of each pair.
        room: Passage tokens that fit next to each pair's question.
        stride: Tokens shared by neighbouring windows.
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
    """Find the `n_best` best spans of each window; a span in two windows is returned twice.

    Args:
        pairs: Rows of questions and of passages.
        batch_tokens: Tokens per batch, including padding.
        progress: Called with the number of windows of each batch.

    Raises:
        DataError: If a logit is not finite.
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
            raise DataError("readers.reader_gives_nan_infinite")
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
    """Rank each question's best spans; only the first of spans with the same text is kept.

    Equal scores are ordered by passage, then position. Spans of only whitespace are dropped.

    Returns:
        Row of `found`, question, and rank from 1.
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
