"""Question and passage as one sequence of tokens; passage tokens know their characters."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from noisyir.models.text_tokenizer import Rows, Tokens

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TEXTS_AT_ONCE = 4096  # bounds the tokens that are Python objects at once


@dataclass(frozen=True)
class OffsetTokens:
    """Whole passages as tokens, with each token's characters [start, end), ascending within a text."""

    tokens: Tokens
    start: npt.NDArray[np.int32]
    end: npt.NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.tokens)

    def token_span(self, row: int, start: int, end: int) -> tuple[int, int]:
        """Return the tokens [first, stop) that share a character with characters [start, end)."""
        here = slice(self.tokens.offsets[row], self.tokens.offsets[row + 1])
        first = int(np.searchsorted(self.end[here], start, side="right"))
        return first, int(np.searchsorted(self.start[here], end, side="left"))

    def windows(self, rows: Rows, first: Rows, stop: Rows) -> Tokens:
        """Return tokens first[i] to before stop[i] of the passage at rows[i]."""
        lengths = stop - first
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        places = np.arange(offsets[-1]) + np.repeat(self.tokens.offsets[rows] + first - offsets[:-1], lengths)
        return Tokens(self.tokens.ids[places], offsets)


@dataclass(frozen=True)
class Sequences:
    """Joined questions and passages (sequence, column), padded on the right.

    present, question, passage: Masks of columns with a token, a question's token, a passage's token.
    """

    ids: npt.NDArray[np.int64]
    types: npt.NDArray[np.int64]
    present: npt.NDArray[np.bool_]
    question: npt.NDArray[np.bool_]
    passage: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class PairTokenizer:
    """Tokenises questions and passages apart, and joins them as the model's own tokenizer joins pairs.

    max_len: Tokens of a sequence, special ones included; question_max_len: of a question, without them.
    specials: Ids before the question, between, and after the passage; types: segment of each of the five parts.
    """

    tokenizer: "Tokenizer"
    max_len: int
    question_max_len: int
    specials: tuple[list[int], list[int], list[int]]
    types: tuple[int, ...]
    pad: int

    @classmethod
    def from_json(cls, text: str, *, max_len: int, question_max_len: int, pad: int) -> Self:
        """Build it from a `tokenizer.json`'s content, without its truncation and padding."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
        example = tokenizer.encode("a", "a")
        sides = np.array([-1 if side is None else side for side in example.sequence_ids])
        (ones,), (twos,) = np.nonzero(sides == 0), np.nonzero(sides == 1)
        ids, kinds = example.ids, example.type_ids
        between = ids[ones[-1] + 1 : twos[0]]
        specials = ids[: ones[0]], between, ids[twos[-1] + 1 :]
        types = kinds[0], kinds[ones[0]], kinds[twos[0] - 1], kinds[twos[0]], kinds[-1]
        return cls(tokenizer, max_len, question_max_len, specials, types, pad)

    def questions(self, texts: Sequence[str]) -> Tokens:
        """Tokenise each question to its first `question_max_len` tokens."""
        return self._encode(texts, self.question_max_len).tokens

    def passages(self, texts: Sequence[str]) -> OffsetTokens:
        """Tokenise each passage whole."""
        return self._encode(texts, None)

    def room(self, questions: Tokens) -> npt.NDArray[np.int64]:
        """Return how many passage tokens fit next to each question."""
        return self.max_len - sum(map(len, self.specials)) - questions.lengths

    def join(self, questions: Tokens, passages: Tokens) -> Sequences:
        """Join question i and passage i into sequence i."""
        before, between, after = self.specials
        parts = np.array([
            [len(before), question, len(between), passage, len(after)]
            for question, passage in zip(questions.lengths, passages.lengths, strict=True)
        ])  # fmt: skip
        stops = parts.cumsum(axis=1)
        part = (np.arange(stops[:, -1].max())[None, :, None] >= stops[:, None, :]).sum(axis=2)
        ids = np.full(part.shape, self.pad, np.int64)
        for number, special in ((0, before), (2, between), (4, after)):
            ids[part == number] = special * len(parts)
        ids[part == 1], ids[part == 3] = questions.ids, passages.ids
        types = np.array([*self.types, 0])[part]
        return Sequences(ids, types, part < 5, part == 1, part == 3)

    def _encode(self, texts: Sequence[str], most: int | None) -> OffsetTokens:
        ids, offsets, lengths = [np.empty(0, np.int32)], [np.empty((0, 2), np.int32)], [0]
        for at in range(0, len(texts), _TEXTS_AT_ONCE):
            for found in self.tokenizer.encode_batch(list(texts[at : at + _TEXTS_AT_ONCE]), add_special_tokens=False):
                ids.append(np.array(found.ids[:most], np.int32))
                offsets.append(np.array(found.offsets[:most], np.int32).reshape(-1, 2))
                lengths.append(len(ids[-1]))
        characters = np.concatenate(offsets)
        tokens = Tokens(np.concatenate(ids), np.cumsum(lengths, dtype=np.int64))
        return OffsetTokens(tokens, characters[:, 0].copy(), characters[:, 1].copy())
