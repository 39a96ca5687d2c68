"""A step on its way to another machine: all that a worker needs to run it, without the pipeline that it belongs to."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

from pydantic import ValidationError

from noisyir.engine.build_stage import Result
from noisyir.engine.builds import Ref
from noisyir.engine.plan import key_of, resolved
from noisyir.engine.stage import Inputs, Output, PlannedInputs, Stage, Step
from noisyir.errors import ConfigError
from noisyir.settings import Params

_TWO_VERSIONS = "this worker and the sender have other versions of noisyir; bring both to one"


Opened: TypeAlias = tuple[Step, Inputs]


class SerializedStep(Params):
    """A step with its inputs, as JSON; those that are made on the way there, by steps before it, are named by these.

    Labelled inputs are a list, for the order of labels has a meaning, and a database may sort the names of an object.
    """

    name: str
    stage: str
    params: dict[str, Any]
    seed: int | None
    inputs: dict[str, str | Ref | Output | tuple[tuple[str, Ref | Output], ...]]
    key: str

    @classmethod
    def of(cls, step: Step, inputs: PlannedInputs) -> "SerializedStep":
        """The step with these inputs."""
        listed = {name: tuple(value.items()) if isinstance(value, Mapping) else value for name, value in inputs.items()}
        params = step.params.model_dump(mode="json")
        return cls(name=step.name, stage=step.stage.name, params=params, seed=step.seed, inputs=listed, key=step.key)

    def open(self, stage_named: Callable[[str], Stage], made: Mapping[str, Result] = MappingProxyType({})) -> Opened:
        """The step, by this machine's stages, and its inputs, some of them from what was `made` here before.

        ConfigError where that is not what was sent.
        """
        stage = stage_named(self.stage)
        try:
            params = stage.params.parse(self.params)
        except ValidationError as error:
            wrong = ".".join(map(str, error.errors()[0]["loc"]))
            raise ConfigError(f"{self.name} has a bad setting {wrong}; {_TWO_VERSIONS}") from error
        listed = {name: dict(value) if isinstance(value, tuple) else value for name, value in self.inputs.items()}
        inputs = resolved(listed, made)
        key = key_of(stage, params, self.seed, inputs)
        if key != self.key:
            raise ConfigError(
                f"{self.name} has the key {key[:12]} here, and {self.key[:12]} for the sender; {_TWO_VERSIONS}"
            )
        return Step(self.name, stage, params, self.seed, {}, key), inputs
