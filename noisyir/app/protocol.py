"""Noise bench protocol: available sets of a suite, user data as additional sets, and tasks for external tools."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from noisyir.app.audit_data import named_after, settings_of_data
from noisyir.app.runs import Execution, run
from noisyir.base.errors import ConfigError, DataError, StoreError
from noisyir.base.pages.cells import percent
from noisyir.data.collection import SCHEMAS, Collection
from noisyir.data.formats.beir import Beir
from noisyir.data.settings import HeldOutParams
from noisyir.engine.plan import Choice, Plan
from noisyir.methods.plans.data import context_of, data_of
from noisyir.methods.plans.suite import BenchSet, Suite

TASK_FILES = ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv")
_OTHER, _TESTED = "other data", 0.2


def with_data(suite: Suite, folder: str | None, own: Sequence[str]) -> tuple[Suite, list[str]]:
    """Restrict the suite to the available sets, adding the user's files; also report differing and missing sets.

    Args:
        folder: Folder of its sets; None: as the suite says.

    Raises:
        ConfigError: If no set is available, a file has the name of a set, or the suite has no named sets.
        DataError: If a file is not readable as data.
    """
    if (folder or own) and not suite.sets:
        raise ConfigError("app.suite_of_one_set", suite=suite.name)
    sets, said = dict[str, BenchSet](), list[str]()
    for name, found in _named(suite, folder):
        if (told := _differs(suite, name, found)) is not None:
            said.append(told)
        if told is None or told.startswith(_OTHER):
            sets[name] = found
    for path in own:
        if (name := named_after(path)) in suite.sets:
            raise ConfigError("app.set_name_taken", path=path, name=name)
        data = {**settings_of_data(path), "hold_out": HeldOutParams(test=_TESTED, dev=0.0).model_dump()}
        sets[name] = BenchSet(about=f"{path}, {percent(_TESTED)} held out", experiment={"data": data})
    if suite.sets and not sets:
        raise ConfigError("app.no_sets", suite=suite.name, said=said[0])
    return suite.model_copy(update={"sets": sets}), said


def _named(suite: Suite, folder: str | None) -> Iterator[tuple[str, BenchSet]]:
    """Return the suite's sets, with data from the folder."""
    for name, found in suite.sets.items():
        data = dict(found.experiment.get("data", {}))
        if folder and "path" in data:
            data["path"] = str(Path(folder) / Path(data["path"]).name)
        yield name, found.model_copy(update={"experiment": {**found.experiment, "data": data}})


def _differs(suite: Suite, name: str, found: BenchSet) -> str | None:
    """Describe how the local set differs from the protocol; None if it does not."""
    chosen = suite.model_copy(update={"sets": {name: found}})
    try:
        digest = str(chosen.variant(next(iter(suite.variants)), name).data.digest())
    except DataError as error:
        return f"left out   {name}: {error}" + (f"; {found.source}" if found.source else "")
    if found.digest and not digest.startswith(found.digest):
        return f"{_OTHER} {name}: digest {digest[:12]}, and the protocol's table is of {found.digest}"
    return None


def write_tasks(suite: Suite, target: Path, execution: Execution) -> list[str]:
    """Write the wrong pairs of each condition and seed for external tools: a folder in BEIR layout each.

    Contains neither the truth nor judgements of test queries.

    Raises:
        StoreError: If one cannot be written.
    """
    plan, tasks = Plan(suite.experiment.seed), {}
    for condition in suite.conditions:
        for seed in suite.seeds:
            plan.seed, plan.scope = seed, condition.set
            exp = suite.variant(next(iter(suite.variants)), condition.set).model_copy(update=dict(condition.change))
            label = f"{condition.kind}:{condition.rate:g}:{seed}"
            context = context_of(plan, exp, data_of(plan, exp, label), label)
            tasks[condition.folder(seed)] = exp, {**context.data, **context.noisy}
    needed = Choice(to="corrupt")
    results = run(plan, needed, execution, name=suite.name, settings=suite).results
    for place, (exp, outputs) in tasks.items():
        tables = {
            name: execution.store.builds.table(results[outputs[name].step].meta.ref(outputs[name].artifact))
            for name in ("corpus", "queries", "noisy_pairs")
        }
        with StoreError.wrapping("app.cannot_write", target=target / place):
            Beir.write(_collection(tables, exp.score.splits), target / place)
    return list(tasks)


def _collection(tables: dict[str, pa.Table], tested: Sequence[str]) -> Collection:
    """Return the collection, the queries used for training or testing, and the training pairs."""
    pairs, queries = tables["noisy_pairs"], tables["queries"]
    pairs = pairs.filter(pc.equal(pairs["split"], "train"))
    asked = pc.or_(pc.is_in(queries["query_id"], value_set=pairs["query_id"].combine_chunks()),
                   pc.is_in(queries["split"], value_set=pa.array(tested)))  # fmt: skip
    none = SCHEMAS["negatives"].empty_table()
    return Collection.completed(
        documents=tables["corpus"], queries=queries.filter(asked), judgements=pairs, negatives=none
    )
