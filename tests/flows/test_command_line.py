"""The command line on a tiny collection: processes that are killed and raced; in this one, what costs no process."""

import contextlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from noisyir.base.errors import install_hint
from noisyir.engine.store import Store
from noisyir.front.cli import main
from tests.flows.screens import check_fits, check_recorded, plain, terminal
from tests.tiny import SETTINGS, tiny_data


def command(home: Path, *args: str) -> list[str]:
    return [sys.executable, "-m", "noisyir.front.cli", *args]


def environment(home: Path) -> dict[str, str]:
    return {**os.environ, "NOISYIR_HOME": str(home), "HF_HUB_OFFLINE": "1"}


def noisyir(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(home, *args), env=environment(home), capture_output=True, text=True, timeout=240)


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """`here(home, *args)`: as `noisyir`, in this process, with all that it writes to the file descriptors."""

    def call(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setenv("NOISYIR_HOME", str(home))
        monkeypatch.setenv("HF_HUB_OFFLINE", "1")
        capfd.readouterr()
        code = main(args)
        return subprocess.CompletedProcess(args, code, *capfd.readouterr())

    return call


def run_args(collection: Path, *more: str) -> list[str]:
    given = [
        *SETTINGS,
        f"data.path={collection}",
        f"model.weights={collection / 'words'}",
        "detectors={b: bm25_margin}",
    ]
    return ["run", "demo", *given, "train.epochs=3", "train.patience=null", "--no-track", "--json", *more]


def comparison(done: subprocess.CompletedProcess[str]) -> list[dict]:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["comparison"]


@pytest.fixture(scope="module")
def finished(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict]]:
    """A home in which the pipeline has run once, undisturbed, and its measures."""
    home, said = tmp_path_factory.mktemp("home"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setenv("NOISYIR_HOME", str(home))
        assert main(run_args(collection)) == 0
    return home, json.loads(said.getvalue())["comparison"]


def test_a_run_scores_every_system(finished):
    _, rows = finished
    assert {row["system"] for row in rows} == {
        "bm25",
        *(f"{n}{h}" for n in ("zero_shot", "dpr", "npc") for h in ("", "_hybrid")),
    }
    mean = {row["system"]: row["mean"] for row in rows if row["measure"] == "RR@10"}
    assert min(mean["dpr"], mean["npc"]) > 0.5 and 0 <= mean["zero_shot"] <= 1


def test_the_same_command_again_runs_nothing(here, finished, collection: Path):
    home, rows = finished
    again = here(home, *run_args(collection))
    assert json.loads(again.stdout)["run"] == 0 and comparison(again) == rows


def test_refreshing_a_stage_that_gives_equal_bytes_runs_it_alone(here, finished, collection: Path):
    home, rows = finished
    again = here(home, *run_args(collection, "--refresh", "search@npc"))
    ran = [step["name"] for step in json.loads(again.stdout)["steps"] if not step["cached"]]
    assert ran == ["search@npc"] and comparison(again) == rows


def kill_once(home: Path, args: list[str], trace: str, count: int) -> None:
    """Start a run and kill it with SIGKILL as soon as the store holds `count` files that match `trace`."""
    process = subprocess.Popen(
        command(home, *args), env=environment(home), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while len(list((home / "store").glob(trace))) < count:
        assert process.poll() is None, "the run ended before it could be killed"
        time.sleep(0.001)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_a_run_of_another_seed_of_which_gc_deleted_a_part_spoils_no_last_line(
    here, finished, collection: Path, tmp_path: Path
):
    home = shutil.copytree(finished[0], tmp_path / "home")
    words = [word for word in run_args(collection, "seed=1") if word != "--json"]
    both = here(home, *words)
    assert both.returncode == 0 and "best " in both.stdout
    store = Store(home / "store", home=home)
    needed = {(step["key"], step["build"]) for step in store.runs.all()[0]["steps"].values()}
    with store.locks.alone():
        for meta in store.builds.all():
            if meta.stage == "encode" and (meta.key, meta.build) not in needed:
                store.builds.remove(meta)
    alone = here(home, *words)
    assert alone.returncode == 0, alone.stderr
    assert "best " in alone.stdout


@pytest.mark.slow
def test_a_run_killed_twice_ends_with_the_same_measures(finished, collection: Path, tmp_path: Path):
    args = run_args(collection, "runtime.checkpoint_seconds=0.05")
    # a lock's file appears when its build begins, and stays: the first ones are those of the untrained model's builds
    for stage, trace, count in [("train_dpr", ".locks/train_dpr-*", 1), ("index", ".locks/index-*", 3)]:
        kill_once(tmp_path, args, trace, count)
        listed = json.loads(noisyir(tmp_path, "status", "--builds", "--json").stdout)["builds"]
        assert "report" not in {build["stage"] for build in listed}, f"killed too late to disturb {stage}"
        assert noisyir(tmp_path, "store", "verify").returncode == 0
    assert comparison(noisyir(tmp_path, *args)) == finished[1]


def test_two_runs_at_once_build_each_stage_once(finished, collection: Path, tmp_path: Path):
    args = run_args(collection)
    both = [
        subprocess.Popen(command(tmp_path, *args), env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        reports = [json.loads(process.communicate(timeout=240)[0]) for process in both]
    finally:
        for process in both:
            process.kill()
    ran = [step["name"] for report in reports for step in report["steps"] if not step["cached"]]
    assert sorted(ran) == sorted(step["name"] for step in reports[0]["steps"])  # together: every step exactly once
    assert reports[0]["comparison"] == reports[1]["comparison"] == finished[1]


@pytest.mark.parametrize(("file", "text", "said"), [
    ("queries.jsonl", None, "queries.jsonl"), ("corpus.jsonl", "{oops\n", "corpus.jsonl line 1: invalid JSON"),
])  # fmt: skip
def test_bad_input_is_one_line_and_exit_code_1(here, file: str, text: str | None, said: str, tmp_path: Path):
    collection = tmp_path / "beir"
    tiny_data(collection)
    (collection / file).unlink()
    if text:
        (collection / file).write_text(text)
    done = here(tmp_path / "home", *run_args(collection))
    assert done.returncode == 1 and done.stdout == ""
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("noisyir: ") and said in last and "Traceback" not in done.stderr
    stages = {path.parts[-4] for path in (tmp_path / "home" / "store").glob("*/*/*/_meta.json")}
    assert stages == set()  # nothing was built before the fault was found


def test_json_is_all_that_stands_on_stdout(here, finished):
    home, _ = finished
    for args in (["status", "--builds"], ["show", "ingest"], ["show", "demo", "--trace"], ["doctor"]):
        done = here(home, *args, "--json")
        assert done.returncode == 0 and isinstance(json.loads(done.stdout), dict), done.stderr


def test_screens_of_a_run_and_of_what_is_kept_fit_a_terminal_and_cut_no_word(
    monkeypatch, here, finished, collection: Path
):
    home, _ = finished
    run = [word for word in run_args(collection) if word != "--json"]
    kept = {"status": ["status"], "trace": ["show", "demo", "--trace"], "builds": ["status", "--builds"]}
    for name, args in {"run": run, **kept}.items():
        screens = {}
        for width in (80, 120, 400):
            terminal(monkeypatch, width)
            done = here(home, *args)
            screens[width] = plain(done.stdout)
            assert done.returncode == 0 and not re.search("[a-z]@[a-z]", done.stderr), "stages are for -v"
        for width in (80, 120):
            check_fits(screens[width], width, screens[400])
        if name == "run":
            told = plain(done.stderr)
            assert re.search(r"1/\d data +done +was there +\d+ training pairs, \d+ dev and \d+ test queries", told)
            assert re.search(r"BM25 +done +was there +nDCG@10 [01]\.\d{3}", told)
            assert re.search(r"report +done +was there +best: ", told)
            check_recorded(re.sub(r"(?s)WARNING.*?\n\n|best .*?\n\n", "", screens[80]), "run.80")
        if name == "status":
            assert re.search(r"Last +demo +run .* done, best: .*nDCG@10 [01]\.\d{3}", screens[400])
    terminal(monkeypatch, 80)
    assert "train_dpr@dpr" in here(home, *run, "-v").stderr


def test_show_page_gives_the_newest_page(monkeypatch, here, finished):
    monkeypatch.setattr("webbrowser.open", lambda address: None)
    home, _ = finished
    page = Path(here(home, "show", "demo", "--page").stdout.strip())
    assert page.name == "report.html" and page.is_file()
    lost = here(home, "show", "nothing", "--page")
    assert lost.returncode == 1 and "experiments that have run: demo" in lost.stderr


def test_what_was_built_can_be_shown_traced_searched_and_exported(here, finished, collection, tmp_path: Path):
    home, _ = finished
    assert "sha256" not in here(home, "show", "ingest").stderr
    shown = here(home, "show", "demo", "--trace").stdout
    assert f"of {collection} (raw input)" in " ".join(shown.replace("│", " ").split())
    assert here(home, "show", "train_dpr@dpr", "--json").stdout == here(home, "show", "train_dpr", "--json").stdout
    found = json.loads(here(home, "search", "demo", "galaxy telescope word2", "-k", "3", "--json").stdout)
    assert [hit["rank"] for hit in found["hits"]] == [1, 2, 3]
    nothing = here(home, "search", "demo:bm25", "zzzz")
    assert nothing.returncode == 0 and "no document shares a word with 'zzzz'" in nothing.stdout
    exported = here(home, "export", "demo", "--to", str(tmp_path / "model"))
    assert exported.returncode == 0 and (tmp_path / "model" / "modules.json").exists()
    again = here(home, "export", "demo", "--to", str(tmp_path / "model"))
    assert again.returncode == 1 and "exists" in again.stderr


def test_doctor_names_the_extra_that_is_missing(monkeypatch, capsys):
    """What it advises stands there as it is typed: brackets are no markup."""
    from noisyir.front.commands import doctor

    monkeypatch.setattr(doctor, "find_spec", lambda name: None if name == "s3fs" else object())
    main(["doctor"])
    assert install_hint("s3") in capsys.readouterr().out.replace("\n", "")
