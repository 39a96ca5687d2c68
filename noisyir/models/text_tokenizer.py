"""Texts as `Tokens`, with prefix, special tokens and truncation of a model's side.

BERT's pre-tokenizer splits at white space and punctuation, so that a word's ids do not depend on its neighbours:
each distinct word of a batch is read once, and remembered.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from tokenizers import Tokenizer


Rows = npt.NDArray[np.integer]
Side = Literal["query", "passage"]
SIDES: tuple[Side, Side] = ("query", "passage")

_TEXTS_AT_ONCE = 1024  # few enough for the processor's cache
_CHARACTERS_A_TOKEN = 6  # more than most texts have, so that few are read again whole
_SIGNS = r"[!-/:-@\[-`{-~]"  # ASCII's, each a word of its own
_BLANKS = r"[\t\n\r]"  # white space other than the space
_MOST_WORDS = 1 << 17  # remembered at once: about 30 MB
_LONGEST_WORD = 64  # characters of a word that is remembered


@dataclass(frozen=True)
class Tokens:
    """The token ids of n texts: text i has `ids[offsets[i]:offsets[i + 1]]`.

    shares: Each id's share of its text's mean, if order does not matter (static backbone): ids are then distinct and
    ascending within a text, and shares sum to 1.
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32] | None = None

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of ids of each text."""
        return np.diff(self.offsets)

    def __add__(self, other: Self) -> Self:
        return self.joined([self, other])

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Join the texts of all parts; all of them have shares, or none."""
        lengths = [part.lengths for part in parts]
        offsets = np.concatenate([[0], np.cumsum(np.concatenate(lengths), dtype=np.int64)])
        shares = [part.shares for part in parts if part.shares is not None]
        ids = np.concatenate([part.ids for part in parts])
        return cls(ids, offsets, np.concatenate(shares) if shares else None)

    def take(self, rows: Rows) -> Self:
        """Select the texts at `rows`, perhaps repeatedly."""
        offsets, flat = take_ragged(self.offsets, rows)
        shares = None if self.shares is None else self.shares[flat]
        return type(self)(self.ids[flat], offsets, shares)

    def rectangle(self, width: int, pad_id: int = 0) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """Return ids as a rectangle, padded on the right, and the mask of real ones."""
        mask = np.arange(width) < self.lengths[:, None]
        ids = np.full(mask.shape, pad_id, np.int64)
        ids[mask] = self.ids
        return ids, mask


class WordReader:
    """Reads texts as a word-by-word tokenizer does; `added` tokens are found before words."""

    def __init__(self, tokenizer: "Tokenizer", added: Sequence[str]) -> None:
        self._tokenizer = tokenizer
        example = tokenizer.encode("a")
        own = np.flatnonzero(np.array(example.special_tokens_mask) == 0)
        self._special = example.ids[: own[0]], example.ids[own[-1] + 1 :]
        whole = map(re.escape, sorted(added, key=len, reverse=True))
        self._apart = "|".join((*whole, _SIGNS))
        self._known: dict[str, bytes] = {}

    def __call__(self, texts: Sequence[str], max_len: int, special_tokens: bool) -> Tokens:
        """Return the first tokens of each text, at most `max_len` with special ones; raises UnicodeEncodeError."""
        spaced = pc.replace_substring_regex(pa.array(texts, pa.large_string()), _BLANKS, " ")
        words = pc.split_pattern(pc.replace_substring_regex(spaced, self._apart, r" \0 "), " ")
        each = words.flatten().dictionary_encode()
        ids = self._read(each.dictionary.to_pylist())
        lengths = np.array([len(some) for some in ids], np.int64) // np.int32().itemsize
        starts = np.concatenate([[0], np.cumsum(lengths)])
        offsets, places = take_ragged(starts, each.indices.to_numpy())
        tokens = Tokens(np.frombuffer(b"".join(ids), np.int32)[places], offsets[words.offsets.to_numpy()])
        return _framed(tokens, *(self._special if special_tokens else ([], [])), max_len)

    def _read(self, words: list[str]) -> list[bytes]:
        """Return the ids of each word, as the bytes of int32."""
        known = self._known
        found = [known.get(word) for word in words]
        new = [word for word, ids in zip(words, found, strict=True) if ids is None]
        read = {
            word: np.array(encoding.ids, np.int32).tobytes()
            for word, encoding in zip(new, self._encode(new), strict=True)
        }
        if len(known) + len(read) > _MOST_WORDS:
            known = self._known = {}  # concurrent readers keep the earlier one
        known.update((word, ids) for word, ids in read.items() if len(word) <= _LONGEST_WORD)
        return [read[word] if ids is None else ids for word, ids in zip(words, found, strict=True)]

    def _encode(self, words: list[str]) -> Any:
        return self._tokenizer.encode_batch_fast(words, add_special_tokens=False)


@dataclass(frozen=True)
class TextTokenizer:
    """Tokenises the texts of one side.

    by_words: Whether the tokens before a white space do not depend on the text after it.
    words: Reads words one by one, if the tokenizer does.
    """

    tokenizer: "Tokenizer"
    prefix: str
    max_len: int
    special_tokens: bool
    as_shares: bool
    by_words: bool
    words: WordReader | None

    @classmethod
    @lru_cache(maxsize=4)
    def from_json(cls, text: str, *, prefix: str, max_len: int, special_tokens: bool, as_shares: bool) -> Self:
        """Build it from a `tokenizer.json`'s content; at most `max_len` tokens are kept, special ones included."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_len)
        by_words = type(tokenizer.pre_tokenizer).__name__ in ("BertPreTokenizer", "ByteLevel")
        return cls(tokenizer, prefix, max_len, special_tokens, as_shares, by_words, word_reader(text))

    def to_json(self) -> str:
        """Return a `tokenizer.json` with the same truncation, but without the prefix."""
        text: str = self.tokenizer.to_str()
        return text

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """Tokenise each text; an empty text may have no tokens."""
        parts = [Tokens(np.empty(0, np.int32), np.zeros(1, np.int64))]
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            parts.append(self._read([self.prefix + text for text in texts[start : start + _TEXTS_AT_ONCE]]))
        tokens = Tokens.joined(parts)
        return as_bags(tokens) if self.as_shares else tokens

    def _read(self, texts: Sequence[str]) -> Tokens:
        """Tokenise texts, reading no more than their first `max_len` tokens need."""
        heads = [self._head(text) for text in texts]
        found = self._ids(heads)
        cut = [row for row, (head, text) in enumerate(zip(heads, texts, strict=True)) if len(head) < len(text)]
        if scarce := [row for row in cut if found.lengths[row] < self.max_len]:
            rows = np.arange(len(texts))
            rows[scarce] = np.arange(len(scarce)) + len(texts)
            found = (found + self._ids([texts[row] for row in scarce])).take(rows)
        return found

    def _ids(self, texts: Sequence[str]) -> Tokens:
        if self.words:
            return self.words(texts, self.max_len, self.special_tokens)
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=self.special_tokens)
        ids = [np.array(encoding.ids, np.int32) for encoding in encodings]
        return Tokens(np.concatenate(ids), np.concatenate([[0], np.cumsum([len(some) for some in ids])]))

    def _head(self, text: str) -> str:
        """Return the beginning of a long text, up to a white space."""
        limit = self.max_len * _CHARACTERS_A_TOKEN
        if len(text) <= limit or not self.by_words:
            return text
        return text[: max(text.rfind(" ", 0, limit), text.rfind("\n", 0, limit), 0)].rstrip() or text


def as_bags(tokens: Tokens) -> Tokens:
    """Merge repeated ids of each text into one with their share of the text."""
    from scipy.sparse import csr_array

    lengths = tokens.lengths
    shares = np.repeat(1.0 / np.maximum(lengths, 1), lengths).astype(np.float32)
    width = int(tokens.ids.max(initial=0)) + 1
    bags = csr_array((shares, tokens.ids, tokens.offsets), shape=(len(tokens), width))
    bags.sum_duplicates()
    return Tokens(bags.indices.astype(np.int32), bags.indptr.astype(np.int64), bags.data)


@lru_cache(maxsize=4)
def word_reader(tokenizer_json: str) -> WordReader | None:
    """Return a reader for a `tokenizer.json`; None if a word's ids may depend on its neighbours."""
    from tokenizers import Tokenizer

    stated = json.loads(tokenizer_json)
    kinds = tuple((stated[part] or {}).get("type") for part in ("normalizer", "pre_tokenizer", "model"))
    if kinds != ("BertNormalizer", "BertPreTokenizer", "WordPiece"):
        return None
    added = stated["added_tokens"]
    if any(token["normalized"] or token["single_word"] or not _plain(token["content"]) for token in added):
        return None
    tokenizer = Tokenizer.from_str(tokenizer_json)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return WordReader(tokenizer, [token["content"] for token in added])


def _framed(tokens: Tokens, before: list[int], after: list[int], max_len: int) -> Tokens:
    """Put each text between special tokens, cut to `max_len` in all."""
    special = len(before) + len(after)
    kept = np.minimum(tokens.lengths, max(max_len - special, 0))
    if not special and kept.sum() == len(tokens.ids):
        return tokens
    offsets = np.concatenate([[0], np.cumsum(kept + special)])
    ids = np.empty(offsets[-1], np.int32)
    count = np.arange(kept.sum()) - np.repeat(np.cumsum(kept) - kept, kept)
    ids[count + np.repeat(offsets[:-1] + len(before), kept)] = tokens.ids[count + np.repeat(tokens.offsets[:-1], kept)]
    for place, number in enumerate(before):
        ids[offsets[:-1] + place] = number
    for place, number in enumerate(reversed(after), 1):
        ids[offsets[1:] - place] = number
    return Tokens(ids, offsets)


def _plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def take_ragged(offsets: npt.NDArray[np.int64], rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the offsets of the chosen rows of a ragged array, and the places of their items in its flat values."""
    lengths = (offsets[1:] - offsets[:-1])[rows]
    taken = np.concatenate([[0], np.cumsum(lengths)])
    places = np.repeat(offsets[:-1][rows] - taken[:-1], lengths)
    places += np.arange(taken[-1])  # in place, because allocating costs more than the sum
    return taken, places


def token_batches(lengths: npt.NDArray[np.integer], budget: int) -> Iterator[npt.NDArray[np.int64]]:
    """Yield rows of texts in batches with count times longest length at most `budget`; at least one text each.

    The longest come first, so that a batch that does not fit into memory fails at once.
    """
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        stop = start + max(budget // longest, 1)
        yield order[start:stop]
        start = stop


def passage_text(title: str, text: str) -> str:
    """Join a document's title and text for a model; the only place that does."""
    return f"{title} {text}" if title else text
