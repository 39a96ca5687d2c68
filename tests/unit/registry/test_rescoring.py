"""A champion of yesterday's data against a challenger of today's: its weights are measured again before the gate."""

import json
import shutil

from noisyir.app.rescoring import _measuring, _replay, promote_on_data_of_today
from noisyir.app.runs import Execution, run_experiment
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.store import Store
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry import open_tracker
from noisyir.registry.backend import connect
from noisyir.registry.card import Version
from noisyir.registry.promote import decisions
from noisyir.registry.registry import CHAMPION, alias_of, champion_of
from tests.unit.registry.conftest import tiny_experiment

NAME = "noisyir-retriever"
TWO_SEEDS = PromoteParams(min_seeds=2, min_gain=0.0)


def test_rows_that_are_added_are_no_reason_to_refuse_and_nothing_is_trained_for_it(home, collection, tmp_path):
    data = shutil.copytree(collection, tmp_path / "beir")
    store = Store(home / "store", home=home)

    def night(seed: int, *overrides: str):
        chosen = ["methods=[dpr]", "data.promotion_share=0.5", f"seed={seed}", "register_if=always", *overrides]
        exp = tiny_experiment(data, *chosen)
        return run_experiment(exp, Choice(), execution(exp))

    def execution(exp=None):
        tracker = {"tracker": open_tracker(experiment=exp, home=home)} if exp else {}
        return Execution(store=store, runtime=Runtime(device="cpu"), **tracker)

    def decide(**given):
        return promote_on_data_of_today(NAME, None, TWO_SEEDS, execution(), forced=True, **given)

    for seed in (0, 1):
        night(seed)
    first = decide()
    assert (first.verdict, first.champion_after) == ("promoted", "2")
    with (data / "corpus.jsonl").open("a") as out:
        out.write(json.dumps({"_id": "new", "title": "regatta", "text": "sail and mast in the harbour"}) + "\n")
    with (data / "queries.jsonl").open("a") as out:
        out.write(json.dumps({"_id": "q-new", "text": "regatta"}) + "\n")
    with (data / "qrels" / "train.tsv").open("a") as out:
        out.write("q-new\tnew\t1\n")
    for seed in (0, 1):
        night(seed, "train.epochs=2")
    before = {meta.folder for meta in store.builds.all()}
    second = decide()
    made = {meta.stage for meta in store.builds.all() if meta.folder not in before}
    assert made == {"encode", "index", "search", "score"}
    assert second.numbers.seeds == 2 and second.numbers.champion_mean is not None
    assert "the champion v2 was measured again, on the challenger's data" in second.reasons
    assert "different data" not in second.summary
    assert decide().numbers == second.numbers, "asked again"

    version = connect(home).client.get_model_version_by_alias(NAME, alias_of("challenger", "demo"))
    model, between = _measuring(store, Version(str(version.version), version.tags))
    _replay(plan := Plan(0), between, model, model, "1")
    assert [step.key for step in plan.steps] == [meta.key for meta in between], "what the run built itself"

    night(0, "name=other")  # another experiment's first champion
    third = decide(experiment="other")
    assert (third.verdict, third.reasons[0]) == ("promoted", "there was no champion to compare with")
    backend = connect(home)
    assert champion_of(backend, NAME, "other").version == third.champion_after
    plain = champion_of(backend, NAME, None)
    assert plain.version == champion_of(backend, NAME, "demo").version != third.champion_after
    assert alias_of(CHAMPION, "my.own") == "champion-my_own"
    assert len(decisions(store, NAME)) == 4
