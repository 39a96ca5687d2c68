"""The texts of one side as `Tokens`, as a model reads them: prefix, special tokens and truncation are part of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from noisyir.models.tokens import Tokens
from noisyir.models.words import WordReader, word_reader

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_TEXTS_AT_ONCE = 1024  # whose words stay in the processor's cache
_CHARACTERS_A_TOKEN = 6  # more than most texts have, so that few are read again whole


@dataclass(frozen=True)
class TextTokenizer:
    """Turns texts into tokens.

    by_words: whether the tokens of a text up to a white space do not depend on what follows.
    words: reads words one by one, where the tokenizer does.
    """

    tokenizer: "Tokenizer"
    prefix: str
    max_len: int
    special_tokens: bool
    as_shares: bool
    by_words: bool
    words: WordReader | None

    @classmethod
    def from_json(cls, text: str, *, prefix: str, max_len: int, special_tokens: bool, as_shares: bool) -> Self:
        """From a `tokenizer.json`'s content; keeps at most `max_len` tokens of a text, special ones included."""
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_len)
        by_words = type(tokenizer.pre_tokenizer).__name__ in ("BertPreTokenizer", "ByteLevel")
        return cls(tokenizer, prefix, max_len, special_tokens, as_shares, by_words, word_reader(text))

    def to_json(self) -> str:
        """The content of a `tokenizer.json` that truncates as this one does; the prefix is not part of it."""
        text: str = self.tokenizer.to_str()
        return text

    def __call__(self, texts: Sequence[str]) -> Tokens:
        """The tokens of each text; an empty text may have none."""
        parts = [Tokens(np.empty(0, np.int32), np.zeros(1, np.int64))]
        for start in range(0, len(texts), _TEXTS_AT_ONCE):
            parts.append(self._read([self.prefix + text for text in texts[start : start + _TEXTS_AT_ONCE]]))
        tokens = Tokens.joined(parts)
        return _with_shares(tokens) if self.as_shares else tokens

    def _read(self, texts: Sequence[str]) -> Tokens:
        """The tokens of texts, of which no more is read than their first `max_len` tokens need."""
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
