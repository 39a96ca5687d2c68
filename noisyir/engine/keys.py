"""The key of a build: a hash of all that decides its result, and of nothing else."""

from collections.abc import Mapping
from typing import Any

from noisyir.base.settings import Params
from noisyir.engine.meta import Ref, json_digest
from noisyir.engine.stage import Inputs, Output, PlannedInputs, Stage


def key_of(stage: Stage, params: Params, seed: int | None, inputs: PlannedInputs | Inputs) -> str:
    """Return 32 hex digits: a pure hash of all that decides the step's result."""
    described = {
        "stage": stage.name,
        "version": stage.version,
        "params": params.key_values(),
        "seed": seed,
        "inputs": {name: _key_part(value) for name, value in inputs.items()},
    }
    return json_digest(described)[:32]


def _key_part(value: str | Ref | Output | Mapping[str, Ref | Output] | Mapping[str, Ref]) -> Any:
    if isinstance(value, Ref | Output):
        return [value.key, value.artifact]
    if isinstance(value, str):
        return value
    # a list because the order of labels matters: a comparison's first system is its baseline
    return [[label, made.key, made.artifact] for label, made in value.items()]
