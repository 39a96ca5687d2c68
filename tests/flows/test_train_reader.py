"""The readers' flow: the same plan as the local engine's, and no other task's experiments."""

import pytest

from noisyir.app.runs import Execution
from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Choice
from noisyir.methods import experiments
from tests.tiny_models import tiny_bert
from tests.tiny_squad import SETTINGS, write_squad

pytestmark = pytest.mark.usefixtures("prefect_api")


@pytest.fixture
def exp(tmp_path):
    (tmp_path / "squad").mkdir()
    given = [f"data.path={write_squad(tmp_path / 'squad')}", f"reader.init.weights={tiny_bert(tmp_path / 'bert')}"]
    return experiments.from_settings({"name": "tiny"}, [*SETTINGS, *given])


def test_a_readers_stages_run_as_tasks(exp, store):
    from noisyir.flows.train_reader import run_experiment

    outcome = run_experiment(exp, Choice(to="spans@bm25"), Execution(store=store))
    assert list(outcome.results) == ["ingest", "bm25_index", "bm25", "spans@bm25"]


def test_a_flow_refuses_what_another_one_trains(exp, store):
    from noisyir.flows.train_retriever import run_experiment

    with pytest.raises(ConfigError, match="tiny trains a reader: run the flow train_reader, not train_retriever"):
        run_experiment(exp, Choice(), Execution(store=store))
