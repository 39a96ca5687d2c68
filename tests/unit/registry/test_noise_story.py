"""What stages tell of their builds, and how a model's page puts it together."""

import pytest

from noisyir.base.settings import Params
from noisyir.engine.build_stage import run_stage
from noisyir.engine.known_stages import known_stages
from noisyir.engine.meta import Meta
from noisyir.engine.plan import Plan
from noisyir.engine.runtime import Runtime
from noisyir.engine.stage import Stage
from noisyir.methods.plans.experiment import Experiment
from noisyir.models.artifacts import MODEL
from noisyir.registry.card import noise_story

JUDGED = {"judged": 1200, "dropped": 30, "sieved_out": 1100}
DROPPED = "30 of 1,200 candidate negatives were dropped as relevant."
RANDOM = {"rate": 0.21, "low": 0.196, "high": 0.254, "counted": 210, "tail": 0.5, "fit": 1.0, "auroc": 0.88}
DETECTED = {"rate": 0.21, "pairs": 2000, "flagged": 0.5, **{f"random.{name}": value for name, value in RANDOM.items()}}


@pytest.mark.parametrize(
    ("stage", "notes", "sentence"),
    [
        (
            "detect",
            {"detection": {"9": {}, "10": DETECTED}},
            "Detection: 1,000 of 2,000 pairs were flagged; how many are wrong is not known without judgements: "
            "judge 50 pairs to know it.",
        ),
        (
            "repair",
            {"repair": {"relabelled": 1500, "flagged": 2}},
            "Repair: 1,500 pairs got another document; 2 stay flagged.",
        ),
        ("sieve", {"sieve": JUDGED}, "Sieve: 1,100 of 1,200 candidate negatives were sieved out as likely positives."),
        ("cross_judge", {"cross_judge": JUDGED}, f"A cross-encoder: {DROPPED}"),
        ("ranker_judge", {"ranker_judge": JUDGED}, f"The trained ranker: {DROPPED}"),
        (
            "mine",
            {"negatives": {"candidates": 5000, "removed": {"positive": 1234, "answer": 0}}},
            "Hard negatives: of 5,000 candidates were removed: positive 1,234.",
        ),
        (
            "mine",
            {"negatives": {"candidates": 5, "removed": {}}},
            "Hard negatives: of 5 candidates were removed: none.",
        ),
        ("pseudo_label", {"pseudo_pairs": {"made": 7}}, "Pseudo-labels: 7 pairs were added."),
        (
            "train_reader",
            {"instances": {"instances": 4000, "labelled": 5000, "questions": 60}},
            "The reader learned from 4,000 of 5,000 labelled spans, of 60 questions.",
        ),
    ],
)
def test_a_stage_tells_its_story_from_the_notes_of_a_build(store, stage, notes, sentence):
    def build(notes):
        return Meta(stage, 1, "key", "build", {}, None, {}, {}, 1.0, "", notes, None, {})

    story = known_stages()[stage].story
    assert story is not None
    assert list(story(build(notes), store)) == [sentence]
    assert list(story(build({"rows": 1}), store)) == []


def test_the_page_of_a_model_has_the_story_of_a_stage_of_a_third_party(store):
    def wash(job):
        (job.new_folder("model") / "weights").write_text("clean")
        job.note("washed", 3)

    def story(meta, store):
        yield f"Washed: {meta.notes['washed']} labels."

    stage = Stage("wash", 1, Params, {}, {"model": MODEL}, wash, story=story)
    plan = Plan(1)
    plan.add(stage, Params())
    built = run_stage(plan.steps[0], {}, store=store, runtime=Runtime())
    model, exp = built.meta.ref("model"), Experiment(name="washed")
    none = "Only the pairs' own noise: none was put in."
    assert noise_story(exp, store, model, [], {"wash": stage}) == [none, "Washed: 3 labels."]
    assert noise_story(exp, store, model, [], {})[1].startswith("The run looked for no wrong labels")
