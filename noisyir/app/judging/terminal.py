"""Judging in a terminal, also over ssh: one key an answer, or, where the input is no terminal, one line."""

import sys
from collections.abc import Iterator
from typing import TextIO

from rich.columns import Columns
from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from noisyir.app.judging.closing import told
from noisyir.app.judging.pairs import Document, Shown
from noisyir.app.judging.session import BATCH, JudgingSession, Said
from noisyir.verdicts.judgements import Verdict
from noisyir.verdicts.texts import words

_KEYS = "[r]ight  [w]rong  [u]nsure  [n]ext  undo [z]  [1-3] wrong, and this is the right one  [?] help  [q]uit"
_HELP = (
    "A pair is right when the document answers the query. r: right. w: wrong. u: unsure, counts neither way. "
    "n: ask me later. z: take the last answer back. 1, 2, 3: wrong, and this other document is the right one. "
    "i: what is known so far. q, Ctrl-C or the end of the input: finish. Every answer is saved at once."
)
_VERDICTS: dict[str, Verdict] = {"r": "clean", "w": "wrong", "u": "unclear"}
_OTHER_CHARS = 400
_END = {"q", "\x03", "\x04"}


def judge_in_terminal(session: JudgingSession, given: TextIO = sys.stdin, console: Console | None = None) -> None:
    """Ask about one pair after the other until the input ends or the judge does."""
    console = console or Console(highlight=False)
    common = set(session.pairs.common)
    try:
        for key in _asking(session, given, console, common):
            if key in _END:
                return
            console.print(Text(_said(session, key)), "")
    except KeyboardInterrupt:
        console.print()


def _asking(session: JudgingSession, given: TextIO, console: Console, common: set[str]) -> Iterator[str]:
    """Show the pair that is next and give the key that was pressed, until all pairs are judged or the input ends."""
    shown = None
    for key in _keys(given):
        if key:
            yield key
        following = next(iter(session.next_pairs(1)), None)
        if following is None:
            console.print("All pairs are judged.")
            return
        if following != shown:
            console.print(_drawn(following, common), Text(_progress(session), style="dim"), Text(_KEYS), sep="\n")
        shown = following


def _keys(given: TextIO) -> Iterator[str]:
    """An empty key to begin with, then each key that is pressed, or, of an input that is no terminal, each character."""
    yield ""
    if given.isatty():
        while key := _pressed(given):
            yield key.lower()
    else:
        for line in given:
            yield from line.split()[0].lower() if line.split() else ""


def _pressed(given: TextIO) -> str:
    """One key, without waiting for the end of a line."""
    import termios
    import tty

    before = termios.tcgetattr(given)
    try:
        tty.setcbreak(given)
        return given.read(1)
    finally:
        termios.tcsetattr(given, termios.TCSADRAIN, before)


def _said(session: JudgingSession, key: str) -> str:
    """Do what a key asks for; what to say about it."""
    if key == "?":
        return _HELP
    if key == "i":
        return "\n".join(told(session.learnt.known)) or f"The first figures come after {BATCH} answers."
    if key == "z":
        return "Taken back." if session.undo() else "There is nothing to take back."
    (shown,) = session.next_pairs(1)
    pair = shown.query_id, shown.document.doc_id
    if key == "n":
        session.skip(pair)
        return "Later."
    if key in _VERDICTS:
        session.answer(Said(pair, _VERDICTS[key]))
        return f"Saved: {'right' if key == 'r' else 'wrong' if key == 'w' else 'unsure'}."
    if key.isdecimal() and 0 < int(key) <= len(shown.others):
        other = shown.others[int(key) - 1].doc_id
        session.answer(Said(pair, "wrong", other))
        return f"Saved: wrong, {other} is the right one."
    return f"{key!r} is no key here. {_HELP}"


def _progress(session: JudgingSession) -> str:
    state = session.state()
    known = session.learnt.known
    rate = f"  wrong pairs {known.rate} by {known.sampled:,} drawn at random" if known.rate else ""
    return f"{state['judged']:,} of {state['pairs']:,} judged{rate}"


def _drawn(pair: Shown, common: set[str]) -> Group:
    query_words = set(words(pair.query)) - common
    query = Panel(_marked(pair.query, set(words(pair.document.text)) - common), title=f"query {pair.query_id}")
    own = Panel(_marked(_text(pair.document), query_words), title=f"document {pair.document.doc_id}")
    parts: list[Panel | Columns | Text] = [query, own]
    if pair.others:
        parts.append(Text("other documents found for this query", style="bold"))
    for number, other in enumerate(pair.others, 1):
        parts.append(Panel(_marked(_text(other, _OTHER_CHARS), query_words), title=f"{number}  {other.doc_id}"))
    return Group(*parts)


def _text(document: Document, most: int | None = None) -> str:
    text = document.text[:most]
    return f"{text} ..." if document.cut or len(text) < len(document.text) else text


def _marked(text: str, shared: set[str]) -> Text:
    """The text without what would steer the terminal, its shared words in bold."""
    plain = "".join(character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}" for character in text)
    marked = Text(plain)
    for word in shared:
        marked.highlight_words([word], "bold underline", case_sensitive=False)
    return marked
