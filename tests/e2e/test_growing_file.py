"""A pairs file that grows under a schedule of each minute: a judge, refusals and cures, promotions, a killed worker."""

import json
import re
import shlex
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.tables import record
from tests.channel import Told
from tests.e2e.site import FINAL, Site, wait_until
from tests.e2e.story import MODEL, PATIENCE, Story

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(7200)]
ASK_ABOVE = "0.6"  # the new pairs of all growths may be wrong
WITH_QUERIES = "data.promotion_share=0.5"
CLAIM = (
    "Under a schedule of each minute a file grows three times: the judge is asked once, refusals end by their cures, "
    "nothing is stuck, and each message is true and comes once."
)


@pytest.fixture
def story(webhook: Told, tmp_path: Path) -> Iterator[Story]:
    """Servers of their own, which supervisord watches, and which tell the webhook."""
    with tempfile.TemporaryDirectory(prefix="noisyir-growing-") as name:
        Path(name).chmod(0o755)
        site = Site(Path(name))
        site.environment |= {"NOISYIR_WATCH": "1", "NOISYIR_WEBHOOK": webhook.url}
        try:
            site.up()
            yield Story(site, webhook, tmp_path)
        finally:
            site.down()


def test_a_file_that_grows_under_a_schedule_of_each_minute(story, request):
    scheduled = ("schedule", str(story.folder / "pairs.yaml"))
    often = ("--cron", "* * * * *", "--min-seeds", "1", "--ask-above", ASK_ABOVE)
    story.grow()
    story.type(*scheduled, *often)
    asks = story.answer()
    first = story.decision()
    (cure,) = re.findall(r"noisyir (run .*?) \(half", first.summary)
    assert first.verdict == "refused" and cure.endswith(WITH_QUERIES), first.summary
    story.type(*shlex.split(cure))
    story.type(*scheduled, WITH_QUERIES, *often)
    assert story.decision().verdict == "promoted"

    story.grow()
    story.kill_gpu_worker()
    second = story.decision()
    assert second.verdict == "promoted", second.summary
    story.type("promote", MODEL, "--roll-back", "--experiment", "pairs")
    assert story.decision().verdict == "rolled back"
    refused = story.decision()
    cure = re.search(r"noisyir (promote .*) has it judged nevertheless", refused.summary)
    assert refused.verdict == "refused" and cure, refused.summary
    story.type(*shlex.split(cure[1]))
    assert story.decision().verdict == "promoted"

    story.grow()
    third = story.decision()
    assert third.verdict == "promoted" or "the gain may be chance" in third.summary, third.summary
    story.grow()
    last = story.decision()
    assert last.verdict == "promoted", last.summary
    story.site.noisyir(*scheduled, "--cron", "0 0 1 1 *")  # no run begins while the schedule is removed
    story.idle()
    story.type(*scheduled, "--remove")
    nothing_is_stuck(story)

    nights, told = story.nights(), story.decisions()
    assert {run["id"]: run["state_type"] for run in nights}[asks] == "COMPLETED"
    left_out = [run["id"] for run in nights if run["state_type"] == "CANCELLED"]
    (question,) = [one for one in story.alarms() if "nobody has judged" in one]
    decided = [one.summary for one in told if one.flow_run]
    expected = Counter([question, *decided, *(f"Cancelled {run}" for run in left_out)])
    wait_until(lambda: story.alarms().total() >= expected.total(), "the last alarm")
    assert story.alarms() == expected
    champions = [one.version for one in told if one.verdict == "promoted"]
    assert len(champions) == 4 + (third.verdict == "promoted")
    assert told[-1] == last, "the same file is decided on once"
    story.note(f"{len(nights)} nights, {len(left_out)} of them left out; {len(decided) + 1} other messages")
    if request.config.getoption("--record"):
        record("growing_file", story.happened, left=1, claim=CLAIM, champions=champions, nights=len(nights))


def nothing_is_stuck(story: Story) -> None:
    """Every flow run has ended, and holds no slot, lock or half a build."""
    site, store = story.site, story.site.home / "store"
    wait_until(lambda: {run["state_type"] for run in site.flow_runs()} <= FINAL, "the end of all", PATIENCE)
    nights = [run["id"] for run in story.nights()]
    assert {run["state_type"] for run in story.nights()} <= {"COMPLETED", "CANCELLED"}  # a night left out
    others = Counter(run["state_type"] for run in site.flow_runs() if run["id"] not in nights)
    assert others.keys() <= {"COMPLETED", "CRASHED"} and others["CRASHED"] <= 1, others  # of the killed worker
    wait_until(lambda: not any(limit["active_slots"] for limit in site.limits()), "free slots")
    assert "damaged" not in site.noisyir("store", "verify")
    assert {run["state"] for run in json.loads(site.noisyir("status", "--json"))["runs"]} == {"done"}
    assert not [path for name in (".staging", ".leases", ".work") for path in (store / name).glob("*")]
