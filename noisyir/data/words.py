"""Words of texts, in scripts with and without spaces between them."""

import regex

_SIGN = r"[\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"  # texts.js has the same scripts
_SIGNS = regex.compile(rf"{_SIGN}\p{{M}}*")
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+")


def spaced(text: str) -> str:
    """Return the text with spaces around each sign, with its marks, of a script that has none between words."""
    return text if text.isascii() else _SIGNS.sub(r" \g<0> ", text)


def signs(text: str) -> list[str]:
    """Return the signs of scripts without spaces between words, each with its marks."""
    found: list[str] = [] if text.isascii() else _SIGNS.findall(text)
    return found


def words(text: str) -> list[str]:
    """Return runs of letters, digits and marks, and single signs, casefolded; texts.js finds the same ones."""
    found: list[str] = _WORD.findall(spaced(text).casefold())
    return found
