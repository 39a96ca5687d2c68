"""Queries that no system searched for: refused where they would be scored, and no ground of choice; the cures typed."""

import re

import pytest

from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import ConfigError
from noisyir.engine.plan import Choice
from noisyir.engine.runtime import Runtime
from noisyir.methods import experiments
from noisyir.methods.plans.retrievers import train_retriever
from tests.tiny import SETTINGS, tiny_data


@pytest.mark.parametrize("left_out", ["encode.splits=[test]", "bm25.splits=[test]"])
def test_a_split_that_would_score_zero_is_refused_with_the_setting_that_searches_it(left_out):
    with pytest.raises(ConfigError, match="leaves out 'dev'") as refused:
        experiments.load("demo", ["score.splits=[dev,test]", left_out])
    (cure,) = re.findall(r"set (\S+\.splits=\[[\w,]+\])", str(refused.value))
    exp = experiments.load("demo", ["score.splits=[dev,test]", left_out, cure])
    assert {*exp.score.splits} <= {*exp.encode.splits} and {*exp.score.splits} <= {*exp.bm25.splits}


def test_dev_chooses_once_it_is_encoded_as_the_warning_says(store, tmp_path, caplog):
    data = tiny_data(tmp_path / "data")

    def chosen_by(*changes):
        caplog.clear()
        execution = Execution(store=store, runtime=Runtime(device="cpu", threads=1))
        exp = experiments.load("demo", [*SETTINGS, *data, "methods=[dpr]", *changes])
        outcome = run_experiment(exp, Choice(), execution, train_retriever)
        return {*store.builds.table(outcome.kept["standings"])["split"].to_pylist()}, caplog.text

    splits, said = chosen_by("encode.splits=[test]")
    assert splits == {"test"} and "put dev into encode.splits" in said
    splits, said = chosen_by("encode.splits=[dev,test]")
    assert splits == {"dev", "test"} and "encode.splits" not in said
