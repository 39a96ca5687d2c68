"""Stages as tasks of other people's flows: each takes what others made, and its results are in the store."""

from collections.abc import Mapping
from typing import Any

from prefect import Task

from noisyir.base.settings import Params
from noisyir.engine.build_stage import run_stage
from noisyir.engine.known_stages import stage_named
from noisyir.engine.meta import Ref
from noisyir.engine.plan import Plan, resolved
from noisyir.engine.runtime import Runtime
from noisyir.flows.experiment import writable_store
from noisyir.tasks.observer import PrefectObserver
from noisyir.tasks.stage_task import ended, task_options

Made = dict[str, Ref]


class StageTask(Task[..., Made]):
    """A task whose call gives artifacts by name, also where they were in the store and its state is Cached."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run it, and give its artifacts or raise its error."""
        return super().__call__(*args, **kwargs, return_state=True).result()


def stage(name: str) -> StageTask:
    """A stage as a task: `stage("encode")({"dtype": "float16"}, model=trained["model"], corpus=data["corpus"])`.

    The task takes the stage's settings and, by their names, its inputs: artifacts that other such tasks gave.  It gives
    its own artifacts by name.  The key is the one that a pipeline would have, so each finds the builds of the other.
    ConfigError for an unknown stage.
    """
    found = stage_named(name)

    def run(
        settings: Params | Mapping[str, Any] | None = None,
        *,
        seed: int = 42,
        refresh: bool = False,
        store: str | None = None,
        runtime: Runtime = Runtime(),  # noqa: B008 - frozen
        **inputs: Ref | Mapping[str, Ref],
    ) -> Made:
        plan, artifacts = Plan(seed), writable_store(store)
        plan.add(found, found.params.parse(settings or {}), **inputs)
        (step,) = plan.steps
        given = resolved(step.inputs, {})
        result = run_stage(step, given, refresh, store=artifacts, runtime=runtime, observer=PrefectObserver())
        made = {artifact: result.meta.ref(artifact) for artifact in result.meta.artifacts}
        return ended(made, cached=result.cached)

    description = f"stage {found.name} v{found.version}"
    return StageTask(fn=run, name=name, task_run_name=name, description=description, **task_options(found))
