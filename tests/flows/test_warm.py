"""Flow runs as forks of a process that has imported everything: what a worker sees of them is what it always saw."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from infra.warm import different
from tests.local import until

ROOT = Path(__file__).parents[2]
HOST = """
import os, sys
here = dict(os.environ)
from pathlib import Path
from infra import warm
sys.path.insert(0, str(Path(sys.argv[1]).parent.parent))
import changing
again = [sys.executable, "-c", here["HOST"], sys.argv[1]]
warm.take_over(warm.Host(Path(sys.argv[1]), here, again).run())
exec(os.environ["PREFECT__TEST"])
"""
# Short sleeps: of a signal that comes as a sleep is about to begin Python hears when it has ended.
LONG = "import os, time; print(os.getpid(), flush=True); [time.sleep(0.1) for _ in range(6000)]"
Process = subprocess.Popen  # of text
Client = Callable[..., "Process[str]"]


@pytest.fixture
def socket() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="noisyir-") as name:  # pytest's own are longer than an address may be
        yield Path(name) / "of warm" / "socket"


@pytest.fixture
def host(socket: Path) -> Iterator["Process[str]"]:
    """A host whose forks do what the variable PREFECT__TEST says."""
    (socket.parent.parent / "changing.py").touch()
    variables = {"HOST": HOST, "LC_ALL": "C.UTF-8", "SAME": "1", "NOISYIR_WARM": str(socket)}
    command = [sys.executable, "-c", HOST, str(socket)]
    process = subprocess.Popen(command, cwd=ROOT, env=variables, stderr=subprocess.PIPE, text=True)
    until(lambda: socket.exists() or process.poll() is not None)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def client(host: "Process[str]", socket: Path, tmp_path: Path) -> Iterator[Client]:
    """`client(code, **more)`: the process of a flow run, as a worker starts it."""
    begun = []

    def begin(code: str, **more: str) -> "Process[str]":
        command = [sys.executable, "-I", "-S", str(ROOT / "infra" / "warm_client.py")]
        same = {"HOST": HOST, "NOISYIR_WARM": str(socket), "LC_ALL": "C.UTF-8", "SAME": "1"}
        variables = {**same, "PREFECT__TEST": code, **more}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        begun.append(subprocess.Popen(command, env=variables, cwd=tmp_path, **pipes))
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def is_over(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def fork_of(process: "Process[str]") -> psutil.Process:
    """The process that does the work of LONG."""
    assert process.stdout is not None
    return psutil.Process(int(process.stdout.readline()))


def test_a_fork_has_the_folder_environment_streams_and_end_of_its_client(client: Client, tmp_path: Path, host):
    code = "import os, sys; print(os.getcwd(), os.environ['PREFECT__X'], os.getppid()); print('e', file=sys.stderr)"
    done = client(f"{code}; sys.exit(7)", PREFECT__X="y z")
    out, err = done.communicate(timeout=60)
    assert (out, err, done.returncode) == (f"{tmp_path} y z {host.pid}\n", "e\n", 7)
    killed = client("import os; os.kill(os.getpid(), 9)")
    assert killed.wait(60) == -signal.SIGKILL
    assert client("").wait(60) == 0


def test_a_signal_to_the_client_is_the_forks(client: Client):
    code = f"import signal, sys; signal.signal(15, lambda *_: sys.exit(3)); {LONG}"
    process = client(code)
    fork_of(process)
    process.terminate()
    assert process.wait(60) == 3


def test_a_client_that_is_killed_takes_its_fork_along(client: Client):
    process, other = client(LONG), client(LONG)
    fork, lives = fork_of(process), fork_of(other)
    process.kill()
    until(lambda: is_over(fork))
    assert lives.is_running() and other.poll() is None


def test_a_host_that_is_killed_leaves_forks_that_end_by_themselves_and_the_next_runs_are_fresh(client: Client, host):
    process = client(f"import sys; {LONG.replace('6000', '10')}; print('done')")
    fork_of(process)
    host.kill()
    assert process.communicate(timeout=60)[0] == "done\n" and process.returncode == 1
    fresh = client("print('never')", PREFECT__FLOW_RUN_ID="none")
    out, err = fresh.communicate(timeout=60)
    assert "Invalid flow run id" in out + err and "never" not in out


def test_another_environment_gets_a_process_of_its_own(client: Client, host):
    fresh = client("print('never')", SAME="2", MORE="", PREFECT__FLOW_RUN_ID="none")
    out, err = fresh.communicate(timeout=60)
    assert "Invalid flow run id" in out + err and "never" not in out
    host.kill()
    assert "a flow run starts from nothing: other values of MORE, SAME" in host.stderr.read()


def test_a_file_that_has_changed_makes_the_next_run_fresh_and_those_behind_it_forks_of_a_new_host(
    client: Client, host, socket: Path
):
    assert client("").wait(60) == 0
    (socket.parent.parent / "changing.py").write_text("NEW = True")
    fresh = client("print('never')", PREFECT__FLOW_RUN_ID="none")
    assert "Invalid flow run id" in "".join(fresh.communicate(timeout=60))
    answer = ""
    for _ in range(100):  # the new host takes a while to come
        answer = client("import changing; print(changing.NEW)", PREFECT__FLOW_RUN_ID="none").communicate(timeout=60)[0]
        if answer == "True\n":
            break
    assert answer == "True\n" and host.poll() is None


def test_what_a_run_has_of_its_own_does_not_count():
    ours, theirs = {"A": "1", "PREFECT__X": "1", "CUDA_VISIBLE_DEVICES": ""}, {"A": "1", "PREFECT__X": "2", "_": "p"}
    assert different(ours, theirs) == [] and different(ours, {**theirs, "A": "2"}) == ["A"]


def test_a_socket_is_for_its_user_alone(host, socket: Path):
    assert socket.stat().st_mode & 0o077 == 0 and os.stat(socket).st_uid == os.getuid()
