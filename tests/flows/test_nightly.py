"""A night as a flow: it trains the seeds that its gate wants, and tells what the gate said."""

import pytest

from noisyir.evaluation.settings import PromoteParams
from noisyir.registry.backend import connect
from tests.tiny import SETTINGS, tiny_data

pytestmark = pytest.mark.usefixtures("prefect_api")


def test_a_night_trains_what_its_gate_wants_and_the_first_model_becomes_champion(tmp_path, monkeypatch):
    from noisyir.flows.nightly import nightly

    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    given = [*SETTINGS, *tiny_data(tmp_path / "beir"), "methods=[dpr]", "data.promotion_share=0.5", "seed=5"]
    state = nightly("demo", tuple(given), PromoteParams(min_seeds=1), return_state=True)
    assert state.is_completed() and "the gate is by queries alone" in state.message, state.message
    (version,) = connect(tmp_path).client.search_model_versions("name = 'noisyir-retriever'")
    assert version.tags["seed"] == "5" and "noisyir-retriever v1 refused" in state.message  # BM25 is perfect there
