"""The search page of a server in a real browser: by keyboard, narrow and wide, light and dark, and by axe's rules."""

import pytest

from noisyir.engine.store import Store
from tests.flows import test_audit_page
from tests.flows.test_audit_page import browser, faults, look, page  # noqa: F401 - fixtures
from tests.served import make_world, options, random_encoder, serving

pytestmark = test_audit_page.pytestmark

RESULTS = "document.querySelectorAll('#systems > section').length === 2"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    home = tmp_path_factory.mktemp("searched")
    return make_world(Store(home / "store", home=home), random_encoder())


@pytest.fixture
def visited(world, page):  # noqa: F811
    with serving(options(world)) as address:
        page.send("Page.navigate", url=f"{address}/")
        page.until(f"location.href === '{address}/' && document.readyState === 'complete'")
        yield page


def press(page, key):  # noqa: F811
    codes = {"Enter": 13, "Tab": 9}
    text = {"Enter": "\r", "Tab": ""}.get(key, key)
    for kind in ("keyDown", "keyUp"):
        page.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "",
                  windowsVirtualKeyCode=codes.get(key, 0))  # fmt: skip


def search(page, query):  # noqa: F811
    for sign in query:
        press(page, sign)
    press(page, "Enter")
    page.until(RESULTS)


def test_a_search_by_keyboard_alone(visited):
    search(visited, "w1 w2")
    headings = visited("[...document.querySelectorAll('#systems h2')].map(found => found.textContent)")
    assert headings == ["The model", "BM25"]
    assert visited("location.search") == "?q=w1%20w2"
    assert visited("document.querySelectorAll('#systems section:first-child li').length") == 10
    assert {*visited("[...document.querySelectorAll('mark')].map(found => found.textContent)")} <= {"w1", "w2"}
    assert visited("document.querySelectorAll('mark').length") > 5
    assert "ms on the server" in visited("document.querySelector('#systems .line').textContent")
    visited("document.querySelector('#systems li button').focus()")
    press(visited, "Enter")
    visited.until("document.querySelector('.why').textContent.includes('rank 1')")
    why = visited("document.querySelector('.why').textContent")
    assert "without “w1”" in why and "BM25: " in why
    assert visited("document.querySelector('#systems li button').getAttribute('aria-expanded')") == "true"
    press(visited, "Enter")
    assert visited("document.querySelector('.why').hidden")
    press(visited, "/")
    assert visited("document.activeElement.id") == "query"
    assert "is not known" in visited("document.getElementById('rate').textContent")


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_axe_finds_nothing(visited, width, scheme):
    look(visited, width, scheme)
    search(visited, "w1 w2")
    visited("document.querySelector('#systems li button').click()")
    visited.until("document.querySelector('.why').textContent.includes('rank 1')")
    side = visited("[...document.querySelectorAll('#systems > section')].map(one => one.getBoundingClientRect().top)")
    assert (side[0] == side[1]) is (width == 1440)
    ink = visited("getComputedStyle(document.body).backgroundColor")
    assert (ink == "rgb(253, 253, 252)") is (scheme == "light")
    assert faults(visited) == []


def test_a_page_of_a_model_without_an_index_says_so(world, page):  # noqa: F811
    with serving(options(world, index=False)) as address:
        page.send("Page.navigate", url=f"{address}/")
        page.until("document.readyState === 'complete' && location.protocol === 'http:'")
        assert "has no index" in page("document.getElementById('said').textContent")


def test_the_page_asks_for_the_key(world, page, tmp_path):  # noqa: F811
    file = tmp_path / "keys"
    file.write_text("a-key-of-enough-letters")
    file.chmod(0o600)
    with serving(options(world, key_file=str(file))) as address:
        page.send("Page.navigate", url=f"{address}/")
        page.until("document.readyState === 'complete' && location.protocol === 'http:'")
        page("document.getElementById('key').value = 'a-key-of-enough-letters'")
        page("document.getElementById('query').value = 'w1'")
        page("document.getElementById('form').requestSubmit()")
        page.until(RESULTS)
