"""The audit page in a real browser: opened from disk, driven over the DevTools protocol."""

import csv
import json
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from noisyir.audits.page import with_file_rows
from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.detection.judgements import HumanJudgement, drawn_at_random, given_judgements
from tests.unit.stages.audit_world import audit_tables
from tests.unit.stages.suspects_world import suspect_tables

websockets = pytest.importorskip("websockets.sync.client", reason="the package websockets drives the browser")
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on PATH")

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-dev-shm-usage --remote-debugging-port=0 --window-size=1400,1800"
).split()
PAIRS, SHOWN = 10_500, 10_000


class Page:
    """One tab: `page("expression")` evaluates JavaScript in it."""

    def __init__(self, socket):
        self.socket, self.sent = socket, 0
        self.errors: list[str] = []

    def send(self, method, **params):
        self.sent += 1
        self.socket.send(json.dumps({"id": self.sent, "method": method, "params": params}))
        while (answer := json.loads(self.socket.recv(timeout=60))).get("id") != self.sent:
            if answer["method"] in ("Runtime.exceptionThrown", "Log.entryAdded"):
                self.errors.append(json.dumps(answer["params"]))
        assert "error" not in answer, answer
        return answer["result"]

    def __call__(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def open(self, path):
        self.send("Page.navigate", url=path.as_uri())
        self.until("document.readyState === 'complete' && location.protocol === 'file:'")

    def until(self, condition):
        end = time.monotonic() + 90  # others may be at work
        while not self(condition):
            assert time.monotonic() < end, f"never: {condition}"
            time.sleep(0.05)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, text=key if kind == "keyDown" else "")

    def choose(self, element, value):
        at = f"document.getElementById({element!r})"
        self(f"{at}.value = {value!r}")
        for event in ("input", "change"):
            self(f"{at}.dispatchEvent(new Event({event!r}))")

    def column(self, key):
        """The texts of one column on the page that is shown."""
        return self(
            f"[...document.querySelectorAll('tr.pair')].map(row => row.cells[columns.indexOf({key!r})].textContent)"
        )

    def milliseconds(self, action):
        """How long an action takes, the drawing of its result included."""
        return self(
            f"(async () => {{ const start = performance.now(); {action}; document.body.getBoundingClientRect();"
            " await new Promise(requestAnimationFrame); return performance.now() - start })()"
        )


def look(page, width, scheme):
    page.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 500)
    page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])


def faults(page) -> list[str]:
    """What axe finds, and whether the page must be scrolled sideways."""
    axe = pytest.importorskip("axe_core_python", reason="pip install axe-core-python")
    page.send("Runtime.evaluate", expression=(Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
    found = page("axe.run().then(result => result.violations.map(one => one.id + ': ' + one.nodes[0].html))")
    return found + ([] if page("document.documentElement.scrollWidth <= innerWidth") else ["it is too wide"])


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    profile = tmp_path_factory.mktemp("profile")
    process = subprocess.Popen(
        [BROWSER, *FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    port_file = profile / "DevToolsActivePort"
    try:
        for _ in range(2400):
            if port_file.exists() and len(port_file.read_text().splitlines()) == 2:
                break
            assert process.poll() is None, "the browser ended"
            time.sleep(0.05)
        port, path = port_file.read_text().splitlines()
        yield f"ws://127.0.0.1:{port}{path}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.fixture
def page(browser):
    with websockets.connect(browser, max_size=None) as control:
        target = Page(control).send("Target.createTarget", url="about:blank")["targetId"]
        with websockets.connect(f"{browser.split('/devtools')[0]}/devtools/page/{target}", max_size=None) as socket:
            page = Page(socket)
            for domain in ("Page", "Runtime", "Log"):
                page.send(f"{domain}.enable")
            yield page
            assert page.errors == []
        Page(control).send("Target.closeTarget", targetId=target)


@pytest.fixture(scope="module")
def audit_page(run_stage_once) -> Path:
    return run_stage_once(AUDIT, AuditParams(), audit_tables(200))["audit_files"] / "audit.html"


@pytest.fixture(scope="module")
def large_page(run_stage_once) -> Path:
    tables = audit_tables(PAIRS)
    return run_stage_once(AUDIT, AuditParams(html_rows=SHOWN), tables)["audit_files"] / "audit.html"


def test_a_page_of_ten_thousand_pairs_does_what_its_controls_say(page, large_page):
    page.open(large_page)
    assert page("performance.now()") < 30_000
    assert page("rows.length") == SHOWN
    assert page("document.getElementById('count').textContent") == "Pairs 1 to 50 of 10,000"
    assert page("document.querySelectorAll('tr.pair').length") == 50

    for heading in ("query", "document", "suspicion", "verdict"):
        assert page.milliseconds(f"document.querySelector('th[data-key={heading}] button').click()") < 5000
        assert page(f"document.querySelector('th[data-key={heading}]').ariaSort") in ("ascending", "descending")
    page("document.querySelector('th[data-key=suspicion] button').click()")
    assert page.column("suspicion") == [str(place) for place in range(1, 51)]
    page("document.querySelector('th[data-key=suspicion] button').click()")
    assert page.column("suspicion")[0] == "10,000", "of the pairs on the page"

    page.choose("verdict", "suspect")
    assert set(page.column("verdict")) == {"suspect"}
    words = page("document.body.innerText")
    assert "p(clean)" not in words and "chance of being right" not in words
    page.choose("source", "source 3")
    assert set(page.column("source")) == {"source 3"}
    page.choose("verdict", "")
    page.choose("source", "")
    assert page.milliseconds("document.getElementById('search').value = 'topic7777 q7777'; update()") < 5000
    assert page.column("query") == ["what is topic7777 made of"]
    page.choose("search", "no such words anywhere")
    assert page("document.getElementById('count').textContent") == "No pair fits these choices."
    page.choose("search", "")

    page("document.getElementById('on').click()")
    assert page("document.getElementById('count').textContent") == "Pairs 51 to 100 of 10,000"
    page.choose("page", "200")
    assert page("document.getElementById('count').textContent") == "Pairs 9,951 to 10,000 of 10,000"
    assert page("document.getElementById('on').disabled")


def test_a_row_opens_to_show_the_evidence(page, audit_page):
    page.open(audit_page)
    page("document.querySelector('tr.pair .open').click()")
    assert page("document.querySelector('tr.pair .open').getAttribute('aria-expanded')") == "true"
    text = page("document.querySelector('.detail').innerText")
    assert "others fit better" in text and "wrong, and this one is right a" in text
    assert "others talk of nothing else" in text, "the better document's text"
    assert page("[...document.querySelectorAll('.detail .others mark')].length") > 0
    page("document.querySelector('tr.pair .open').click()")
    assert not page("document.querySelector('.detail') !== null")


def test_the_row_in_the_file_is_told_where_it_is_known(page, audit_page, tmp_path):
    (tmp_path / "p.html").write_text(with_file_rows(audit_page.read_text(), [702, None, *range(1000, 1198)]))
    for path, told in ((tmp_path / "p.html", ["row 702: ", "", "row 1000: "]), (audit_page, ["", "", ""])):
        page.open(path)
        said = page("[...document.querySelectorAll('.story .measures')].map(one => one.textContent)")
        assert [re.match(r"(row \d+: )?", one)[0] for one in said] == told
        page("document.querySelector('tr.pair .open').click()")
        assert (" · row 702 of the file · " in page("document.querySelector('.detail').innerText")) == bool(told[0])


def saved_by(page, tmp_path) -> list[dict[str, str]]:
    """The rows of the file that the page's button saves."""
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page("document.getElementById('save').click()")
    page.until("true")
    return downloaded(tmp_path / "judgements.csv")


def downloaded(file: Path) -> list[dict[str, str]]:
    """The rows of a csv, once the browser has written it, which makes an empty file first."""
    for _ in range(200):
        if file.exists() and file.stat().st_size:
            break
        time.sleep(0.05)
    with file.open(newline="") as rows:
        return list(csv.DictReader(rows))


def test_a_person_judges_by_keyboard_alone_and_saves_what_survives_a_reload(page, audit_page, tmp_path):
    page.open(audit_page)
    opened = "pairs.rows.indexOf(pairs.open)"
    page.press("j")
    for key, then in [("r", 1), ("w", 2), ("u", 3), ("z", 2), ("a", 3), ("u", 4), ("k", 3)]:
        page.press(key)
        assert page(opened) == then, f"{key}: each verdict goes on to the next pair"
    assert page("document.activeElement.closest('tr').dataset.row") == "3"
    ids = page("rows.slice(0, 4).map(row => [row.query_id, row.doc_id])")
    suggested = page("documents.id[rows[2].replacement]")
    page.send("Page.reload")
    page.until("document.readyState === 'complete' && document.getElementById('judged').textContent === '4'")
    page.choose("yours", "judged")
    said = ["right", "wrong", "wrong, replaced", "unsure"]
    assert [text.split("you: ")[1] for text in page.column("verdict")] == said
    rows = saved_by(page, tmp_path)
    assert list(rows[0]) == ["query_id", "doc_id", "verdict", "replacement", "at"], "no weight: nobody drew them"
    assert [[row["query_id"], row["doc_id"]] for row in rows] == ids
    assert [row["verdict"] for row in rows] == ["clean", "wrong", "wrong", "unclear"]
    assert [row["replacement"] for row in rows] == ["", "", suggested, ""]
    found = given_judgements([str(tmp_path / "judgements.csv")])
    assert found[tuple(ids[2])] == HumanJudgement("wrong", None, suggested) and drawn_at_random(found) == 0


def test_verdicts_can_be_taken_back_and_another_document_taken(page, audit_page, tmp_path):
    page.open(audit_page)
    page("verdicts.clear(); pairs.render()")  # the browser keeps those of other tests
    assert "count for their own pairs only" in page("document.getElementById('pairs').textContent")
    page.press("j")
    pressed = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: 'w', bubbles: true}))"
    page(f"for (let n = 0; n < 60; n++) {pressed}")  # at once: the browser would draw the page after each
    assert page("pairs.page") == 1 and page("verdicts.size") == 60, "on to the next page of the table"
    page("for (let n = 0; n < 60; n++) document.getElementById('undo').click()")
    assert page("verdicts.size") == 0 and page("pairs.page") == 0 and page("document.getElementById('undo').disabled")
    page("[...document.querySelectorAll('.detail .accept')].at(-1).click()")
    assert page("document.querySelector('.detail [data-judge=wrong]').getAttribute('aria-pressed')") == "true"
    assert page("document.querySelector('.detail .accept[aria-pressed=true]') !== null")
    assert page("[...verdicts.values()][0].replacement") == page("documents.id[rows[0].better.at(-1)[0]]")
    page("document.querySelector('.detail [data-judge=\"\"]').click()")
    assert page("verdicts.size") == 0
    page("localStorage.setItem(STORE, JSON.stringify({[rows[5].key]: 'wrong'}))")  # as pages of before kept them
    page.send("Page.reload")
    page.until("document.readyState === 'complete' && document.getElementById('judged').textContent === '1'")
    assert [row["verdict"] for row in saved_by(page, tmp_path)] == ["wrong"]


@pytest.mark.slow
def test_judging_is_quick_among_ten_thousand(page, large_page):
    page.open(large_page)
    page(
        "const said = {verdict: 'clean', replacement: null, at: new Date().toISOString()};"
        "rows.forEach(row => verdicts.set(row.key, said))"
    )
    page.press("j")
    assert min(page.milliseconds("judgeOpen('wrong')") for _ in range(5)) < 500, (
        "the best of five: others use this core"
    )


@pytest.mark.parametrize("width", [390, 800, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_axe_finds_nothing(page, audit_page, width, scheme):
    look(page, width, scheme)
    page.open(audit_page)
    assert page("document.querySelector('.story').getBoundingClientRect().top") < 700
    page("document.querySelector('tr.pair .open').click(); document.querySelector('#rate details').open = true")
    assert faults(page) == []


def test_the_first_pairs_are_told_as_stories_with_buttons_and_links(page, audit_page):
    page.open(audit_page)
    page("verdicts.clear(); pairs.render()")
    assert page("[...document.querySelectorAll('.story .asked')].length") == 3
    first = page("document.querySelector('.story').innerText")
    assert "you say" in first and "the closest other document in your file" in first and "others fit better" in first
    page("document.querySelector('.story [data-judge=wrong]').focus()")
    page("document.activeElement.click()")
    assert page("[...verdicts.values()].map(said => said.verdict)") == ["wrong"]
    assert page("document.activeElement.getAttribute('aria-pressed')") == "true", "the keyboard keeps its place"
    page("document.querySelectorAll('.story')[1].focus()")
    page.press("r")
    assert page("verdicts.get(told[1].key).verdict") == "clean", "keys judge the story that has the focus"
    page.choose("search", "no such words anywhere")
    page("document.querySelectorAll('.story a')[1].click()")
    page.until("pairs.open !== null")
    assert page("pairs.open === told[1]"), "the link shows its pair, whatever was chosen"


def test_choices_stack_and_one_answer_goes_to_all_that_are_chosen(page, audit_page, tmp_path):
    page.open(audit_page)
    page("verdicts.clear(); window.confirm = () => true; pairs.render()")
    bar = "[...document.querySelectorAll('rect.bin')].at(-1)"
    page(f"{bar}.dispatchEvent(new MouseEvent('click'))")
    of_bar = page("pairs.shown.length")
    assert 0 < of_bar < 200 and page(f"pairs.shown.every(row => row.score >= {bar}.dataset.from)")
    source = page("pairs.shown[0].source")
    page.choose("source", source)
    chosen = page("pairs.shown.length")
    assert 0 < chosen <= of_bar and page(f"pairs.shown.every(row => row.source === {source!r})")
    page("document.querySelector('[data-bulk=wrong]').click()")
    assert page("verdicts.size") == chosen
    page.choose("yours", "open")
    assert page("pairs.shown.length") == 0
    page("document.getElementById('undo').click()")
    assert page("verdicts.size") == 0
    page("document.getElementById('show-all').click()")
    assert page("pairs.shown.length") == 200
    page.choose("search", "TOPIC1\u0301")
    assert page("pairs.shown.length") > 0, "accents and case do not matter"
    page.send("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    page("document.getElementById('export').click()")
    assert len(downloaded(tmp_path / "chosen.csv")) == page("pairs.shown.length")


def test_all_pairs_of_a_query_can_be_seen_together(page, audit_page):
    page.open(audit_page)
    page("rows[7].query_id = rows[3].query_id; pairs.goTo(rows[3])")
    page("document.querySelector('.detail .judge .link').click()")
    assert page("pairs.shown.map(row => row.number)") == [3, 7]
    page("document.getElementById('only').click()")
    assert page("pairs.shown.length") == 200


def test_texts_with_markup_are_shown_as_they_are_and_run_nothing(page, run_stage_on):
    script = "</script><script>alert(1)</script>"
    tables = audit_tables(60, spice=f"{script} <!-- \"quoted\" 'text' <img src=x onerror=alert(1)>")
    page.open(run_stage_on(AUDIT, AuditParams(), tables)["audit_files"] / "audit.html")
    page("document.querySelector('tr.pair .open').click()")
    assert script in page("document.querySelector('.detail .beside').textContent")
    assert page("document.querySelectorAll('script').length") == 2
    assert page("document.querySelectorAll('img').length") == 0


def test_candidates_for_negatives_have_a_table_of_their_own(page, run_stage_on):
    script = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    tables = suspect_tables(spice=script)
    found = run_stage_on(AUDIT_NEGATIVES, AuditParams().suspects(), tables)
    given = audit_tables(6, spice=script) | {"corpus": tables["corpus"]} | found
    page.open(run_stage_on(AUDIT, AuditParams(), given)["audit_files"] / "audit.html")
    own = "document.getElementById('negatives-rows')"

    def queries():
        return page(f"[...{own}.querySelectorAll('tr.pair')].map(row => listings[1].rows[row.dataset.row].query_id)")

    assert page("document.getElementById('count').textContent") == "Pairs 1 to 6 of 6"
    assert page("document.getElementById('negatives-count').textContent") == "Candidates 1 to 3 of 3"
    assert queries() == ["q0", "q1", "q0"]
    page("document.querySelector('#negatives th[data-key=confidence] button').click()")
    assert queries() == ["q1", "q0", "q0"] and page("listings[0].sort") == "suspicion"
    page.choose("negatives-used", "true")
    assert queries() == ["q1"]
    page.choose("negatives-used", "")
    page.choose("negatives-judge", "cross_encoder")
    assert queries() == ["q0", "q0"]
    page.choose("negatives-search", "stuff")
    assert queries() == ["q0"]
    page(f"{own}.querySelector('.open').click(); {own}.querySelector('.open').focus()")
    for key in "wj":
        page.press(key)  # verdicts are for pairs: none is open
    assert page("verdicts.size") == 0
    text = page(f"{own}.querySelector('.detail').innerText")
    assert "nearly the same words as the positive" in text and script in text and "candidate" in text
    assert page("document.querySelectorAll('img, #negatives script').length") == 0


def test_without_javascript_the_summary_is_there(page, audit_page):
    page.send("Emulation.setScriptExecutionDisabled", value=True)
    page.open(audit_page)
    text = page("document.body.innerText")
    assert "needs JavaScript" in text and "Flagged as suspect" in text and "Previous" not in text
