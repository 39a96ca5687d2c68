"""Judging in a terminal, also over ssh: one key an answer, or, where the input is no terminal, one line."""

import re
import sys
from collections.abc import Iterator
from typing import TextIO

from rich.console import Console, Group
from rich.panel import Panel
from rich.text import Text

from noisyir.audits.judgements import Verdict
from noisyir.audits.judging.pairs_to_judge import Shown, ShownDocument
from noisyir.audits.judging.session import BATCH, JudgingSession, Progress, told
from noisyir.audits.texts import words

_KEYS = "[r]ight  [w]rong  [u]nsure  [n]ext  undo [z]  [1-3] wrong, and this is the right one  [?] help  [q]uit"
_HELP = (
    "A pair is right when the document answers the query. r: right. w: wrong. u: unsure, counts neither way. "
    "n: ask me later. z: take the last answer back. 1, 2, 3: wrong, and this other document is the right one. "
    "i: the result so far. q, Ctrl-C or the end of the input: finish. Every answer is saved immediately."
)
_VERDICTS: dict[str, Verdict] = {"r": "clean", "c": "clean", "w": "wrong", "u": "unclear"}
_OTHER_CHARS = 400
_END = {"q", "\x03", "\x04"}


def judge_in_terminal(session: JudgingSession, given: TextIO | None = None, console: Console | None = None) -> None:
    """Ask about one pair after the other until the input ends or the judge does."""
    given, console = given or sys.stdin, console or Console(highlight=False)
    common = set(session.pairs.common)
    try:
        for key in _asking(session, given, console, common):
            if key in _END:
                return
            console.print(Text(_said(session, key)))
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
    """An empty key to begin with, then each that is pressed, or, of an input that is no terminal, each character."""
    yield ""
    if not given.isatty():
        for line in given:
            yield from "".join(line.split()).lower()
        return
    import termios
    import tty

    before = termios.tcgetattr(given)
    try:
        tty.setcbreak(given, termios.TCSANOW)  # keys are read as they come, and none typed before is lost
        while key := given.read(1):
            yield key.lower()
    finally:
        termios.tcsetattr(given, termios.TCSADRAIN, before)


def _said(session: JudgingSession, key: str) -> str:
    """Do what a key asks for; what to say about it."""
    if key == "?":
        return _HELP
    if key == "i":
        return "\n".join(told(session.known)) or f"The first figures come after {BATCH} answers."
    if key == "z":
        return "Taken back." if session.undo() else "There is nothing to take back."
    (shown,) = session.next_pairs(1)
    pair = shown.query_id, shown.document.doc_id
    if key == "n":
        session.skip(pair)
        return "Later."
    if key in _VERDICTS:
        session.answer(Progress(pair, _VERDICTS[key]))
        return f"Saved: {_VERDICTS[key]}."
    if key.isdecimal() and 0 < int(key) <= len(shown.others):
        other = shown.others[int(key) - 1].doc_id
        session.answer(Progress(pair, "wrong", other))
        return f"Saved: wrong, {other} is the right one."
    return f"{key!r} is no key here. {_HELP}"


def _progress(session: JudgingSession) -> str:
    state = session.state()
    known = session.known
    rate = f"  wrong pairs {known.rate} by {known.sampled:,} drawn at random" if known.rate else ""
    return f"{state['judged']:,} of {state['pairs']:,} judged{rate}"


def _drawn(pair: Shown, common: set[str]) -> Group:
    query_words = set(words(pair.query)) - common
    own = pair.document
    parts: list[Panel | Text] = [
        _panel(f"query {pair.query_id}", _marked(pair.query, set(words(own.text)) - common)),
        _panel(f"document {own.doc_id}", _marked(_text(own), query_words)),
    ]
    if pair.others:
        parts.append(Text("other documents found for this query", style="bold"))
    for number, other in enumerate(pair.others, 1):
        parts.append(_panel(f"{number}  {other.doc_id}", _marked(_text(other, _OTHER_CHARS), query_words)))
    return Group(*parts)


def _panel(title: str, text: Text) -> Panel:
    return Panel(text, title=Text(_printable(title)), title_align="left")


def _text(document: ShownDocument, most: int | None = None) -> str:
    text = document.text[:most]
    return f"{text} ..." if document.cut or len(text) < len(document.text) else text


def _printable(text: str) -> str:
    """The text without what would steer the terminal."""
    return "".join(sign if sign.isprintable() or sign in "\n\t" else "\N{REPLACEMENT CHARACTER}" for sign in text)


def _marked(text: str, shared: set[str]) -> Text:
    """The text with its shared words underlined."""
    marked = Text(_printable(text))
    for word in re.finditer(r"\w+", marked.plain):
        if word.group().casefold() in shared:
            marked.stylize("bold underline", *word.span())
    return marked
