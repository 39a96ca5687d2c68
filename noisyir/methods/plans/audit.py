"""The plan of an audit: the experiment's detectors judge pairs, and negatives if there are any."""

from noisyir.audits.settings import AuditParams
from noisyir.audits.stages.audit import AUDIT
from noisyir.audits.stages.audit_negatives import AUDIT_NEGATIVES
from noisyir.base.errors import ConfigError
from noisyir.data.settings import JudgedPairsParams
from noisyir.data.stages.ingest import INGEST, JUDGED_PAIRS
from noisyir.engine.plan import Plan
from noisyir.engine.stage import Outputs
from noisyir.methods.plans.context import Context
from noisyir.methods.plans.data import context_of, data_of
from noisyir.methods.plans.experiment import Experiment
from noisyir.methods.plans.searching import pick
from noisyir.models.stages.init_model import INIT_MODEL


def audit_pairs(exp: Experiment) -> Plan:
    """Audit the training pairs, or the relevant judgements of a held-out split."""
    plan = Plan(exp.seed)
    exp = exp.model_copy(update={"encode": exp.encode.model_copy(update={"splits": ("train",)})})
    add_audit(context_of(plan, exp, data_of(plan, exp)) if exp.audited == "train" else _held_out_context(plan, exp))
    return plan


def _held_out_context(plan: Plan, exp: Experiment) -> Context:
    """The judgements of dev or test in place of the training pairs: no noise put in, nothing hidden.

    Raises:
        ConfigError: If the experiment cuts documents, because people judged whole ones.
    """
    if exp.chunk.words is not None:
        raise ConfigError("methods.audit_of_passages", audited=exp.audited)
    data = plan.add(INGEST, exp.data)
    params = JudgedPairsParams(split=exp.audited, min_relevance=exp.data.min_relevance)
    held = plan.add(JUDGED_PAIRS, params, **pick(data, "qrels", "queries", "pairs", "given_negatives"))
    start = plan.add(INIT_MODEL, exp.model)["model"]
    return Context(plan, exp, {**data, **held}, held, start)


def add_audit(context: Context) -> None:
    """Verdicts on the context's pairs with their evidence, as a table and as files for the data's owner."""
    params, flags = context.exp.audit or AuditParams(), context.flags()
    pairs, texts = context.noisy["noisy_pairs"], context.texts
    suspects: Outputs = {}
    if context.exp.mine.judges and context.exp.audited == "train":  # nothing is mined for held-out queries
        if not context.mines:
            context.mined(context.start)
        *_, mined = context.mines.values()
        suspects = context.plan.add(
            AUDIT_NEGATIVES,
            params.suspects(),
            pairs=pairs,
            candidates=mined.candidates,
            verdicts=mined.verdicts,
            negatives=mined.negatives,
            **texts,
        )
    elif (given := context.given_negatives()) is not None:
        verdicts, candidates = {"ensemble": given["verdicts"]}, given["candidates"]
        suspects = context.plan.add(
            AUDIT_NEGATIVES, params.suspects(), pairs=pairs, candidates=candidates, verdicts=verdicts, **texts
        )
    written = context.plan.add(
        AUDIT,
        params,
        pairs=pairs,
        flags=flags["noise_flags"],
        estimate=flags["noise_estimate"],
        kept_by_null=flags["kept_by_null"],
        competitors=context.competitors(),
        features=context.features(),
        **suspects,
        **texts,
    )
    context.plan.keep(**written)
