"""A month in an hour and a half: `python -m tests.chaos.soak --minutes 90 --record FILE`.

`make up` on Postgres, with a home of its own.  A training and a promotion are scheduled each minute.  Commands and flow
runs are drawn at random, and so is a process that is killed: a server, a worker, or the command.  In the end nothing
may have leaked or be stuck, all must be as written, no answer of a judge is lost, and every registered model must load.
"""

import argparse
import csv
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median
from threading import Thread
from typing import Any, NamedTuple, TypeVar, cast

import httpx
import psutil

from noisyir.engine.store import Store
from tests.e2e.site import FINAL, ROOT, Site, wait_until
from tests.judging_client import address_in, answer_pairs
from tests.tiny import SETTINGS, write_beir

_GROWTH = 1.05  # of the servers' memory, from the first third to the last
_KEEP = 5  # runs whose builds gc leaves
_ANSWERS, _VERDICTS = 4, ("clean", "wrong", "unclear")  # of a judge at a time
_LATE = 1200  # seconds after which a flow run that should have ended is stuck
T = TypeVar("T")
_UNEXPECTED = ("did not expect this", "Traceback (most recent call last)")


class Sample(NamedTuple):
    """The state of the site at one time."""

    minutes: float
    did: str
    code: int | None
    processes: int
    megabytes: float
    files: int


class Soak:
    """A site, and who uses it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.site, self.draw = Site(folder), random.Random(seed)
        self.number, self.saved = 0, 0  # of commands, and of judges' answers
        self.schedules: list[str] = []
        self.faults: list[str] = []
        self.samples: list[Sample] = []
        self.data = write_beir(folder / "beir")
        self.began = time.monotonic()

    def schedule(self) -> None:
        """Each minute a training, which the one before may hold up, and a promotion."""
        for name, given in (
            ("train_retriever/nightly", {"experiment": "demo", "overrides": self._small(), "runtime": {"threads": 1}}),
            ("promote/on-demand", {"force": True}),  # a model of made-up data is no better than none
        ):
            found = self._answer(partial(self.site.deployment, name))
            path = f"/deployments/{found['id']}/schedules"
            each_minute = {"schedule": {"cron": "* * * * *", "timezone": "UTC"}, "active": True, "parameters": given}
            self._answer(partial(self._scheduled, path, each_minute))

    def _scheduled(self, path: str, schedule: dict[str, Any]) -> None:
        made = self.site.api.post(path, json=[schedule]).raise_for_status().json()
        self.schedules += [f"{path}/{one['id']}" for one in made]

    def _small(self) -> list[str]:
        return [*SETTINGS, f"data.path={self.data}", "methods=[dpr]", "train.epochs=1",
                "data.promotion_share=0.5"]  # fmt: skip

    def words(self) -> list[str]:
        """A command of the next user."""
        self.number += 1
        new = self.site.home / "new.jsonl"
        new.write_text(f'{{"_id": "new{self.number}", "title": "", "text": "word{self.number} oven wind"}}\n')
        return self.draw.choice([
            ["run", "demo", *self._small(), f"seed={self.number % 4}", "runtime.threads=1"],
            ["refresh", "demo", str(new)],
            ["audit", *self._audited()],
            ["audit", *self._audited(), "--judge"],
            ["promote", "--force"],
            ["search", "demo", "oven"],
            ["store", "gc", "--keep-runs", str(_KEEP), "--yes", "--wait", "60"],
            ["store", "verify"],
            ["flow"],
            ["status"],
        ])  # fmt: skip

    def _audited(self) -> list[str]:
        return [str(self.data), "runtime.threads=1", "--out", str(self.site.home / "audit")]

    def turn(self) -> None:
        """One command, killed or not; and one of ten times a process of the site is killed, too."""
        words = self.words()
        if words == ["flow"]:
            code = self._flow()
        else:
            environment = self.site.environment | self.site.client_environment() | {"OMP_NUM_THREADS": "1"}
            said = self.site.home / "said"
            with said.open("w") as out:
                command = [sys.executable, "-m", "noisyir.front.cli", *words]
                process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=out, stderr=out)
                judge = Thread(target=self._judge, args=(said, self.draw.choices(_VERDICTS, k=_ANSWERS)), daemon=True)
                if "--judge" in words:
                    judge.start()
                code = self._ended(process, self.draw.uniform(0, 20) if self.draw.random() < 0.2 else 900)
            if any(odd in said.read_text(errors="replace") for odd in _UNEXPECTED):
                self.faults.append(f"{words[0]}: {said.read_text(errors='replace')[-400:]}")
        killed = ""
        running = sorted(self.site.pids().items())
        if running and self.draw.random() < 0.1:
            killed, pid = self.draw.choice(running)
            os.kill(pid, 9)  # supervisord begins it again
        self._note(f"{words[0]}{' kill ' + killed if killed else ''}", code)

    def _judge(self, said: Path, verdicts: Sequence[str]) -> None:
        """Answer on the page; the command may be killed meanwhile."""
        with suppress(httpx.HTTPError, TimeoutError):
            address = address_in(said)
            for number, verdict in enumerate(verdicts, 1):
                self.saved += answer_pairs(address, [verdict], finish=number == len(verdicts))

    def _ended(self, process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
        """The exit code; None where it was killed after so long.  What takes a quarter of an hour is stuck."""
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            if seconds > 60:
                self.faults.append(f"{process.args!r} was stuck")
            return None

    def _flow(self) -> int | None:
        given = [*SETTINGS, f"data.path={self.data}", "methods=[dpr]", f"seed={self.number}", "train.epochs=1"]
        with suppress(httpx.HTTPError, AssertionError, TimeoutError):
            run = self.site.start("train_retriever/on-demand", experiment="demo", overrides=given)
            return 0 if self.site.end(run) == "COMPLETED" else 1
        return None

    def _note(self, did: str, code: int | None) -> None:
        pids = self.site.pids()
        tree = list(_tree(pids.values()))
        memory = sum(process.memory_info().rss for process in tree if process.is_running()) / 1e6
        files = sum(1 for path in self.site.home.rglob("*") if path.is_file())
        minutes = (time.monotonic() - self.began) / 60
        self.samples.append(Sample(round(minutes, 2), did, code, len(tree), round(memory, 1), files))
        sys.stderr.write(f"{' '.join(map(str, self.samples[-1]))}\n")

    def end(self) -> list[str]:
        """What is not as promised in the end, after a last gc and a last run."""
        for path in self.schedules:
            self._answer(partial(self._unscheduled, path))
        with suppress(AssertionError):
            wait_until(lambda: not self._open_runs(), "the end of all flow runs", _LATE)
        for words in (
            ["store", "gc", "--keep-runs", str(_KEEP), "--yes", "--wait", "600"],
            ["store", "verify"],
            ["status"],
        ):
            with suppress(AssertionError):
                self.site.noisyir(*words)
                continue
            self.faults.append(f"{' '.join(words)} fails in the end")
        self.faults += [*self._of_flow_runs(), *self._left_behind(), *self._unloadable(), *self._grown()]
        return self.faults

    def _unscheduled(self, path: str) -> None:
        self.site.api.delete(path).raise_for_status()

    def _of_flow_runs(self) -> Iterator[str]:
        for one in self._open_runs():
            yield f"flow run {one['name']} is {one['state_type']}"
        failed = self._answer(lambda: self.site.flow_runs(flow_runs={"state": {"type": {"any_": ["FAILED"]}}}))
        if len(failed) > sum(" kill " in one.did for one in self.samples):  # of a server, which a run may need
            yield from (f"flow run {one['name']} failed: {one['state']['message']}" for one in failed)

    def _left_behind(self) -> Iterator[str]:
        journal = self.site.home / "audit" / "judgements.jsonl"
        if (kept := len(journal.read_text().splitlines())) < self.saved:
            yield f"of {self.saved} answers of judges {kept} are there"
        store = self.site.home / "store"
        yield from (f"left behind: {path}" for path in store.rglob("*") if path.name.endswith(".arriving"))
        name = next((path.stem for path in (store / ".runs").glob("*.now")), None)
        if name and not Store(store, home=self.site.home).locks.is_held("run", name):
            self.site.noisyir("run", "demo", *SETTINGS, f"data.path={self.data}", "--to", "ingest", "--no-track")
            if (store / ".runs" / f"{name}.now").exists():
                yield f"the last word of the dead run {name} stays"

    def _grown(self) -> Iterator[str]:
        third = self.samples[-1].minutes / 3
        early = [one for one in self.samples if one.minutes < third] or self.samples[:1]
        first, last = (median(one.megabytes for one in some) for some in (early, self._since(2 * third)))
        if last > _GROWTH * first:  # medians, for a flow run is a process, too, and a server just begun again is small
            yield f"memory grew from {first:.0f} to {last:.0f} MB"
        if self.samples[-1].processes > max(one.processes for one in early):
            yield f"processes grew from {early[-1].processes} to {self.samples[-1].processes}"

    def _open_runs(self) -> list[dict[str, Any]]:
        """The flow runs that should have ended, or begun."""
        due = {"expected_start_time": {"before_": datetime.now(UTC).isoformat()}}
        open_ = due | {"state": {"type": {"not_any_": sorted(FINAL)}}}
        return self._answer(lambda: self.site.flow_runs(flow_runs=open_))

    def _answer(self, ask: Callable[[], T]) -> T:
        """What Prefect's server says, which may be just up again."""

        def asked() -> tuple[T] | None:
            with suppress(httpx.HTTPError):
                return (ask(),)
            return None

        (said,) = wait_until(asked, "an answer of Prefect's server")
        return cast(T, said)

    def _since(self, minutes: float) -> list[Sample]:
        return [one for one in self.samples if one.minutes >= minutes]

    def _unloadable(self) -> Iterator[str]:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException

        client = MlflowClient(self.site.client_environment()["MLFLOW_TRACKING_URI"])
        try:
            versions = client.search_model_versions("name = 'noisyir-retriever'")
        except MlflowException as error:
            yield f"the registry does not answer: {error}"
            return
        if "champion" not in client.get_registered_model("noisyir-retriever").aliases:
            yield "nothing was ever promoted"
        load = "import sys, mlflow; mlflow.pyfunc.load_model(sys.argv[1]).predict(['oven'])"
        for version in versions:
            environment = self.site.environment | self.site.client_environment()
            uri = f"models:/{version.name}/{version.version}"
            done = subprocess.run([sys.executable, "-c", load, uri], env=environment, capture_output=True, text=True)
            if done.returncode:
                yield f"{uri} does not load: {done.stderr[-300:]}"


def _tree(pids: object) -> Iterator[psutil.Process]:
    for pid in pids:  # type: ignore[attr-defined]
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(pid)
            yield process
            yield from process.children(recursive=True)


def main() -> int:
    """Exit code 1 where something is not as promised."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=90.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--record", type=Path, help="a CSV file of a line for each command")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as name:
        os.chmod(name, 0o711)  # Postgres, which root starts as another user, goes through
        soak = Soak(Path(name), given.seed)
        soak.site.environment |= {"NOISYIR_DATABASE": "postgres", "NOISYIR_WATCH": "1"}
        try:
            soak.site.up()
            soak.schedule()
            soak.began = time.monotonic()
            while time.monotonic() - soak.began < 60 * given.minutes:
                soak.turn()
            faults = soak.end()
        finally:
            soak.site.down()
    if given.record:
        with given.record.open("w", newline="") as file:
            csv.writer(file).writerows([Sample._fields, *soak.samples])
    sys.stdout.write("\n".join([f"{len(soak.samples)} commands", *(faults or ["all fine"])]) + "\n")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())
