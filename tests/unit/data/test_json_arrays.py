"""Arrays read item by item: the same items as json.load gives, wherever the file is cut into pieces."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noisyir.base.errors import DataError
from noisyir.data import json_arrays
from noisyir.data.limits import LINE
from tests.refusals import refuses

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), max_size=6)


@given(items=OBJECTS, indent=st.none() | st.integers(0, 2), ascii_only=st.booleans(), size=st.integers(1, 40))
def test_the_items_are_those_of_json_load_however_the_file_is_cut(tmp_path_factory, items, indent, ascii_only, size):
    path = tmp_path_factory.mktemp("arrays") / "a.json"
    path.write_text(json.dumps(items, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_arrays, "_READ_AT_ONCE", size)
        assert list(json_arrays.json_array(path)) == list(enumerate(json.loads(path.read_text("utf-8")), 1))


@pytest.mark.parametrize("size", [3, 1 << 20])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"expected a JSON array, which starts with \[; found ''"),
        ("[", r"item 1: the file ends within it"),
        ('[{"a": 1}', r"expected a comma or \] after item 1, found ''"),
        ('[{"a": 1},', r"item 2: the file ends within it"),
        ('[{"a": 1},]', r"item 2: invalid JSON: a comma before the closing \]"),
        ('[{"a": 1} {"b": 2}]', r"expected a comma or \] after item 1, found '{'"),
        ('[{"a": "never closed', r"item 1: the file ends within it, get it whole: Unterminated string"),
        ('[{"a": 1}, {"a" 2, "b": "' + "x" * 99 + '"}]', r"item 2: invalid JSON, mend it: Expecting ':' delimiter at"),
        ("[1]", r"item 1: expected a JSON object, found int"),
        ('[{"a": "\\ud83d"}]', r"item 1: a .ud... escape without its other half"),
        ("[{}] more", r"expected nothing after the closing \], found 'm'"),
    ],
)
def test_what_is_no_array_of_objects_is_refused_with_its_place(tmp_path, monkeypatch, text, message, size):
    monkeypatch.setattr(json_arrays, "_READ_AT_ONCE", size)
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        list(json_arrays.json_array(path))


def test_damaged_bytes_are_refused(tmp_path):
    (tmp_path / "a.json").write_bytes(b'[{"a": "caf\xe9 and more"}]')
    with refuses(DataError, "data.not_utf8_near"):
        list(json_arrays.json_array(tmp_path / "a.json"))
    (tmp_path / "b.json.gz").write_bytes(gzip.compress(json.dumps([{"a": list(range(999))}]).encode())[:-40])
    with refuses(DataError, "data.damaged_after_byte"):
        list(json_arrays.json_array(tmp_path / "b.json.gz"))


def test_an_item_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(json_arrays, "_READ_AT_ONCE", 8)
    monkeypatch.setenv(LINE.name, "100")
    (tmp_path / "a.json").write_text('[{"a": "' + "x" * 500)
    with refuses(DataError, "data.json_item_too_long"):
        list(json_arrays.json_array(tmp_path / "a.json"))
