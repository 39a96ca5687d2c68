"""What a run found out about its wrong labels, and what was done about them before the model learned, in sentences."""

from collections.abc import Iterable, Mapping, Sequence

from noisyir.engine.builds import Meta, Ref
from noisyir.engine.provenance import lineage
from noisyir.engine.stage import Stage
from noisyir.engine.store import Store
from noisyir.pipelines.experiment import Experiment


def noise_story(
    exp: Experiment, store: Store, model: Ref, results: Sequence[Ref], stages: Mapping[str, Stage]
) -> list[str]:
    """One sentence a fact: noise put in, noise found, noise handled; found by the run, or behind the model itself.

    stages: by name; what a build of one did is told by its `story`.
    """

    def sentences(meta: Meta) -> Iterable[str]:
        stage = stages.get(meta.stage)
        return stage.story(meta, store) if stage and stage.story else ()

    behind = lineage(store, [model])
    used = {(meta.key, meta.build) for meta in behind}
    beside = [meta for meta in lineage(store, results) if (meta.key, meta.build) not in used]
    found = [sentence for meta in behind for sentence in sentences(meta)]
    seen = [f"{sentence} (seen by the run, not used by this model)" for m in beside for sentence in sentences(m)]
    return [_put_in(exp, behind), *dict.fromkeys([*found, *seen])] if found or seen else [_put_in(exp, behind), _NONE]


_NONE = "The run looked for no wrong labels, and nothing was done about them."


def _put_in(exp: Experiment, behind: Sequence[Meta]) -> str:
    if exp.task == "reader":
        return f"Labels are distant: the passages of {exp.reader.labels} that hold an answer."
    if exp.noise.rate:
        return f"{exp.noise.rate:.0%} of the training pairs were given a wrong document ({exp.noise.kind})."
    return "Only what the pairs came with: none was put in."
