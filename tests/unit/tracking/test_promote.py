"""Promotion on a real registry: what becomes champion, what the log says, and how to step back."""

import json
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.app.lookup import find_model
from noisyir.app.runs import Outcome
from noisyir.cli import main
from noisyir.engine.store import Store
from noisyir.errors import StoreError
from noisyir.eval.settings import PromoteParams
from noisyir.tracking.backend import Backend, connect
from noisyir.tracking.evaluation import PER_QUERY
from noisyir.tracking.promote import before, decisions, promote, roll_back
from tests.unit.tracking.conftest import run_tiny

NAME = "noisyir-retriever"
QUERIES = [f"q{number:03}" for number in range(200)]
PARAMS = PromoteParams(resamples=500)
Add = Callable[..., str]


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home / "store", home=home)


@pytest.fixture
def add(backend: Backend, tmp_path: Path) -> Add:
    """`add(mean)`: a version whose queries have nDCG@10 around `mean`, registered as a run does, but for the model."""
    client = backend.client
    experiment = backend.experiment_id("noisyir-made")
    client.create_registered_model(NAME)

    def add(mean: float, *, seed: int = 0, digest: str = "same", values: int = 200, recipe: str = "r") -> str:
        run = client.create_run(experiment).info.run_id
        noise = np.random.default_rng(int(mean * 1e6)).normal(0, 0.05, values)
        given = {"system": "npc", "measure": "nDCG@10", "split": "test"}
        rows = [given | {"query_id": q, "value": float(v)} for q, v in zip(QUERIES, mean + noise, strict=False)]
        path = tmp_path / run / "per_query.parquet"
        path.parent.mkdir()
        pq.write_table(pa.Table.from_pylist([*rows, rows[0] | {"system": "bm25", "value": 0.0}]), path)
        client.log_artifact(run, str(path), PER_QUERY.rpartition("/")[0])
        version = client.create_model_version(NAME, f"runs:/{run}/model", run).version
        measured = f"{np.mean([row['value'] for row in rows]):.6f}"
        tags = {"artifact_key": "k", "artifact_digest": f"d{version}", "eval_digest": digest, "nDCG_10": measured}
        tags |= {"evaluation_run": run, "system": "npc", "recipe": recipe, "seed": str(seed), "experiment": "made"}
        for name, value in tags.items():
            client.set_model_version_tag(NAME, str(version), name, value)
        client.set_registered_model_alias(NAME, "challenger", str(version))
        return str(version)

    return add


def champion(backend: Backend) -> str | None:
    number = backend.client.get_registered_model(NAME).aliases.get("champion")
    return None if number is None else str(number)


def test_the_first_becomes_champion_a_better_one_follows_and_a_worse_one_does_not(add: Add, backend, store):
    add(0.4)
    first = promote(NAME, None, PARAMS, store=store)
    assert (first.verdict, first.champion_before, first.champion_after) == ("promoted", None, "1")
    assert first.reasons == ("there was no champion to compare with",)
    add(0.5, recipe="other")
    second = promote(NAME, None, PARAMS, store=store, flow_run="f-7")
    assert (second.verdict, second.champion_before, second.champion_after) == ("promoted", "1", "2")
    assert second.numbers.queries == 200 and second.numbers.low < second.numbers.gain < second.numbers.high
    assert second.numbers.gain == pytest.approx(0.1, abs=0.02)
    add(0.45)
    third = promote(NAME, None, PARAMS, store=store)
    assert third.verdict == "refused" and third.champion_after == "2" and len(third.reasons) == 3
    assert champion(backend) == "2"
    assert promote(NAME, "2", PARAMS, store=store).verdict == "already champion"
    lines = decisions(store, NAME)
    assert [(line["version"], line["verdict"]) for line in lines] == [
        ("3", "refused"), ("2", "promoted"), ("1", "promoted")
    ]  # fmt: skip
    assert lines[1]["flow_run"] == "f-7" and "@" in lines[1]["who"] and lines[1]["when"].endswith("+00:00")
    assert lines[1]["thresholds"]["min_gain"] == 0.01 and lines[1]["versions"]["1"]["artifact_digest"] == "d1"
    tags = backend.client.get_model_version(NAME, "2").tags
    assert tags["promotion"] == "promoted" and tags["promoted_at"] == lines[1]["when"]
    assert "gain +0.1" in tags["promotion_summary"]
    assert backend.client.get_model_version(NAME, "3").tags["promotion"] == "refused"


def test_other_evaluation_data_is_refused_and_so_is_what_was_never_measured(add: Add, backend, store):
    add(0.4)
    promote(NAME, None, PARAMS, store=store)
    add(0.9, digest="other")
    assert "measured by different data (other and same)" in promote(NAME, None, PARAMS, store=store).reasons[0]
    add(0.9, values=150)
    assert "of which they share 150" in promote(NAME, None, PARAMS, store=store).reasons[0]
    version = add(0.9)
    backend.client.delete_model_version_tag(NAME, version, "evaluation_run")
    assert "has no values of this measure" in promote(NAME, None, PARAMS, store=store).reasons[0]
    assert champion(backend) == "1"


def test_seeds_of_the_same_settings_and_data_make_the_spread(add: Add, store):
    add(0.4, recipe="champion")
    promote(NAME, None, PARAMS, store=store)
    for seed, mean in enumerate((0.30, 0.60)):
        add(mean, seed=seed)
    add(0.1, seed=7, digest="other")
    add(0.1, seed=8, recipe="other")
    add(0.45, seed=2)
    decision = promote(NAME, None, PARAMS, store=store)
    assert decision.numbers.seeds == 3
    assert decision.numbers.spread == pytest.approx(np.std([0.30, 0.60, 0.45], ddof=1), abs=0.01)
    assert decision.verdict == "refused" and "not above the seed spread" in decision.reasons[0]
    add(0.46, seed=0, recipe="alone")
    asked = promote(NAME, None, PARAMS.model_copy(update={"min_seeds": 2}), store=store)
    assert asked.reasons == ("seeds of these settings that are known: 1, and min_seeds=2",)
    assert promote(NAME, None, PARAMS, store=store).verdict == "promoted"


def test_roll_back_restores_the_champions_before_one_by_one(add: Add, backend, store):
    for mean in (0.4, 0.5, 0.6):
        add(mean, recipe=str(mean))
        promote(NAME, None, PARAMS, store=store)
    back = roll_back(NAME, store=store)
    assert (back.version, back.verdict, back.champion_after, champion(backend)) == ("3", "rolled back", "2", "2")
    again = promote(NAME, None, PARAMS, store=store)
    assert again.verdict == "refused" and "it was rolled back at" in again.reasons[0] and champion(backend) == "2"
    assert promote(NAME, "3", PARAMS, store=store).verdict == "promoted"
    assert [roll_back(NAME, store=store).champion_after for _ in range(2)] == ["2", "1"]
    with pytest.raises(StoreError, match=r"v1: the log in .* knows no champion before it; promote another"):
        roll_back(NAME, store=store)
    assert champion(backend) == "1" and decisions(store, NAME)[0]["verdict"] == "rolled back"


def line(verdict: str, was: str | None, becomes: str) -> dict:
    return {"verdict": verdict, "champion_before": was, "champion_after": becomes}


UP_TO_3 = [line("promoted", None, "1"), line("promoted", "1", "2"), line("promoted", "2", "3")]


@pytest.mark.parametrize(
    ("log", "now", "expected"),
    [
        ([line("promoted", None, "1")], "1", None),
        ([line("promoted", None, "1"), line("promoted", "1", "2"), line("promoted", "2", "1")], "1", "2"),
        ([line("promoted", None, "1"), line("promoted", "1", "2"), line("promoted", "1", "2")], "2", "1"),  # died once
        ([line("promoted", None, "1"), line("promoted", "1", "2"), line("promoted", "1", "3")], "3", "1"),  # died at 2
        ([line("promoted", None, "1"), line("promoted", "1", "2")], "7", None),  # set by hand
        ([line("promoted", "7", "8")], "8", "7"),  # 7 was set by hand
        ([line("promoted", None, "1"), line("promoted", "1", "2"), line("rolled back", "2", "1")], "1", None),
        ([line("promoted", None, "1"), line("refused", "1", "1")], "1", None),
        ([line("promoted", None, "1"), line("promoted", "1", "2"), line("rolled back", "2", "1")], "2", "1"),  # in vain
        ([*UP_TO_3, line("rolled back", "3", "2"), line("rolled back", "3", "2")], "2", "1"),  # in vain, then not
        ([*UP_TO_3, line("rolled back", "3", "2"), line("promoted", "3", "4")], "4", "3"),
    ],
)  # fmt: skip
def test_who_was_champion_before_is_in_the_log(log, now, expected):
    assert before(log[::-1], now) == expected


def test_the_log_is_only_ever_added_to(add: Add, store: Store):
    add(0.4)
    promote(NAME, None, PARAMS, store=store)
    (path,) = (Path(store.root) / ".promotions").iterdir()
    text = path.read_bytes()
    with pytest.raises(StoreError, match="no decision is ever overwritten"):
        store.record_promotion(path.stem, {"model": NAME})
    add(0.1)
    promote(NAME, None, PARAMS, store=store)
    assert path.read_bytes() == text and len(store.promotions()) == 2


def test_without_a_log_nothing_is_promoted(add: Add, backend, store):
    add(0.4)
    Path(store.root).mkdir()
    (Path(store.root) / ".promotions").write_text("in the way")
    with pytest.raises((StoreError, OSError)):
        promote(NAME, None, PARAMS, store=store)
    assert champion(backend) is None


def test_of_two_at_once_each_is_decided_once_and_the_better_one_ends_as_champion(add: Add, backend, store, home):
    versions = [add(mean, recipe=str(mean)) for mean in (0.4, 0.5, 0.6)]
    promote(NAME, versions[0], PARAMS, store=store)
    with ThreadPoolExecutor(3) as pool:  # each call opens the lock anew, as another process would
        asked = [versions[1], versions[2], versions[2]]
        made = list(pool.map(lambda version: promote(NAME, version, PARAMS, store=store), asked))
    assert champion(backend) == "3"
    log = decisions(store, NAME)[::-1]
    assert log[0]["champion_after"] == "1"
    assert all(later["champion_before"] == earlier["champion_after"] for earlier, later in pairwise(log))
    assert sorted(one["version"] for one in log[1:]) == ["2", "3"]
    assert sorted(decision.verdict for decision in made[1:]) == ["already champion", "promoted"]


# On a run's own model, by the command line -----------------------------------------------------------------------


@pytest.fixture
def ran(tracked: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the tracked home, as the environment's."""
    home = shutil.copytree(tracked[0], tmp_path / "copy")
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    return home


def test_a_runs_model_is_promoted_shown_on_the_next_card_and_searched_with(ran, tracked, collection, capsys):
    assert main(["promote"]) == 0
    assert capsys.readouterr().out.startswith(f"{NAME} v1 promoted: nDCG@10 (test) 0.")
    assert main(["promote", "retriever", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "already champion"
    assert main(["search", f"models:/{NAME}@champion", "oven flour", "--json", "-k", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == tracked[1].kept["model"].key and len(found["hits"]) == 2
    run_tiny(ran, collection, "train.epochs=3", "seed=5")
    backend = connect(ran)
    version = backend.client.get_model_version_by_alias(NAME, "challenger")
    assert "| champion, v1 (npc) | test | 0." in version.description and version.tags["seed"] == "5"
    assert version.tags["recipe"] != backend.client.get_model_version(NAME, "1").tags["recipe"]
    assert main(["promote", "--min-gain", "0.9"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "v2 refused" in said.err and "is not above min_gain=0.9" in said.err
    assert main(["promote", "--log"]) == 0
    assert [text.split()[4] for text in capsys.readouterr().out.splitlines()] == ["refused:", "promoted:"]
    assert main(["promote", "--measure", "nDCG@3"]) == 1
    assert "'nDCG@3' was not measured" in capsys.readouterr().err


def test_promotion_needs_no_artifact_of_the_store_and_search_says_what_to_do(ran, tracked, capsys):
    for stage in (folder for folder in (ran / "store").iterdir() if not folder.name.startswith(".")):
        shutil.rmtree(stage)
    assert main(["promote"]) == 0
    with pytest.raises(StoreError) as told:
        find_model(Store(ran / "store", home=ran), f"models:/{NAME}@champion")
    key = tracked[1].kept["model"].key[:12]
    for words in (f"is {NAME} v1, whose artifact {key} is no longer in", "noisyir run demo --to index", "load_model('"):
        assert words in str(told.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["retrievr"], "no registered model is called 'retrievr'.*there are noisyir-retriever, noisyir-ranker"),
        (["reader"], "no registered model models:/noisyir-reader@challenger"),
        (["--version", "99"], f"no registered model models:/{NAME}/99"),
        (["--roll-back"], f"{NAME} has no champion to roll back"),
        (["--min-gain", "-1"], "--min-gain -1.0: Input should be greater than or equal to 0"),
    ],
)  # fmt: skip
def test_what_cannot_be_decided_is_one_clear_line(tracked, monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("NOISYIR_HOME", str(tracked[0]))
    assert main(["promote", *arguments]) == 1
    said = capsys.readouterr().err
    assert re.search(message, said) and said.count("\n") == 1
