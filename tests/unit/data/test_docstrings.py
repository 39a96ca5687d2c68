"""What counts as a documented function, and that its code does not tell the query."""

from textwrap import dedent

import pytest

from noisyir.data.formats.pydocs import documented_functions, first_paragraph


def mined(source):
    return {found.name: found for found in documented_functions(dedent(source))}


def test_a_method_is_dedented_and_its_docstring_is_gone():
    found = mined('''
        class Stack:
            def push(self, item):
                """Put an item on
                top of the stack.

                More words.
                """
                # a comment
                self.items.append(item)
    ''')["Stack.push"]
    assert found.paragraph == "Put an item on top of the stack."
    assert found.code == "def push(self, item):\n    # a comment\n    self.items.append(item)"


def test_docstrings_of_inner_functions_are_gone_too_and_they_are_mined_themselves():
    found = mined('''
        def outer(values):
            """Sort by the second column."""
            def key(row):
                """Take the second column."""
                row = tuple(row)
                return row[1]
            if values:
                async def later(row):
                    """Wait a little while."""
                    await row
                    return row
            return sorted(values, key=key)
    ''')
    assert set(found) == {"outer", "outer.key", "outer.later"}
    assert not any('"""' in function.code for function in found.values())


@pytest.mark.parametrize(
    ("reason", "source"),
    [
        ("two words", 'def f(a):\n    """Two words."""\n    a += 1\n    return a\n'),
        ("two lines of code", 'def f(a):\n    """Three words here."""\n    return a\n'),
        ("no body", 'def f(\n    a,\n    b,\n):\n    """Three words here."""\n'),
        ("a test", 'def test_f(a):\n    """Three words here."""\n    a += 1\n    return a\n'),
        ("a dunder", 'def __repr__(a):\n    """Three words here."""\n    a += 1\n    return a\n'),
        ("one line holds all", 'def f(a): """Three words here."""; a += 1; return a\n'),
        ("code after it", 'def f(a):\n    """Three words here."""; a += 1\n    a += 2\n    return a\n'),
        ("repeated in the code", 'def f(a):\n    """Three words here."""\n    # Three words here.\n    return a\n'),
        ("not Unicode", 'def f(a):\n    """Three words \\ud800."""\n    a += 1\n    return a\n'),
        ("bytes", 'def f(a):\n    b"""Three words here."""\n    a += 1\n    return a\n'),
    ],
)
def test_filtered_out(reason, source):
    assert documented_functions(source) == [], reason


def test_long_code_is_cut():
    body = "".join(f"    a{n} = {n}\n" for n in range(1000))
    [found] = documented_functions(f'def f():\n    """Three words here."""\n{body}')
    assert len(found.code) == 4000


def test_first_paragraph_ends_at_a_blank_line_even_with_spaces_in_it():
    assert first_paragraph("One\n    line.\n   \n    Two.") == "One line."
