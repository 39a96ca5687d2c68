"""Keys hold what matters: what a release adds changes none of them, and what it changes cannot go unnoticed."""

import json
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import pytest
from pydantic import Field, create_model

from noisyir.base.settings import Location, Params, ReadWhen
from noisyir.base.variants import Variant
from noisyir.detection.detectors import Detector
from noisyir.engine.keys import key_of
from noisyir.engine.known_stages import known_stages
from noisyir.engine.stage import Stage
from noisyir.front.cli import main
from noisyir.methods import experiments
from noisyir.methods.experiments import from_settings
from noisyir.methods.plans.planning import pipeline_of
from noisyir.mining.samplers import Sampler
from noisyir.mining.settings import MineParams
from noisyir.models.settings import InitModelParams
from noisyir.training.settings import TrainDprParams
from tests.defaults import SNAPSHOT, changed_without_a_version, defaults_now, families
from tests.tiny import SETTINGS, tiny_data

BEFORE = Path(__file__).parents[1] / "keys_of_before.json"


class Small(Params):
    size: int = 3
    where: Location = None
    deep: TrainDprParams = TrainDprParams(epochs=2)


def key(params: Params, version: int = 1, **more: Any) -> str:
    return key_of(Stage("a", version, type(params), {}, {}, print, **more), params, 1, {})


def test_a_key_holds_what_differs_from_the_defaults_and_no_place():
    assert Small(where="/somewhere").key_values() == {}
    assert Small(size=4).key_values() == {"size": 4}
    # a group is described by its own class's defaults, so that it says the same wherever it stands
    assert Small(deep=TrainDprParams()).key_values() == {"deep": {}}
    assert Small(deep=TrainDprParams(epochs=7, scale=1.0)).key_values() == {"deep": {"epochs": 7, "scale": 1.0}}
    assert len({key(Small()), key(Small(size=4)), key(Small(deep=TrainDprParams())), key(Small(), version=2)}) == 4


def every_class_of_settings() -> list[type[Params]]:
    """Of stages, and of each variant of each family."""
    defaults_now()  # loads them all
    stages = {stage.params for stage in known_stages().values() if not issubclass(stage.params, Variant)}
    return [
        *sorted(stages, key=lambda one: one.__name__),
        *(one for family in families() for one in family.known.values()),
    ]


@pytest.mark.parametrize("params", every_class_of_settings(), ids=lambda params: params.__name__)
def test_a_new_setting_with_a_default_changes_no_key(params: type[Params]):
    required: dict[str, Any] = {name: "x" for name, field in params.model_fields.items() if field.is_required()}
    named = {"kind": (Literal["grown"], "grown")} if issubclass(params, Variant) else {}
    grown = create_model("Grown", __base__=params, another=(int, 5), deeper=(Small, Small(size=9)), **named)
    try:
        plain, more = params.model_construct(**required).key_values(), grown.model_construct(**required)
        assert more.another == 5
        assert {**plain, "kind": 0} == {**more.key_values(), "kind": 0}
    finally:
        if issubclass(params, Variant):
            del params.known["grown"]


def test_a_new_setting_of_a_variant_changes_no_key_and_a_new_version_of_it_only_where_it_is_chosen():
    class Plain(Sampler, kind="plain"):
        a: int = 1

    class Revised(Plain, kind="revised"):
        version: ClassVar[int] = 2
        b: int = 1

    assert Plain().key_values() == {"kind": "plain/1"} and Revised(b=2).key_values() == {"kind": "revised/2", "b": 2}
    for kind in ("plain", "revised"):
        del Sampler.known[kind]


def test_what_is_not_chosen_is_in_no_key():
    def mined(**sampler: Any) -> dict[str, Any]:
        return MineParams(per_query=1, sampler=sampler).key_values()

    assert mined(kind="uniform") == {"per_query": 1} == MineParams(per_query=1).key_values()
    assert mined(kind="simans") == {"per_query": 1, "sampler": {"kind": "simans/1"}} == mined(kind="simans", a=0.5)
    assert mined(kind="simans", a=1.0)["sampler"] == {"kind": "simans/1", "a": 1.0}
    assert Detector.parse({"kind": "margin", "folds": 2}).key_values() == {"kind": "margin/1", "folds": 2}
    static = InitModelParams(layers=2, dropout=0.1)
    assert static.key_values() == {} != static.model_copy(update={"backbone": "transformer"}).key_values()


def test_what_is_read_only_beside_another_setting_is_in_the_key_only_there():
    class Two(Params):
        way: Literal["a", "b"] = "a"
        of_b: Annotated[int, ReadWhen("way", ("b",))] = Field(1)

    assert Two(of_b=2).key_values() == {} and Two(way="b", of_b=2).key_values() == {"way": "b", "of_b": 2}


def test_a_new_stage_changes_no_key_of_a_plan():
    before = {step.name: step.key for step in pipeline_of(experiments.load("demo")).steps}
    Stage("new", 1, Small, {}, {}, print)
    assert {step.name: step.key for step in pipeline_of(experiments.load("demo")).steps} == before


def test_no_default_changes_without_a_new_version():
    """Of every stage and every variant: what was written down must hold, unless the version says otherwise."""
    written, now = json.loads(Path(SNAPSHOT).read_text()), defaults_now()
    changed = changed_without_a_version(written, now)
    assert not changed, f"bump the version, then: python -m tests.defaults\n{changed}"
    unwritten = [name for name, entry in now.items() if written.get(name) != entry]
    assert not unwritten, f"new or with new settings; write them down: python -m tests.defaults\n{unwritten}"


def test_a_changed_default_is_noticed_unless_the_version_changes():
    changed = create_model("MineParams", __base__=MineParams, rank_to=(int, 50))
    stage = known_stages()["mine"]
    written = json.loads(Path(SNAPSHOT).read_text())
    same, bumped = (
        defaults_now({"mine": Stage("mine", version, changed, {}, {}, print)})
        for version in (stage.version, stage.version + 1)
    )
    assert changed_without_a_version(written, same) == ["stage mine: rank_to was 100, is 50"]
    assert changed_without_a_version(written, bumped) == []


def test_a_variant_is_chosen_by_name_by_settings_or_by_overrides():
    given = [f"mine.per_query={n}" for n in (2,)]
    by_name = from_settings({"name": "x"}, [*given, "mine.sampler=simans"])
    by_settings = from_settings({"name": "x", "mine": {"sampler": {"kind": "simans"}}}, given)
    by_override = from_settings({"name": "x", "mine": {"sampler": "simans"}}, [*given, "mine.sampler.a=0.5"])
    assert by_name.mine == by_settings.mine == by_override.mine
    assert from_settings({"name": "x"}, [*given, "mine.sampler=simans", "mine.sampler.a=2"]).mine.sampler.a == 2


def test_a_store_of_before_the_rooms_is_found_cached(tmp_path: Path, capsys, monkeypatch):
    """The keys are those that the layers gave; the report's also holds the path of the data.

    Since then bm25s rounds lengths as Lucene does, and NPC has another default: what is computed from them is another.
    """
    monkeypatch.setenv("NOISYIR_HOME", str(tmp_path / "home"))
    settings = [*SETTINGS, *tiny_data(tmp_path / "beir"), "methods=[dpr,npc,reweight]"]
    assert main(["run", "demo", *settings, "--dry-run", "--json"]) == 0
    keys = {step["name"]: step["key"] for step in json.loads(capsys.readouterr().out)["steps"]}
    before = json.loads(BEFORE.read_text())
    assert keys.pop("report") and keys.pop("loss_section") and keys.keys() == before.keys()
    of_bm25 = {name for name in keys if name in ("bm25", "score@bm25", "compare", "recommend") or "hybrid" in name}
    of_bm25 |= {name for name in keys if name.startswith("fuse@")}
    of_npc = {name for name in keys if name.endswith("@npc")} | {"score_detection"}
    assert {name for name in keys if keys[name] != before[name]} == of_bm25 | of_npc
