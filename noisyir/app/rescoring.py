"""Promotion where data grew: the champion's weights are measured on the challenger's data before the gate."""

from collections.abc import Mapping

import pyarrow.compute as pc

from noisyir.app.lookup import artifact_of, command_of_version
from noisyir.app.runs import Execution, run
from noisyir.base.errors import StoreError
from noisyir.engine.known_stages import stage_named
from noisyir.engine.meta import Meta, Ref
from noisyir.engine.plan import Choice, Plan
from noisyir.engine.stage import Output
from noisyir.engine.store import Store
from noisyir.evaluation.settings import PromoteParams
from noisyir.registry.card import Version
from noisyir.registry.evaluation import VALUES, eval_digest, is_scoring
from noisyir.registry.kinds import kinds
from noisyir.registry.promote import Decision, Rescored, promote, to_rescore


def promote_on_data_of_today(
    name: str,
    version: str | None,
    params: PromoteParams,
    execution: Execution,
    *,
    experiment: str | None = None,
    flow_run: str | None = None,
    forced: bool = False,
) -> Decision:
    """Decide as `promote`; a champion that other data measured is encoded, searched and scored, and not trained."""
    store = execution.store
    found = to_rescore(name, version, experiment, store=store)
    again = _rescored(*found, params, execution) if found else None
    return promote(
        name, version, params, store=store, experiment=experiment, rescored=again, flow_run=flow_run, forced=forced
    )


def _rescored(
    challenger: Version, champion: Version, seeds: list[Version], params: PromoteParams, execution: Execution
) -> Rescored:
    """Run the steps between the challenger and its measures with each seed of the champion's recipe."""
    store, plan = execution.store, Plan(0)
    new, between = _measuring(store, challenger)
    for one in seeds:
        plan.keep(**{one.tags.get("seed", "unknown"): _replay(plan, between, new, _model(store, one), one.version)})
    experiment = challenger.tags.get("experiment", challenger.version)
    kept = run(plan, Choice(), execution, name=f"gate-{experiment}", settings=params).kept
    tables = {seed: store.builds.table(ref, VALUES) for seed, ref in kept.items()}
    values = {seed: table.filter(pc.is_valid(table["query_id"])) for seed, table in tables.items()}
    trained = frozenset[str]().union(*(_trained_on(store, _model(store, one)) for one in seeds))
    return Rescored(champion.version, challenger.tags["eval_digest"], values, trained)


def _trained_on(store: Store, model: Ref) -> set[str]:
    """The ids of the queries that a model was trained on; none if its training pairs are not there."""
    pairs = dict(store.builds.meta(model).input_refs()).get("pairs")
    if pairs is None or not store.builds.is_whole(pairs):
        return set()
    table = store.builds.table(pairs, ("query_id", "split"))
    return {*table.filter(pc.equal(table["split"], "train"))["query_id"].to_pylist()}


def _measuring(store: Store, version: Version) -> tuple[Ref, list[Meta]]:
    """A version's model, and the builds between it and its measures, in the order in which they were made.

    Raises:
        StoreError: If the store has no measures of the model any more.
    """
    model, known = _model(store, version), {meta.folder: meta for meta in store.builds.all()}
    chains = []
    for meta in known.values():
        if is_scoring(meta) and eval_digest(meta) == version.tags.get("eval_digest"):
            _leads(meta, model, known, chain := dict[str, Meta]())
            chains += [list(chain.values())] if chain else []
    if not chains:
        raise _gone(store, version)
    return model, min(chains, key=len)  # of the model alone, and not of a hybrid


def _leads(meta: Meta, model: Ref, known: Mapping[str, Meta], chain: dict[str, Meta]) -> bool:
    """Collect the builds that lead from the model to this one, itself last; no training is passed through."""
    trained, leads = {kind.kept for kind in kinds()}, False
    for _, ref in meta.input_refs():
        if ref.digest == model.digest:
            leads = True
        elif ref.artifact not in trained and (before := known.get(ref.path.rpartition("/")[0])):
            leads = before.folder in chain or _leads(before, model, known, chain) or leads
    if leads:
        chain[meta.folder] = meta
    return leads


def _replay(plan: Plan, between: list[Meta], old: Ref, new: Ref, label: str) -> Output:
    """Add these builds to the plan, with another model; the output that has the measures."""
    made = dict[Ref, Output]()
    for meta in between:
        stage = stage_named(meta.stage)
        if stage.version != meta.version:
            raise StoreError("app.build_of_other_version", stage=meta.stage, key=meta.key[:12])
        inputs = {
            name: new if ref.digest == old.digest else made.get(ref, ref)
            for name, ref in meta.input_refs()
        }  # fmt: skip
        with plan.seeded(meta.seed or 0):
            outputs = plan.add(stage, stage.params.model_validate(meta.params), f"v{label}", **inputs)
        made |= {meta.ref(artifact): output for artifact, output in outputs.items()}
    return outputs["metrics"]


def _model(store: Store, version: Version) -> Ref:
    """The artifact with the bytes of a version.

    Raises:
        StoreError: If the store does not have it any more.
    """
    if (ref := artifact_of(store, version.tags.get("artifact_digest"))) is None:
        raise _gone(store, version)
    return ref


def _gone(store: Store, version: Version) -> StoreError:
    command = command_of_version(store, version.tags)
    return StoreError("app.version_not_measurable", version=version.version, url=store.url, command=command)
