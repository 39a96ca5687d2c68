"""Texts as token ids, kept flat: no Python object per token, so a corpus costs four bytes a token."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

Side = Literal["query", "passage"]
SIDES: tuple[Side, Side] = ("query", "passage")
Rows = npt.NDArray[np.integer]

_TEXTS_AT_ONCE = 8192
_CHARACTERS_A_TOKEN = 8  # more than most texts have, so that few are read again whole


@dataclass(frozen=True)
class Tokens:
    """The token ids of n texts: text i is `ids[offsets[i]:offsets[i + 1]]`.

    ids: int32, flat; offsets: int64, n + 1 of them, from 0.
    shares: float32 beside ids, each id's share of its text's mean, where order is of no account (static backbone):
    an id then occurs once a text, ids ascend, and a text's shares sum to 1.  None where order counts (transformer).
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """How many ids each text has."""
        return np.diff(self.offsets)

    def __add__(self, other: Self) -> Self:
        """These texts, then the other's."""
        offsets = np.concatenate([self.offsets, other.offsets[1:] + self.offsets[-1]])
        both = None if self.shares is None or other.shares is None else np.concatenate([self.shares, other.shares])
        return type(self)(np.concatenate([self.ids, other.ids]), offsets, both)

    def take(self, rows: Rows) -> Self:
        """The texts at `rows`, in that order; a row may be taken more than once."""
        offsets, flat = take_ragged(self.offsets, rows)
        shares = None if self.shares is None else self.shares[flat]
        return type(self)(self.ids[flat], offsets, shares)


def take_ragged(offsets: npt.NDArray[np.int64], rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Offsets of the chosen rows of a ragged array, and the places of their items in its flat values."""
    lengths = (offsets[1:] - offsets[:-1])[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)])
    return taken, np.arange(taken[-1]) + np.repeat(offsets[:-1][rows] - taken[:-1], lengths)


def token_batches(lengths: npt.NDArray[np.integer], budget: int) -> Iterator[npt.NDArray[np.int64]]:
    """Rows of texts in batches whose count times longest length is at most `budget`; at least one text each.

    lengths: tokens of each text.  Longest first, so that what does not fit the device's memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        stop = start + max(budget // longest, 1)
        yield order[start:stop]
        start = stop


@dataclass(frozen=True)
class TextTokenizer:
    """Turns the texts of one side into `Tokens`: prefix, special tokens and truncation are part of it.

    by_words: whether the tokens of a text up to a white space do not depend on what follows.
    """

    tokenizer: "Tokenizer"
    prefix: str
    max_len: int
    special_tokens: bool
    as_shares: bool
    by_words: bool

    @classmethod
    def from_json(cls, text: str, *, prefix: str, max_len: int, special_tokens: bool, as_shares: bool) -> Self:
        """From a `tokenizer.json`'s content; keeps at most `max_len` tokens of a text, special ones included."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_len)
        by_words = type(tokenizer.pre_tokenizer).__name__ in ("BertPreTokenizer", "ByteLevel")
        return cls(tokenizer, prefix, max_len, special_tokens, as_shares, by_words)

    def to_json(self) -> str:
        """The content of a `tokenizer.json` that truncates as this one does; the prefix is not part of it."""
        text: str = self.tokenizer.to_str()
        return text

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """The tokens of each text; an empty text may have none."""
        flat, lengths = [np.empty(0, np.int32)], []
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            for encoding in self._encode([self.prefix + text for text in texts[start : start + _TEXTS_AT_ONCE]]):
                flat.append(np.array(encoding.ids, np.int32))
                lengths.append(len(flat[-1]))
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        tokens = Tokens(np.concatenate(flat), offsets)
        return _with_shares(tokens) if self.as_shares else tokens

    def _encode(self, texts: Sequence[str]) -> list["Encoding"]:
        """Encodings of whole texts, of which no more is read than their first `max_len` tokens need."""
        heads = [self._head(text) for text in texts]
        found = self.tokenizer.encode_batch_fast(heads, add_special_tokens=self.special_tokens)
        cut = [row for row, (head, text) in enumerate(zip(heads, texts, strict=True)) if len(head) < len(text)]
        scarce = [row for row in cut if len(found[row].ids) < self.max_len]
        whole = self.tokenizer.encode_batch_fast([texts[row] for row in scarce], add_special_tokens=self.special_tokens)
        for row, encoding in zip(scarce, whole, strict=True):
            found[row] = encoding
        return list(found)

    def _head(self, text: str) -> str:
        """The beginning of a long text, up to a white space: where words are tokenised one by one, enough of it."""
        limit = self.max_len * _CHARACTERS_A_TOKEN
        if len(text) <= limit or not self.by_words:
            return text
        return text[: max(text.rfind(" ", 0, limit), text.rfind("\n", 0, limit), 0)].rstrip() or text


def _with_shares(tokens: Tokens) -> Tokens:
    """The same texts as bags: repeated ids become one, with the share of the text that they make up."""
    from scipy.sparse import csr_array

    lengths = tokens.lengths
    shares = np.repeat(1.0 / np.maximum(lengths, 1), lengths).astype(np.float32)
    width = int(tokens.ids.max(initial=0)) + 1
    bags = csr_array((shares, tokens.ids, tokens.offsets), shape=(len(tokens), width))
    bags.sum_duplicates()
    return Tokens(bags.indices.astype(np.int32), bags.indptr.astype(np.int64), bags.data)


def passage_text(title: str, text: str) -> str:
    """What a model reads of a document; the only place that joins a title to its text."""
    return f"{title} {text}" if title else text
