"""Steps of a plan and builds in the store as calls of stages, alike to those who estimate costs."""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow.compute as pc
from pydantic import ValidationError

from noisyir.costs.workload import Call, Sizes
from noisyir.data.settings import ExpectedParams
from noisyir.engine.builds import Meta
from noisyir.engine.plan import Forecast
from noisyir.engine.stage import Output, Stage, Step
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.stages.data.ingest import INGEST


def planned_calls(states: Iterable[Forecast], store: Store, expected: ExpectedParams) -> dict[str, Call]:
    """The call of each step, by the step's name; of data that was not read the sizes are what is expected."""
    calls: dict[str, Call] = {}
    for entry in states:
        step, sizes = entry.step, None
        if step.stage.name == INGEST.name:
            sizes = counted(store, entry.meta, expected) if entry.meta else declared(expected)
        made_from = [(name, calls[output.step]) for name, output in _outputs(step)]
        calls[step.name] = Call(step.stage, step.params, made_from, sizes)
    return calls


def _outputs(step: Step) -> Iterator[tuple[str, Output]]:
    for name, value in step.inputs.items():
        if isinstance(value, Output):
            yield name, value
        elif isinstance(value, Mapping):
            yield from ((name, output) for output in value.values())


def built_calls(store: Store, stages: Mapping[str, Stage]) -> Iterator[tuple[Meta, Call]]:
    """Every build of these stages, by name, as they are now.

    What a build was made from is passed by where it is not in the store any more, or of older settings.
    """
    found: dict[tuple[str, str, str], tuple[Meta, Call]] = {}
    for meta in store.all_builds():
        stage = stages.get(meta.stage)
        if stage is None or stage.version != meta.version:
            continue
        try:
            params = stage.params.parse(dict(meta.params))
        except ValidationError:
            continue  # written when the stage had other settings
        sizes = counted(store, meta, ExpectedParams()) if stage.name == INGEST.name else None
        found[meta.stage, meta.key, meta.build] = meta, Call(stage, params, [], sizes)
    for meta, call in found.values():
        for name, ref in meta.input_refs():
            if source := found.get((ref.stage, ref.key, ref.build)):
                call.inputs.append((name.partition(".")[0], source[1]))
    yield from found.values()


def counted(store: Store, ingest: Meta, expected: ExpectedParams) -> Sizes:
    """What a build of ingest wrote; lengths of texts are not counted, but taken as expected."""
    splits = {
        name: pc.value_counts(read_parts(store.fs, store.parts(ingest.ref(name)), ["split"])["split"]).to_pylist()
        for name in ("queries", "pairs")
    }
    queries, pairs = ({row["values"]: row["counts"] for row in rows} for rows in splits.values())
    documents = ingest.artifacts["corpus"].rows or 0
    return Sizes(documents, queries, pairs.get("train", 0), expected.document_tokens, expected.query_tokens)


def declared(expected: ExpectedParams) -> Sizes | None:
    """The sizes that an experiment expects; None where it does not say."""
    if expected.documents is None or expected.train_queries is None:
        return None
    queries = {"train": expected.train_queries, "dev": expected.dev_queries, "test": expected.test_queries}
    pairs = expected.train_pairs or expected.train_queries
    tokens = expected.document_tokens, expected.query_tokens
    return Sizes(expected.documents, queries, pairs, *tokens, declared=True)
