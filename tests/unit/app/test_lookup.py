"""What a name stands for: the model of an experiment is the one that its newest finished run kept."""

import re

import pytest

from noisyir.app.lookup import find_build, find_model, finished_comparison
from noisyir.app.runs import Execution, run_experiment
from noisyir.base.errors import StoreError
from noisyir.base.settings import Params
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.stage import Job, Stage
from noisyir.engine.store import Store
from noisyir.front.cli import main
from noisyir.methods.plans.experiment import Experiment
from noisyir.models.artifacts import MODEL
from tests.refusals import refuses


class Words(Params):
    """What the files of a model say."""

    words: str


def write_model(job: Job[Words]) -> None:
    (job.new_folder("model") / "weights").write_text(job.params.words)


WARM_UP, NPC = (Stage(name, 1, Words, {}, {"model": MODEL}, write_model) for name in ("warm_up", "npc"))


def two_trainers(exp: Experiment) -> Plan:
    plan = Plan(exp.seed)
    plan.add(WARM_UP, Words(words="first"))
    plan.keep(model=plan.add(NPC, Words(words="second"), "npc")["model"])
    return plan


@pytest.fixture
def ran(store: Store) -> Store:
    """A store in which the experiment `two` ran: it trained two models and kept the second."""
    run_experiment(Experiment(name="two"), Choice(), Execution(store=store), pipeline=two_trainers)
    return store


def weights(store: Store, name: str) -> str:
    return (store.builds.folder(find_model(store, name)) / "weights").read_text()


def test_an_experiment_is_the_model_that_its_run_kept(ran: Store):
    assert weights(ran, "two") == weights(ran, "npc") == "second"
    assert weights(ran, "warm_up") == "first"


def test_a_run_of_which_the_model_was_not_chosen_gives_way_to_an_older_one(ran: Store):
    part = {**ran.runs.all()[0], "steps": {}}
    ran.runs.record("99991231T235959999999-two", part)
    assert weights(ran, "two") == "second"


def test_a_record_that_does_not_say_what_was_kept_is_of_the_one_trainer_there_was(ran: Store):
    old = {name: value for name, value in ran.runs.all()[0].items() if name != "kept"}
    ran.runs.record("99991231T235959999999-two", old)
    assert weights(ran, "two") == "first"
    ran.runs.record("99991231T235959999999-two", {**old, "steps": {}})
    assert weights(ran, "two") == "second"


def test_of_a_model_that_is_gone_it_is_told_what_makes_it_again(ran: Store):
    store = ran
    for meta in store.builds.all():
        if meta.stage == find_build(store, "two").stage:
            store.builds.remove(meta)
    with refuses(StoreError, "app.no_single_build", name="two"):
        find_build(store, "two")


def test_where_the_newest_model_is_gone_an_older_one_is_taken_with_a_warning(ran: Store, caplog):
    def other(exp: Experiment) -> Plan:
        plan = Plan(exp.seed)
        plan.keep(model=plan.add(NPC, Words(words="third"), "npc")["model"])
        return plan

    newest = run_experiment(Experiment(name="two"), Choice(), Execution(store=ran), pipeline=other).kept["model"]
    assert weights(ran, "two") == "third" and not caplog.records
    ran.builds.remove(ran.builds.meta(newest))
    assert weights(ran, "two") == "second"
    assert "the model of the newest run of two is gone, so an older one is taken" in caplog.text


def test_a_build_is_listed_under_the_newest_run_that_used_it(ran: Store, capsys):
    """A later run that reuses all builds names them."""
    ran.runs.record("99991231T235959999999-newest", {**ran.runs.all()[0], "experiment": "newest"})
    assert main(["status", "--builds", "--store", ran.url]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert any("newest" in row for row in rows) and not any("two" in row for row in rows)


def test_a_name_of_nothing_is_refused_with_what_to_type(ran: Store):
    with pytest.raises(StoreError, match=r"no experiment that has run, no stage and no key.*noisyir status --builds"):
        find_build(ran, "three")


def test_a_run_of_another_folder_is_found_by_its_store(ran: Store, tmp_path, monkeypatch, capsys):
    """The advice works when typed; a command that would fail is not advised."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.delenv("NOISYIR_HOME", raising=False)
    monkeypatch.delenv("NOISYIR_STORE", raising=False)
    assert main(["show", "two"]) == 1
    (flag,) = re.findall(r"name its store by (--store)", capsys.readouterr().err)
    assert main(["show", "two", flag, ran.url]) == 0
    nothing = Store(tmp_path / "elsewhere", home=tmp_path)
    with refuses(StoreError, "app.no_comparison", name="two", cure=""):
        finished_comparison(nothing, "two")
    with refuses(StoreError, "app.no_comparison", name="demo", cure=": noisyir run demo"):
        finished_comparison(nothing, "demo")
