"""Promotion on a real registry: what becomes champion, what the log says, and how to step back."""

import json
import re
import shlex
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from noisyir.app.lookup import find_model
from noisyir.app.runs import Outcome
from noisyir.base.errors import StoreError
from noisyir.engine.store import Store
from noisyir.evaluation.settings import PromoteParams
from noisyir.front.cli import main
from noisyir.registry.backend import Backend, connect
from noisyir.registry.evaluation import PER_QUERY
from noisyir.registry.promote import Rescored, decisions, promote, roll_back
from tests.refusals import refuses
from tests.unit.registry.conftest import run_tiny

NAME = "noisyir-retriever"
QUERIES = [f"q{number:03}" for number in range(200)]
PARAMS = PromoteParams()
Add = Callable[..., str]


@pytest.fixture
def store(home: Path) -> Store:
    return Store(home / "store", home=home)


@pytest.fixture
def add(backend: Backend, tmp_path: Path) -> Add:
    """`add(mean)`: versions of a recipe, one a seed, with nDCG@10 around `mean`, registered as runs do; no models.

    The number of the last.
    """
    client = backend.client
    experiment = backend.experiment_id("noisyir-made")
    client.create_registered_model(NAME)
    numbers = count(1)

    def add(
        mean: float, *, seeds: int = 3, digest: str = "same", values: int = 200, recipe: str = "r", floor: float = 0.0
    ) -> str:
        for seed in range(seeds):
            version = add_one(mean, seed, digest, values, recipe, floor)
        client.set_registered_model_alias(NAME, "challenger", version)
        return version

    def add_one(mean: float, seed: int, digest: str, values: int, recipe: str, floor: float) -> str:
        run = client.create_run(experiment).info.run_id
        noise = np.random.default_rng([int(mean * 1e6), seed]).normal(0.001 * seed, 0.05, values)
        given = {"system": "npc", "measure": "nDCG@10", "split": "promotion"}
        rows = [
            given | {"query_id": q, "group": q, "value": float(v)} for q, v in zip(QUERIES, mean + noise, strict=False)
        ]
        floors = [rows[0] | {"system": name, "value": floor} for name in ("bm25", "zero_shot")]
        on_test = [row | {"split": "test", "value": 1.0} for row in rows]  # what nobody looks at here
        path = tmp_path / run / "per_query.parquet"
        path.parent.mkdir()
        pq.write_table(pa.Table.from_pylist([*rows, *floors, *on_test]), path)
        client.log_artifact(run, str(path), PER_QUERY.rpartition("/")[0])
        tags = {"artifact_key": "k", "eval_digest": digest, "nDCG_10": "1.0", "evaluation_run": run}
        tags |= {"system": "npc", "recipe": recipe, "seed": str(seed), "experiment": "made"}
        tags["artifact_digest"] = f"d{next(numbers)}"
        return str(client.create_model_version(NAME, f"runs:/{run}/model", run, tags).version)

    return add


def champion(backend: Backend) -> str | None:
    number = backend.client.get_registered_model(NAME).aliases.get("champion")
    return None if number is None else str(number)


def test_the_first_becomes_champion_a_better_one_follows_and_a_worse_one_does_not(add: Add, backend, store):
    add(0.4)
    first = promote(NAME, None, PARAMS, store=store)
    assert (first.verdict, first.champion_before, first.champion_after) == ("promoted", None, "3")
    assert first.reasons == ("there was no champion to compare with",)
    add(0.5, recipe="other")
    second = promote(NAME, None, PARAMS, store=store, flow_run="f-7")
    assert (second.verdict, second.champion_before, second.champion_after) == ("promoted", "3", "6")
    assert (second.numbers.queries, second.numbers.seeds, second.numbers.look) == (200, 3, 1)
    assert second.numbers.low < second.numbers.gain < second.numbers.high
    assert second.numbers.gain == pytest.approx(0.1, abs=0.02) and second.split == "promotion"
    add(0.45, recipe="third")
    third = promote(NAME, None, PARAMS, store=store)
    assert third.verdict == "refused" and third.champion_after == "6" and len(third.reasons) == 2
    assert champion(backend) == "6"
    assert promote(NAME, "6", PARAMS, store=store).verdict == "already champion"
    lines = decisions(store, NAME)
    assert [(line["version"], line["verdict"]) for line in lines] == [
        ("9", "refused"), ("6", "promoted"), ("3", "promoted")
    ]  # fmt: skip
    assert lines[1]["flow_run"] == "f-7" and "@" in lines[1]["who"] and lines[1]["when"].endswith("+00:00")
    assert lines[1]["thresholds"]["min_gain"] == 0.01 and lines[1]["versions"]["3"]["artifact_digest"] == "d3"
    tags = backend.client.get_model_version(NAME, "6").tags
    assert tags["promotion"] == "promoted" and tags["promoted_at"] == lines[1]["when"]
    assert "gain +0.1" in tags["promotion_summary"] and "over 3 seeds" in tags["promotion_summary"]
    assert backend.client.get_model_version(NAME, "9").tags["promotion"] == "refused"


def test_each_new_comparison_by_the_same_queries_spends_of_the_error_rate_and_asking_again_does_not(add: Add, store):
    add(0.4, recipe="champion")
    promote(NAME, None, PARAMS, store=store)

    def asked(recipe: str, seeds: int = 3) -> tuple[int, float]:
        add(0.402, recipe=recipe, seeds=seeds)
        decision = promote(NAME, None, PARAMS, store=store)
        assert decision.verdict == "refused" and decision.numbers is not None
        return decision.numbers.look, decision.numbers.error_rate

    first, rate = asked("a")
    assert (first, asked("b")[0], asked("c")[0]) == (1, 2, 3)
    assert promote(NAME, None, PARAMS, store=store).numbers.look == 3, "the same again"
    assert asked("d")[1] == pytest.approx(rate / 16)


def test_what_is_below_bm25_takes_force(add: Add, backend, store):
    add(0.4, floor=0.6)
    refused = promote(NAME, None, PARAMS, store=store)
    assert refused.verdict == "refused" and refused.reasons[0].startswith("it is no better than bm25: 0.4")
    assert champion(backend) is None
    forced = promote(NAME, None, PARAMS, store=store, forced=True)
    assert forced.verdict == "promoted" and len(forced.reasons) == 3 and champion(backend) == "3"


def test_other_evaluation_data_is_refused_and_so_is_what_was_never_measured(add: Add, backend, store):
    add(0.4, recipe="champion")
    promote(NAME, None, PARAMS, store=store)
    add(0.9, digest="other")
    (reason,) = promote(NAME, None, PARAMS, store=store).reasons
    assert "measured by different data (other and same)" in reason
    add(0.9, seeds=1, digest="other", recipe="alone")
    assert len(promote(NAME, None, PARAMS, store=store).reasons) == 1, "fewer seeds would not help"
    add(0.9, values=150)
    assert "and share 150" in promote(NAME, None, PARAMS, store=store).reasons[0]
    version = add(0.9, seeds=1, recipe="alone")
    few, cure = promote(NAME, None, PARAMS, store=store).reasons
    assert "both recipes have 1 in common" in few and f"--version {version} --min-seeds 1 decides" in cure
    backend.client.delete_model_version_tag(NAME, version, "evaluation_run")
    assert "has no values of this measure on split promotion" in promote(NAME, None, PARAMS, store=store).reasons[0]
    assert champion(backend) == "3"


def test_queries_that_the_champion_was_trained_on_judge_neither(add: Add, backend, store):
    add(0.3)
    assert promote(NAME, None, PARAMS, store=store).champion_after == "3"
    add(0.4, digest="grown", recipe="better")
    rows = [{"query_id": q, "split": "promotion", "measure": "nDCG@10", "group": q, "value": 0.3} for q in QUERIES]
    for row in rows[:50]:
        row["value"] = 1.0  # known by heart
    values = {str(seed): pa.Table.from_pylist([row | {"system": "npc"} for row in rows]) for seed in range(3)}
    rescored = Rescored("3", "grown", values, frozenset(QUERIES[:50]))
    found = promote(NAME, None, PARAMS, store=store, rescored=rescored)
    assert found.verdict == "promoted", found.reasons
    assert found.numbers.queries == 150
    assert found.numbers.champion_mean == pytest.approx(0.3)
    assert "50 queries are left out, because v3 was trained on them" in found.reasons


def test_a_refusal_names_the_experiment_as_noisyir_run_takes_it(add: Add, backend, store):
    version = add(0.5)
    backend.client.delete_model_version_tag(NAME, version, "evaluation_run")
    backend.client.set_model_version_tag(NAME, version, "run_as", "/data/my pairs.yaml")
    (reason,) = promote(NAME, version, PARAMS, store=store).reasons
    assert ": noisyir run '/data/my pairs.yaml' data.promotion_share=0.5 (half" in reason
    typed = "noisyir run '/data/my pairs.yaml' seed=3 train.epochs=9"
    backend.client.set_model_version_tag(NAME, version, "command", typed)
    (reason,) = promote(NAME, version, PARAMS, store=store).reasons
    assert ": noisyir run '/data/my pairs.yaml' train.epochs=9 data.promotion_share=0.5 (half" in reason


def test_roll_back_restores_the_champions_before_one_by_one(add: Add, backend, store):
    for mean in (0.4, 0.5, 0.6):
        add(mean, recipe=str(mean))
        promote(NAME, None, PARAMS, store=store)
    back = roll_back(NAME, store=store)
    assert (back.version, back.verdict, back.champion_after, champion(backend)) == ("9", "rolled back", "6", "6")
    again = promote(NAME, None, PARAMS, store=store)
    assert again.verdict == "refused" and "it was rolled back at" in again.reasons[0] and champion(backend) == "6"
    assert f"; noisyir promote {NAME} --version 9 has it judged nevertheless" in again.reasons[0]
    (two,) = promote(NAME, None, PromoteParams(min_seeds=2, split="dev"), store=store, forced=True).reasons
    assert f"; noisyir promote {NAME} --version 9 --split dev --min-seeds 2 --force has it" in two
    assert promote(NAME, "9", PARAMS, store=store).verdict == "promoted"
    assert [roll_back(NAME, store=store).champion_after for _ in range(2)] == ["6", "3"]
    with pytest.raises(StoreError, match=r"v3: MLflow knows no champion before it: promote a version"):
        roll_back(NAME, store=store)
    assert champion(backend) == "3" and decisions(store, NAME)[0]["verdict"] == "rolled back"


def test_what_became_champion_again_or_by_hand_is_stepped_back_from_as_mlflow_has_it(add: Add, backend, store):
    first, second = add(0.4, recipe="a"), add(0.5, recipe="b")
    promote(NAME, first, PARAMS, store=store)
    by_hand = add(0.1, recipe="by hand")
    backend.client.set_registered_model_alias(NAME, "champion", by_hand)
    with pytest.raises(StoreError, match="MLflow knows no champion before it"):
        roll_back(NAME, store=store)
    promote(NAME, second, PARAMS, store=store)
    elsewhere = Store(Path(store.root).parent / "another", home=store.home)  # its log knows nothing
    assert roll_back(NAME, store=elsewhere).champion_after == champion(backend) == by_hand
    for alias in ("champion", "champion-made"):
        backend.client.delete_registered_model_alias(NAME, alias)
    promote(NAME, second, PARAMS, store=store)
    with pytest.raises(StoreError, match="MLflow knows no champion before it"):
        roll_back(NAME, store=store)


def test_the_log_is_only_ever_added_to(add: Add, store: Store):
    add(0.4)
    promote(NAME, None, PARAMS, store=store)
    (path,) = (Path(store.root) / ".promotions").iterdir()
    text = path.read_bytes()
    with refuses(StoreError, "engine.json_already_no_decision"):
        store.promotions.record(path.stem, {"model": NAME})
    add(0.1)
    promote(NAME, None, PARAMS, store=store)
    assert path.read_bytes() == text and len(store.promotions.all()) == 2


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
    assert champion(backend) == "9"
    log = decisions(store, NAME)[::-1]
    assert log[0]["champion_after"] == "3"
    assert all(later["champion_before"] == earlier["champion_after"] for earlier, later in pairwise(log))
    assert sorted(one["version"] for one in log[1:]) == ["6", "9"]
    assert sorted(decision.verdict for decision in made[1:]) == ["already champion", "promoted"]


# On a run's own model, by the command line -----------------------------------------------------------------------


@pytest.fixture(scope="session")
def gated(tracked: tuple[Path, Outcome], collection: Path, tmp_path_factory: pytest.TempPathFactory):
    """The tracked home, in which the experiment ran again with queries for the gate, and what came of it."""
    home = shutil.copytree(tracked[0], tmp_path_factory.mktemp("gated") / "home")
    return home, run_tiny(home, collection, WITH_GATE)


@pytest.fixture
def ran(gated: tuple[Path, Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that home, as the environment's."""
    home = shutil.copytree(gated[0], tmp_path / "copy")
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    return home


WITH_GATE = "data.promotion_share=0.5"


@pytest.mark.parametrize(("split", "setting"), [("promotion", WITH_GATE), ("dev", "score.splits=[dev,test]")])
def test_without_queries_for_it_the_gate_says_how_to_get_them(
    split, setting, tracked, tmp_path, collection, monkeypatch, capsys
):
    home = shutil.copytree(tracked[0], tmp_path / "copy")
    monkeypatch.setenv("NOISYIR_HOME", str(home))
    assert main(["promote", "--split", split]) == 1
    said = capsys.readouterr().err
    (cure,) = re.findall(rf"no values of this measure on split {split}: noisyir run \S+ (\S+)", said)
    assert shlex.split(cure) == [setting]
    run_tiny(home, collection, setting)
    assert main(["promote", "--split", split, "--force"]) == 0


def test_a_runs_model_is_promoted_shown_on_the_next_card_and_searched_with(ran, tracked, collection, capsys):
    assert main(["promote", "--force"]) == 0
    told = capsys.readouterr().out
    number = re.match(rf"{NAME} v(\d) promoted: nDCG@10 \(promotion\) 0\.\d+ over \d queries", told).group(1)
    assert main(["promote", "retriever", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "already champion"
    assert main(["search", f"models:/{NAME}@champion", "oven flour", "--json", "-k", "2"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["model"] == tracked[1].kept["model"].key  # of the same bytes and len(found["hits"]) == 2
    run_tiny(ran, collection, "train.epochs=3", WITH_GATE)
    backend = connect(ran)
    version = backend.client.get_model_version_by_alias(NAME, "challenger")
    assert f"| champion, v{number} (npc) | test | 0." in version.description
    assert "promotion" not in version.description, "nobody chooses by what the gate looks at"
    assert version.tags["recipe"] != backend.client.get_model_version(NAME, number).tags["recipe"]
    assert main(["promote"]) == 1
    refusal = capsys.readouterr().err
    assert "min_seeds=3, and both recipes have 1 in common" in refusal
    cure = re.search(r"noisyir (promote noisyir-retriever --version \d --min-seeds 1) decides", refusal)[1]
    assert main([*cure.split(), "--min-gain", "0.9"]) == 1
    said = capsys.readouterr()
    assert said.out == "" and "refused" in said.err and "is not above min_gain=0.9" in said.err
    assert main(["promote", "--log"]) == 0
    verdicts = [text.split()[4].strip(":;") for text in capsys.readouterr().out.splitlines()]
    assert verdicts == ["refused", "refused", "promoted"]
    assert main(["promote", "--measure", "nDCG@3"]) == 1
    assert "'nDCG@3' was not measured" in capsys.readouterr().err


def test_a_champion_stays_its_experiments_where_another_trains_the_same_bytes(ran, collection):
    backend, store = connect(ran), Store(ran / "store", home=ran)
    client = backend.client
    own = client.get_model_version_by_alias(NAME, "challenger").tags["experiment"]
    first = promote(NAME, None, PARAMS, store=store, experiment=own, forced=True).champion_after
    run_tiny(ran, collection, "name=trial", WITH_GATE)
    assert str(client.get_model_version_by_alias(NAME, "challenger-trial").version) == first
    assert client.get_model_version(NAME, first).tags["experiment"] == own
    assert promote(NAME, None, PARAMS, store=store, experiment=own).verdict == "already champion"
    assert promote(NAME, None, PARAMS, store=store, experiment="trial", forced=True).verdict == "promoted"
    found = {alias for alias, number in client.get_registered_model(NAME).aliases.items() if str(number) == first}
    assert {"champion", f"champion-{own}", "champion-trial"} <= found


def test_promotion_needs_no_artifact_of_the_store_and_search_says_what_to_do(ran, gated, capsys):
    for stage in (folder for folder in (ran / "store").iterdir() if not folder.name.startswith(".")):
        shutil.rmtree(stage)
    assert main(["promote", "--force"]) == 0
    number = capsys.readouterr().out.split()[1]
    with pytest.raises(StoreError) as told:
        find_model(Store(ran / "store", home=ran), f"models:/{NAME}@champion")
    gone = f"is {NAME} {number}, and its artifact {gated[1].kept['model'].key[:12]} is no longer"
    for words in (gone, "noisyir run demo seed=42, or", "load_model('"):
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
