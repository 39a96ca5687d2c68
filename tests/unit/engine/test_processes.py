"""Processes that work as one: what they tell, and how each kind of failure ends them all."""

import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from noisyir.base.errors import DataError, NoisyirError
from noisyir.engine.processes import PeerLostError, run_together
from noisyir.engine.remote.torchrun import Launched, launched
from noisyir.front import cli
from noisyir.methods import experiments
from tests.local import free_port, until
from tests.refusals import refuses

from .ranks import crash_when_python_goes_away, fail_in_rank_1, lose_peer_then_die, read, tell_all


def is_running(pid):
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


def test_what_is_told_arrives_in_the_order_of_each_process():
    heard = []
    run_together(tell_all, 3, (["a", "b", "c"],), heard.append)
    assert sorted(heard, key=lambda told: told[0]) == [(rank, word) for rank in range(3) for word in "abc"]


def test_work_that_is_done_is_not_lost_to_a_crash_when_python_goes_away():
    heard = []
    run_together(crash_when_python_goes_away, 2, (), heard.append)
    assert sorted(heard) == [0, 1]


@pytest.mark.parametrize(
    ("how", "error", "message"),
    [
        ("error", DataError, r"^the loss is nan"),
        ("awkward", RuntimeError, r"AwkwardError: this and that"),
        ("exit", NoisyirError, r"rank 1 ended with exit code 7, and the others were ended"),
        ("kill", NoisyirError, r"rank 1 was killed by SIGKILL, most likely for want of memory.*to continue"),
        ("peers", PeerLostError, r"^rank . is alone"),
    ],
)
def test_the_first_failure_ends_them_all_and_is_raised_here(tmp_path, how, error, message):
    began = time.monotonic()
    with pytest.raises(error, match=message) as raised:
        run_together(fail_in_rank_1, 2, (how, tmp_path), print)
    assert time.monotonic() - began < 60
    for path in tmp_path.glob("pid*"):
        assert not is_running(int(path.read_text()))
    if how == "error":
        assert str(raised.value) == "the loss is nan"  # one line for the user; where it was raised is a note
        assert "fail_in_rank_1" in raised.value.__notes__[0]


def test_a_lost_peer_is_not_taken_for_the_cause(tmp_path):
    with refuses(NoisyirError, "engine.process_rank_others_were", rank=1):
        run_together(lose_peer_then_die, 2, (tmp_path,), print)


def test_they_end_with_the_process_that_began_them(tmp_path):
    program = (
        "from pathlib import Path; from noisyir.engine.processes import run_together\n"
        "from tests.unit.engine.ranks import wait_for_ever\n"
        f"if __name__ == '__main__': run_together(wait_for_ever, 2, (Path({str(tmp_path)!r}),), print)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parents[3])
    pids = [read(tmp_path / f"pid{rank}") for rank in range(2)]
    assert all(map(is_running, pids))
    parent.kill()
    parent.wait()
    until(lambda: not any(map(is_running, pids)))


def test_under_torchrun_the_first_process_runs_all_and_takes_the_number_of_processes(monkeypatch, capsys):
    assert experiments.load_runtime([]).processes == 1
    for name, value in (("WORLD_SIZE", "4"), ("LOCAL_WORLD_SIZE", "4"), ("RANK", "0")):
        monkeypatch.setenv(name, value)
    assert experiments.load_runtime([]).processes == 4
    assert experiments.load_runtime(["runtime.processes=2"]).processes == 2
    assert cli.main(["run", "no such experiment"]) == 1
    assert "no experiment" in capsys.readouterr().err
    monkeypatch.setenv("RANK", "3")
    assert cli.main(["run", "no such experiment"]) == 0
    assert capsys.readouterr().err == ""


def test_of_several_machines_the_first_process_is_the_run_and_others_know_their_place(monkeypatch):
    env = {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4", "RANK": "6", "LOCAL_RANK": "2", "GROUP_RANK": "1"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    begun = launched()
    assert begun.several_machines and (begun.first_rank, begun.node, begun.here, begun.size) == (4, 1, 4, 8)
    assert experiments.load_runtime([]).processes == 8


def test_what_the_first_machine_calls_the_others_hear_until_it_ends(monkeypatch):
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "TORCHELASTIC_USE_AGENT_STORE": "False"}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    first, other = Launched(0, 2, 0, 1, 0), Launched(1, 2, 0, 1, 1)
    assert [first.call("dpr"), first.call("npc")] == ["1", "2"]
    first.end()
    assert list(other.calls()) == [("1", "dpr"), ("2", "npc")]
