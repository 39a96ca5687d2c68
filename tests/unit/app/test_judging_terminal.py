"""Judging in a terminal: the keys, what is shown, and what is kept."""

import io
import os
import pty
from threading import Thread

from rich.console import Console

from noisyir.audits.judging.terminal import judge_in_terminal
from tests.unit.app.judging_world import Learner, pair_of, pairs, session


def judged(of, keys):
    out = io.StringIO()
    judge_in_terminal(of, io.StringIO(keys), Console(file=out, width=100))
    return out.getvalue()


def test_a_session_by_lines_from_a_pipe(tmp_path):
    one = session(tmp_path)
    asked = [pair_of(shown) for shown in one.next_pairs(6)]
    text = judged(one, "r\nw\nu\n2\n?\nx\nn\nz\nq\nr\n")
    said = [(answer.pair, answer.verdict, answer.replacement) for answer in one.journal.answers]
    other = f"o{asked[3][0][1:]}b"
    assert said == [(asked[0], "clean", None), (asked[1], "wrong", None), (asked[2], "unclear", None),
                    (asked[3], "wrong", other), (asked[3], None, None)]  # fmt: skip
    assert f"Saved: wrong, {other} is the right one." in text and "'x' is no key here" in text
    assert "Later." in text and "Taken back." in text and "A pair is right when" in text
    assert f"query {asked[0][0]}" in text and "0 of 120 judged" in text


def test_the_end_of_the_input_ends_the_session(tmp_path):
    one = session(tmp_path)
    judged(one, "rrww")
    assert one.state()["judged"] == 4


def test_all_pairs_can_be_judged(tmp_path):
    one = session(tmp_path, of=pairs(7))
    text = judged(one, "r" * 20)
    assert one.state()["judged"] == 7 and "All pairs are judged." in text


def test_what_is_known_is_told(tmp_path):
    one = session(tmp_path, learner=Learner())
    assert "The first figures come after 25 answers." in judged(one, "i")
    judged(one, "w")
    one.finish()
    assert "wrong pairs    25.0% [10.0%, 40.0%]" in judged(one, "i")


def test_texts_steer_neither_the_terminal_nor_the_layout(tmp_path):
    spiced = pairs(3)
    place = spiced.audit.schema.get_field_index("document")
    spiced.audit = spiced.audit.set_column(place, "document", [["\x1b[2J\x1b]0;owned\x07[bold]thing[/] \x9b31m"] * 3])
    text = judged(session(tmp_path, of=spiced), "r")
    assert not {"\x1b", "\x07", "\x9b"} & set(text) and "[bold]thing[/]" in text


def test_single_keys_on_a_terminal(tmp_path):
    one = session(tmp_path)
    theirs, ours = pty.openpty()
    out = io.StringIO()
    with os.fdopen(ours) as given:
        at_work = Thread(target=judge_in_terminal, args=(one, given, Console(file=out, width=100)))
        at_work.start()
        for key in "rwq":  # no line ends
            os.write(theirs, key.encode())
        at_work.join(20)
        assert not at_work.is_alive()
    os.close(theirs)
    assert [answer.verdict for answer in one.journal.answers] == ["clean", "wrong"]
