"""Other people's flows: stages as tasks that they chain, and noisyir's flows as parts of theirs."""

import ast
import csv
from pathlib import Path

import pytest

from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Plan
from noisyir.engine.store import Store
from noisyir.methods import experiments
from tests.flows.graph import arrows, nodes_of
from tests.tiny import SETTINGS, tiny_data
from tests.tiny_squad import SETTINGS as READER
from tests.tiny_squad import write_squad

pytestmark = pytest.mark.usefixtures("prefect_api")


@pytest.fixture
def pairs(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["query", "document"])
        rows.writerows([f"sailing to harbour{n}", f"all boats of mark{n} sail to harbour{n}"] for n in range(60))
    return path


def test_the_example_chains_stages_that_pipelines_find(pairs: Path, tracked_home: Path, tmp_path: Path):
    from examples import own_flow
    from noisyir.engine.known_stages import stage_named

    (body,) = [
        node for node in ast.parse(Path(own_flow.__file__).read_text()).body if isinstance(node, ast.FunctionDef)
    ]
    assert len(body.body) <= 10
    first, again = (own_flow.bm25_of_my_pairs(str(pairs), return_state=True) for _ in range(2))
    assert first.result() == again.result()
    nodes = nodes_of(again.state_details.flow_run_id, 4)
    assert sorted(node["label"] for node in nodes) == ["bm25", "bm25_index", "ingest", "score"]
    chain = {("ingest", "bm25_index"), ("bm25_index", "bm25"), ("bm25", "score")}
    assert arrows(nodes) == chain | {("ingest", "bm25"), ("ingest", "score")}

    store, plan, ingest = Store(tmp_path / "store", home=tmp_path), Plan(7), stage_named("ingest")
    given = {"kind": "pairs", "path": str(pairs), "hold_out": {"test": 0.2, "dev": 0.2}}
    plan.add(ingest, ingest.params.parse(given))
    assert store.builds.of_key("ingest", plan.steps[0].key)


def test_a_stage_that_was_in_the_store_gives_its_artifacts_in_a_state_named_cached(pairs: Path, tmp_path: Path):
    from prefect import flow

    from noisyir.flows import stage

    @flow
    def mine(path: str):
        future = stage("ingest").submit({"kind": "pairs", "path": path}, store=str(tmp_path / "store"))
        return future.wait() or future.state.name, future.result()

    (built, made), (cached, there) = mine(str(pairs)), mine(str(pairs))
    assert (built, cached) == ("Completed", "Cached") and made == there and "corpus" in made
    with pytest.raises(ConfigError, match="nonsense"):
        stage("nonsense")


def test_a_flow_of_ours_is_part_of_theirs(tracked_home: Path, tmp_path: Path):
    from prefect import flow

    from noisyir.flows import train_retriever

    overrides = (*SETTINGS, *tiny_data(tmp_path / "beir"))

    @flow
    def theirs():
        outcome = train_retriever("demo", overrides, to="ingest")
        return outcome.executed, outcome.cached

    assert theirs() == (1, 0) and theirs() == (0, 1)


@pytest.mark.parametrize("name", ["theirs", "train_theirs", "train_reader_of_theirs"])
def test_ours_under_a_name_of_theirs_trains_as_under_our_own(name: str, tracked_home: Path, tmp_path: Path):
    from noisyir.flows import train_retriever

    given = ("demo", (*SETTINGS, *tiny_data(tmp_path / "beir"), "methods=[dpr]", "train.epochs=1"))
    theirs = train_retriever.with_options(name=name)(*given, to="train_dpr")
    assert not theirs.results["train_dpr@dpr"].cached
    ours = train_retriever(*given, to="train_dpr")
    assert ours.executed == 0 and list(ours.results) == list(theirs.results)


def test_ours_under_a_name_of_theirs_trains_readers(tracked_home: Path, tmp_path: Path):
    from noisyir.flows import train_reader

    exp = experiments.from_settings({"name": "tiny"}, [*READER, f"data.path={write_squad(tmp_path)}"])
    outcome = train_reader.with_options(name="theirs")(exp, to="bm25")
    assert list(outcome.results) == ["ingest", "bm25_index", "bm25"]


@pytest.mark.parametrize("name", ["train_retriever", "train_reader"])
def test_ours_are_deployed_by_their_own_method(prefect_api, name):
    from prefect import get_client
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.deployments.runner import EntrypointType

    from noisyir import flows

    with get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name=f"their_{name}", type="process"))
        made = getattr(flows, name).to_deployment("mine", entrypoint_type=EntrypointType.MODULE_PATH)
        made.apply(work_pool_name=f"their_{name}")
        found = client.read_deployment_by_name(f"{name}/mine")
    assert found.entrypoint == f"noisyir.flows.{name}.{name}"
